"""The array arguments of every public function of `ozaki` and `multiword`, as data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import multiword
import ozaki
from ozaki.elementary.record import PARTS
from ozaki.public import PUBLIC
from tests.inputs.kinds import KINDS, Kind, like
from tests.reductions import ONE_ARRAY

MATRIX = np.array([[2.0, 1.0, 3.0], [1.0, 4.0, 2.0], [3.0, 2.0, 5.0]])
VECTOR = MATRIX[0]
EYE = np.eye(3)


@dataclass(frozen=True)
class Function:
    """One array argument of a public function.

    Attributes
    ----------
    name : of the function in its package, and the argument's name.
    call : the function of that argument alone; the others are plain arrays, or the same object.
    base : a plain array that it takes.
    takes : "matrix", "vector", "axes" (at least one) or "any": the number of dimensions.
    dtype : what a real input is converted to before anything is computed; None: nothing.
    holds : the dtypes that it accepts: "real", "any" (complex ones, too), "float32" (what float32
        holds), "half" (float16 and bfloat16), "word" or "floating" (float32, float64 and complex ones).
    kinds : the kinds of input that it is tested with.
    plain : a plain array as it is given to the call whose result the others must have.
    """

    name: str
    argument: str
    call: Callable[[Any], Any]
    base: np.ndarray = field(default_factory=lambda: MATRIX)
    takes: str = "any"
    dtype: Any = None
    holds: str = "any"
    kinds: tuple[Kind, ...] = KINDS
    plain: Callable[[np.ndarray], Any] = np.asarray

    def __str__(self) -> str:
        return f"{self.name}({self.argument})"


HALF, SINGLE = MATRIX.astype(np.float16), MATRIX.astype(np.float32)
SINGLE_EYE = EYE.astype(np.float32)
_CORE = multiword.TensorCore()
_LABELS = np.array([1, 0, 1])


def _times_eye(x: ozaki.Operand) -> np.ndarray:
    """The product of a prepared operand, which multiplies matrices of its own dtype."""
    return ozaki.matmul(x, EYE.astype(x.dtype))


def _gemms() -> list[Function]:
    found = []
    for letter, dtype in zip("dszc", (np.float64, np.float32, np.complex128, np.complex64), strict=True):
        name, holds = f"accurate_{letter}gemm", "any" if letter in "zc" else "real"
        gemm = getattr(ozaki, name)
        for argument, call in (
            ("a", lambda x, f=gemm: f(x, like(EYE, x))),
            ("b", lambda x, f=gemm: f(like(EYE, x), x)),
            ("c", lambda x, f=gemm: f(like(EYE, x), like(EYE, x), beta=1, c=x)),
        ):
            base = MATRIX if letter in "dz" else SINGLE
            found.append(Function(f"ozaki.{name}", argument, call, base, "matrix", dtype, holds))
    return found


_of_doubles = partial(Function, dtype=float, holds="real")
_of_singles = partial(Function, base=SINGLE, dtype=np.float32, holds="float32")
_of_halves = partial(Function, base=HALF, takes="matrix", holds="half")
_of_core = partial(Function, "multiword.TensorCore", takes="matrix", holds="real")

_ELEMENTWISE = {n: r.arrays for n, r in PUBLIC.items() if r.heading == "Elementary functions"}
ELEMENTARY = tuple(name for name, arrays in _ELEMENTWISE.items() if arrays == ("x",))
"""The functions of one number, element by element."""

OF_TWO = {name: arrays[0] for name, arrays in _ELEMENTWISE.items() if len(arrays) == 2}
"""Those of two, and the first one's name."""


def held(name: str) -> str:
    """Return the numbers that an elementary function takes."""
    return "any" if name in PARTS else "real"


ROWS = tuple(name for name, record in PUBLIC.items() if record.heading == "Functions of rows")
"""softmax and its like."""

TABLES: dict[str, tuple[Function, ...]] = {
    "Products": tuple(_gemms()),
    "Products like NumPy's": (
        Function("ozaki.matmul", "a", lambda x: ozaki.matmul(x, like(EYE, x)), MATRIX, "axes"),
        Function("ozaki.matmul", "b", lambda x: ozaki.matmul(like(EYE, x), x), MATRIX, "axes"),
        Function("ozaki.gram", "x", ozaki.gram, MATRIX, "matrix"),
        _of_doubles("ozaki.cov", "x", ozaki.cov, takes="axes"),
        _of_doubles("ozaki.corrcoef", "x", ozaki.corrcoef, takes="axes"),
        _of_doubles(
            "ozaki.cdist_squared", "x", lambda x: ozaki.cdist_squared(x, like(EYE, x)), takes="matrix"
        ),
        _of_doubles(
            "ozaki.cdist_squared", "y", lambda x: ozaki.cdist_squared(like(EYE, x), x), takes="matrix"
        ),
        Function("ozaki.einsum", "operand", lambda x: ozaki.einsum("...,ab->a...", x, like(EYE, x)), MATRIX),
        Function("ozaki.tensordot", "a", lambda x: ozaki.tensordot(x, like(EYE, x), 0), MATRIX),
        Function("ozaki.tensordot", "b", lambda x: ozaki.tensordot(like(EYE, x), x, 0), MATRIX),
        Function("ozaki.inner", "a", lambda x: ozaki.inner(x, like(EYE, x)), MATRIX),
        Function("ozaki.outer", "a", lambda x: ozaki.outer(x, like(EYE, x)), MATRIX),
        Function("ozaki.outer", "b", lambda x: ozaki.outer(like(EYE, x), x), MATRIX),
        Function("ozaki.vecdot", "x", lambda x: ozaki.vecdot(x, x), MATRIX, "axes"),
        Function("ozaki.matvec", "x", lambda x: ozaki.matvec(like(EYE, x), x), MATRIX, "axes"),
        Function("ozaki.plan", "a", lambda x: ozaki.plan(x, like(EYE, x)), MATRIX, "matrix"),
        Function(
            *("ozaki.residual", "a", lambda x: ozaki.residual(x, like(EYE, x), x), MATRIX, "matrix"),
            dtype=float,
        ),
        *(
            Function(f"ozaki.{name}", argument, call, MATRIX, "matrix", float)
            for name, argument, call in (
                ("two_word_product", "a", lambda x: ozaki.two_word_product(x, like(EYE, x))[0]),
                ("two_word_product", "b", lambda x: ozaki.two_word_product(like(EYE, x), x)[0]),
            )
        ),
        Function("ozaki.prepare", "x", lambda x: _times_eye(ozaki.prepare(x)), MATRIX, "matrix"),
        _of_doubles(
            "ozaki.mukunoki_dgemm", "a", lambda x: ozaki.mukunoki_dgemm(x, like(EYE, x)), takes="matrix"
        ),
        _of_doubles(
            "ozaki.mukunoki_dgemm", "b", lambda x: ozaki.mukunoki_dgemm(like(EYE, x), x), takes="matrix"
        ),
        _of_doubles("ozaki.mukunoki_split", "x", ozaki.mukunoki_split, takes="axes"),
        _of_doubles("ozaki.slice_count", "a", lambda x: ozaki.slice_count(x, like(EYE, x)), takes="matrix"),
    ),
    "Sums": (
        *(Function(f"ozaki.{name}", "x", getattr(ozaki, name)) for name in (*ONE_ARRAY, "cumsum", "average")),
        Function("ozaki.dot", "x", lambda x: ozaki.dot(x, x, axis=-1), takes="axes"),
        Function("ozaki.vdot", "x", lambda x: ozaki.vdot(x, x)),
        Function("ozaki.ExactSum", "array", lambda x: ozaki.ExactSum().add(x).to_bytes(), holds="real"),
        Function(
            "ozaki.ExactSum", "x", lambda x: ozaki.ExactSum().add_products(x, x).to_bytes(), holds="real"
        ),
        *(
            Function(f"ozaki.{f.__name__}", "values", lambda x, f=f: f(x, like(_LABELS, x), 2), takes="axes")
            for f in (
                *(ozaki.group_sum, ozaki.group_mean, ozaki.group_var, ozaki.group_std),
                *(ozaki.group_nansum, ozaki.group_nanmean, ozaki.group_nanvar, ozaki.group_nanstd),
            )
        ),
        Function(
            "ozaki.group_average",
            "values",
            lambda x: ozaki.group_average(x, like(_LABELS, x), 2, like(np.ones(len(_LABELS)), x)),
            takes="axes",
        ),
        Function(
            "ozaki.group_cov",
            "values",
            lambda x: ozaki.group_cov(x, like(_LABELS, x), 2),
            takes="axes",
            holds="real",
        ),
        *(
            Function(f"ozaki.{name}", "x", partial(getattr(ozaki, name), axis=None), holds="real")
            for name in ("moment", "skew", "kurtosis")
        ),
        *(
            Function(
                f"ozaki.{name}", "x", partial(getattr(ozaki, name), window=1), takes="axes", holds="real"
            )
            for name in ("rolling_sum", "rolling_mean", "rolling_var", "rolling_std")
        ),
        *(
            Function(f"ozaki.{f.__name__}", "a", lambda x, f=f: f(x, x), VECTOR, "vector")
            for f in (ozaki.convolve, ozaki.correlate)
        ),
        Function("ozaki.group_dot", "x", lambda x: ozaki.group_dot(x, x, like(_LABELS, x), 2), takes="axes"),
        Function("ozaki.fingerprint", "x", ozaki.fingerprint),
        *(
            Function(f"ozaki.{name}", "x", partial(getattr(ozaki, name), axis=None), holds="real")
            for name in ROWS
        ),
    ),
    "Elementary functions": (
        *(Function(f"ozaki.{name}", "x", getattr(ozaki, name), holds=held(name)) for name in ELEMENTARY),
        *(
            Function(f"ozaki.{name}", first, lambda x, n=name: getattr(ozaki, n)(x, x), holds="real")
            for name, first in OF_TWO.items()
        ),
    ),
    "Textbook sums": (
        *(
            _of_doubles(f"ozaki.{f.__name__}", "p", f, VECTOR, "vector")
            for f in (ozaki.near_sum, ozaki.acc_sum, ozaki.sum_k)
        ),
        _of_doubles(
            "ozaki.extract_vector", "p", lambda x: ozaki.extract_vector(2.0**60, x), VECTOR, "vector"
        ),
        *(
            _of_doubles(f"ozaki.{f.__name__}", "a", lambda x, f=f: f(x, x))
            for f in (ozaki.two_sum, ozaki.two_product)
        ),
    ),
    "Single precision": (
        _of_singles("multiword.matmul", "a", lambda x: multiword.matmul(x, SINGLE_EYE), takes="matrix"),
        _of_singles("multiword.matmul", "b", lambda x: multiword.matmul(SINGLE_EYE, x), takes="matrix"),
        _of_singles("multiword.matmul", "c", lambda x: multiword.matmul(SINGLE, SINGLE, beta=1, c=x)),
        _of_singles(
            "multiword.matmul_plan", "a", lambda x: multiword.matmul_plan(x, SINGLE_EYE), takes="matrix"
        ),
    ),
    "Words and the tensor core": (
        Function("multiword.split", "x", multiword.split, SINGLE, holds="real"),
        Function("multiword.join", "words", lambda x: multiword.join((x, x)), HALF, holds="word"),
        Function("multiword.round_to", "x", lambda x: multiword.round_to(x, "bf16"), holds="real"),
        _of_core("a", lambda x: _CORE.gemm(x, EYE)),
        _of_core("b", lambda x: _CORE.gemm(EYE, x)),
        _of_core("c", lambda x: _CORE.gemm(MATRIX, MATRIX, x), dtype=np.float32),
        _of_singles("multiword.underflow_counts", "x", multiword.underflow_counts, holds="real"),
    ),
    "Batches of half precision": (
        _of_halves("multiword.batched_matmul", "a", lambda x: multiword.batched_matmul(x, HALF)),
        _of_halves("multiword.batched_matmul", "b", lambda x: multiword.batched_matmul(HALF, x)),
        _of_halves(
            "multiword.batched_matmul", "c", lambda x: multiword.batched_matmul(HALF, HALF, beta=1, c=x)
        ),
        _of_halves(
            "multiword.HalfComplex",
            "pairs",
            lambda x: multiword.HalfComplex(x).pairs,
            base=HALF[:, :2],
            takes="axes",
        ),
        Function("multiword.from_complex", "z", lambda x: multiword.from_complex(x).pairs),
        _of_halves("multiword.from_planes", "real", lambda x: multiword.from_planes(x, x).pairs, takes="any"),
    ),
}
