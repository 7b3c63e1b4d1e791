"""What every public function makes of every kind of input: a table, as data.

One policy for all: what can be read as numbers without loss or doubt gives the result of the plain NumPy
array; everything else is a TypeError or ValueError that names the argument. `python -m tests.inputs_page`
makes a page of the documentation of it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import multiword
import ozaki
from tests.input_kinds import BFLOAT16, EMPTY, SCALARS, Kind

MATRIX = np.array([[2.0, 1.0, 3.0], [1.0, 4.0, 2.0], [3.0, 2.0, 5.0]])
VECTOR = MATRIX[0]
EYE = np.eye(3)

SAME, TYPE, VALUE = "as the plain array", "TypeError", "ValueError"


@dataclass(frozen=True)
class Outcome:
    """What a call must come to: SAME, or an error whose message matches a pattern."""

    result: str
    message: str = ""


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
        holds) or "half" (float16 and bfloat16).
    """

    name: str
    argument: str
    call: Callable[[Any], Any]
    base: np.ndarray = field(default_factory=lambda: MATRIX)
    takes: str = "any"
    dtype: Any = None
    holds: str = "any"

    def __str__(self) -> str:
        return f"{self.name}({self.argument})"


HALF, SINGLE = MATRIX.astype(np.float16), MATRIX.astype(np.float32)
_CORE = multiword.TensorCore()


def _times_eye(x: ozaki.Operand) -> np.ndarray:
    """The product of a prepared operand, which multiplies matrices of its own dtype."""
    return ozaki.matmul(x, EYE.astype(x.dtype))


def _gemms() -> list[Function]:
    found = []
    for letter, dtype in zip("dszc", (np.float64, np.float32, np.complex128, np.complex64), strict=True):
        name, holds = f"accurate_{letter}gemm", "any" if letter in "zc" else "real"
        gemm = getattr(ozaki, name)
        for argument, call in (
            ("a", lambda x, f=gemm: f(x, EYE)),
            ("b", lambda x, f=gemm: f(EYE, x)),
            ("c", lambda x, f=gemm: f(EYE, EYE, beta=1, c=x)),
        ):
            base = MATRIX if letter in "dz" else SINGLE
            found.append(Function(f"ozaki.{name}", argument, call, base, "matrix", dtype, holds))
    return found


GROUPS: dict[str, tuple[Function, ...]] = {
    "Products": tuple(_gemms()),
    "Products like NumPy's": (
        Function("ozaki.matmul", "a", lambda x: ozaki.matmul(x, EYE), MATRIX, "axes"),
        Function("ozaki.matmul", "b", lambda x: ozaki.matmul(EYE, x), MATRIX, "axes"),
        Function("ozaki.plan", "a", lambda x: ozaki.plan(x, EYE), MATRIX, "matrix"),
        Function("ozaki.prepare", "x", lambda x: _times_eye(ozaki.prepare(x)), MATRIX, "matrix"),
        Function(
            "ozaki.mukunoki_dgemm",
            "a",
            lambda x: ozaki.mukunoki_dgemm(x, EYE),
            MATRIX,
            "matrix",
            float,
            "real",
        ),
        Function(
            "ozaki.mukunoki_dgemm",
            "b",
            lambda x: ozaki.mukunoki_dgemm(EYE, x),
            MATRIX,
            "matrix",
            float,
            "real",
        ),
        Function("ozaki.mukunoki_split", "x", ozaki.mukunoki_split, MATRIX, "axes", float, "real"),
        Function(
            "ozaki.slice_count", "a", lambda x: ozaki.slice_count(x, EYE), MATRIX, "matrix", float, "real"
        ),
    ),
    "Sums": (
        *(Function(f"ozaki.{f.__name__}", "x", f) for f in (ozaki.sum, ozaki.mean, ozaki.norm, ozaki.cumsum)),
        *(Function(f"ozaki.{f.__name__}", "x", f) for f in (ozaki.var, ozaki.std)),
        *(
            Function(f"ozaki.{f.__name__}", "x", f)
            for f in (ozaki.nansum, ozaki.nanmean, ozaki.nanvar, ozaki.nanstd)
        ),
        Function("ozaki.dot", "x", lambda x: ozaki.dot(x, x), takes="axes"),
        Function("ozaki.vdot", "x", lambda x: ozaki.vdot(x, x)),
        Function("ozaki.ExactSum", "array", lambda x: ozaki.ExactSum().add(x).to_bytes(), holds="real"),
        Function(
            "ozaki.ExactSum", "x", lambda x: ozaki.ExactSum().add_products(x, x).to_bytes(), holds="real"
        ),
        Function("ozaki.fingerprint", "x", ozaki.fingerprint),
    ),
    "Textbook sums": (
        *(
            Function(f"ozaki.{f.__name__}", "p", f, VECTOR, "vector", float, "real")
            for f in (ozaki.near_sum, ozaki.acc_sum, ozaki.sum_k)
        ),
        Function(
            "ozaki.extract_vector",
            "p",
            lambda x: ozaki.extract_vector(2.0**60, x),
            VECTOR,
            "vector",
            float,
            "real",
        ),
        *(
            Function(f"ozaki.{f.__name__}", "a", lambda x, f=f: f(x, x), MATRIX, "any", float, "real")
            for f in (ozaki.two_sum, ozaki.two_product)
        ),
    ),
    "Single precision": (
        Function(
            "multiword.matmul",
            "a",
            lambda x: multiword.matmul(x, EYE.astype(np.float32)),
            SINGLE,
            "matrix",
            np.float32,
            "float32",
        ),
        Function(
            "multiword.matmul",
            "b",
            lambda x: multiword.matmul(EYE.astype(np.float32), x),
            SINGLE,
            "matrix",
            np.float32,
            "float32",
        ),
        Function(
            "multiword.matmul",
            "c",
            lambda x: multiword.matmul(SINGLE, SINGLE, beta=1, c=x),
            SINGLE,
            "any",
            np.float32,
            "float32",
        ),
        Function(
            "multiword.matmul_plan",
            "a",
            lambda x: multiword.matmul_plan(x, EYE.astype(np.float32)),
            SINGLE,
            "matrix",
            np.float32,
            "float32",
        ),
    ),
    "Words and the tensor core": (
        Function("multiword.split", "x", multiword.split, SINGLE, "any", None, "real"),
        Function("multiword.join", "words", lambda x: multiword.join((x, x)), HALF, "any", None, "word"),
        Function(
            "multiword.round_to", "x", lambda x: multiword.round_to(x, "bf16"), MATRIX, "any", None, "real"
        ),
        Function("multiword.TensorCore", "a", lambda x: _CORE.gemm(x, EYE), MATRIX, "matrix", None, "real"),
        Function("multiword.TensorCore", "b", lambda x: _CORE.gemm(EYE, x), MATRIX, "matrix", None, "real"),
        Function(
            "multiword.TensorCore",
            "c",
            lambda x: _CORE.gemm(MATRIX, MATRIX, x),
            MATRIX,
            "matrix",
            np.float32,
            "real",
        ),
        Function(
            "multiword.underflow_counts", "x", multiword.underflow_counts, SINGLE, "any", np.float32, "real"
        ),
    ),
    "Batches of half precision": (
        Function(
            "multiword.batched_matmul",
            "a",
            lambda x: multiword.batched_matmul(x, HALF),
            HALF,
            "matrix",
            None,
            "half",
        ),
        Function(
            "multiword.batched_matmul",
            "b",
            lambda x: multiword.batched_matmul(HALF, x),
            HALF,
            "matrix",
            None,
            "half",
        ),
        Function(
            "multiword.batched_matmul",
            "c",
            lambda x: multiword.batched_matmul(HALF, HALF, beta=1, c=x),
            HALF,
            "matrix",
            None,
            "half",
        ),
        Function(
            "multiword.HalfComplex",
            "pairs",
            lambda x: multiword.HalfComplex(x).pairs,
            HALF[:, :2],
            "axes",
            None,
            "half",
        ),
        Function("multiword.from_complex", "z", lambda x: multiword.from_complex(x).pairs),
        Function(
            "multiword.from_planes",
            "real",
            lambda x: multiword.from_planes(x, x).pairs,
            HALF,
            "any",
            None,
            "half",
        ),
    ),
}
FUNCTIONS = tuple(function for group in GROUPS.values() for function in group)

NO_ARRAYS = {
    "ozaki.CostWarning",
    "ozaki.Operand",  # made by prepare
    "ozaki.Plan",
    "multiword.BoundRow",
    "multiword.Blocking",
    "multiword.Engine",
    "multiword.FORMATS",
    "multiword.Format",
    "multiword.GENERATIONS",
    "multiword.Generation",
    "multiword.PRODUCTS",
    "multiword.Plan",
    "multiword.Product",
    "multiword.SCHEMES",
    "multiword.Scheme",
    "multiword.bound_table",
    "multiword.conversion_bound",
    "multiword.error_bound",
    "multiword.expected_length",
    "multiword.get_engine",
    "multiword.get_format",
    "multiword.get_generation",
    "multiword.get_scheme",
    "multiword.leading_zeros_probability",
    "multiword.significand_lengths",
    "multiword.to_complex",  # takes a HalfComplex and nothing else
    "multiword.underflow_probability",
}
"""Public names that take no array."""


def skipped(function: Function, kind: Kind) -> bool:
    """Cells that mean nothing: no addend, or an empty one, of a product that is not empty."""
    return function.argument == "c" and (kind is EMPTY or kind.name == "None")


def expected(function: Function, kind: Kind) -> Outcome:
    """The policy: what the call must come to."""
    named = rf"\b{function.argument}\b"
    if kind.refused:
        return Outcome(TYPE, rf"{named}.*({kind.refused})|({kind.refused}).*{named}")
    dtype = kind.plain(function.base).dtype
    mixed = function.name == "multiword.batched_matmul" and dtype == BFLOAT16  # with float16
    if mixed or not holds_dtype(function.holds, np.dtype(dtype)):
        return Outcome(TYPE, named)
    if kind in SCALARS and function.takes != "any":
        return Outcome(VALUE, named if function.name != "ozaki.dot" else "axis|dimension")
    if kind is EMPTY and function.name == "ozaki.plan":
        return Outcome(VALUE, "nothing|empty")
    return Outcome(SAME)


def holds_dtype(holds: str, dtype: np.dtype) -> bool:
    """Whether a function that `holds` such dtypes takes this one."""
    if dtype.kind == "c":
        return holds == "any"
    if holds == "half":
        return dtype in (np.dtype(np.float16), BFLOAT16)
    if holds == "word":  # float32 stands for tf32
        return dtype in (np.dtype(np.float16), BFLOAT16, np.dtype(np.float32))
    if holds == "float32":
        return dtype == BFLOAT16 or np.can_cast(dtype, np.float32, "safe")
    return True


def plain_input(function: Function, kind: Kind) -> np.ndarray:
    """The plain array whose result a call must have."""
    x = np.array(_made(kind.plain, function, kind))
    if function.dtype is None or x.dtype.kind == "c":
        return x
    return x.astype(function.dtype)


def made_input(function: Function, kind: Kind) -> Any:
    """What the call is given."""
    return _made(kind.make, function, kind)


def _made(make: Callable[[np.ndarray], Any], function: Function, kind: Kind) -> Any:
    """An empty right factor lacks columns, not rows."""
    columns = kind is EMPTY and function.argument == "b"
    return make(function.base.T).T if columns else make(function.base)


_WIDE = np.array([[2**53 + 1, 2**53]]), np.array([[1], [-1]])
_ROW, _SIGNS = _WIDE[0][0], _WIDE[1][:, 0]
WIDE_INTEGERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "ozaki.accurate_dgemm": (TYPE, lambda: ozaki.accurate_dgemm(*_WIDE, accuracy="exact")),
    "ozaki.accurate_zgemm": (TYPE, lambda: ozaki.accurate_zgemm(*_WIDE, accuracy="exact")),
    "ozaki.accurate_sgemm": (TYPE, lambda: ozaki.accurate_sgemm(*_WIDE, accuracy="exact")),
    "ozaki.accurate_cgemm": (TYPE, lambda: ozaki.accurate_cgemm(*_WIDE, accuracy="exact")),
    "ozaki.matmul": (TYPE, lambda: ozaki.matmul(*_WIDE, accuracy="exact")),
    "ozaki.plan": (TYPE, lambda: ozaki.plan(*_WIDE)),
    "ozaki.prepare": (TYPE, lambda: ozaki.prepare(_WIDE[0])),
    "ozaki.mukunoki_dgemm": (TYPE, lambda: ozaki.mukunoki_dgemm(*_WIDE, summation="nearsum")),
    "ozaki.mukunoki_split": (TYPE, lambda: ozaki.mukunoki_split(_WIDE[0])),
    "ozaki.slice_count": (TYPE, lambda: ozaki.slice_count(*_WIDE)),
    "ozaki.sum": (SAME, lambda: ozaki.sum(_ROW * _SIGNS, dtype=float)),
    "ozaki.mean": (SAME, lambda: 2 * ozaki.mean(_ROW * _SIGNS)),
    "ozaki.nansum": (SAME, lambda: ozaki.nansum(_ROW * _SIGNS, dtype=float)),
    "ozaki.nanmean": (SAME, lambda: 2 * ozaki.nanmean(_ROW * _SIGNS)),
    "ozaki.var": (SAME, lambda: 4 * ozaki.var(_ROW)),
    "ozaki.std": (SAME, lambda: 2 * ozaki.std(_ROW)),
    "ozaki.nanvar": (SAME, lambda: 4 * ozaki.nanvar(_ROW)),
    "ozaki.nanstd": (SAME, lambda: 2 * ozaki.nanstd(_ROW)),
    "ozaki.norm": (SAME, lambda: (ozaki.norm(_ROW[:1].repeat(9)) - 3 * 2.0**53) / 4),
    "ozaki.cumsum": (SAME, lambda: ozaki.cumsum(_ROW * _SIGNS, dtype=float)[1]),
    "ozaki.dot": (SAME, lambda: ozaki.dot(_ROW, _SIGNS, dtype=float)),
    "ozaki.vdot": (SAME, lambda: ozaki.vdot(*_WIDE, dtype=float)),
    "ozaki.ExactSum": (SAME, lambda: ozaki.ExactSum().add_products(_ROW, _SIGNS).round()),
    "ozaki.fingerprint": (SAME, lambda: ozaki.fingerprint(_ROW) != ozaki.fingerprint(_ROW - [1, 0])),
    "ozaki.near_sum": (TYPE, lambda: ozaki.near_sum(_ROW * _SIGNS)),
    "ozaki.acc_sum": (TYPE, lambda: ozaki.acc_sum(_ROW * _SIGNS)),
    "ozaki.sum_k": (TYPE, lambda: ozaki.sum_k(_ROW * _SIGNS)),
    "ozaki.extract_vector": (TYPE, lambda: ozaki.extract_vector(2.0**60, _ROW)),
    "ozaki.two_sum": (TYPE, lambda: ozaki.two_sum(_ROW, 0.0)),
    "ozaki.two_product": (TYPE, lambda: ozaki.two_product(_ROW, 1.0)),
    "multiword.split": (TYPE, lambda: multiword.split(_ROW)),
    "multiword.round_to": (TYPE, lambda: multiword.round_to(_ROW, "fp64")),
    "multiword.underflow_counts": (TYPE, lambda: multiword.underflow_counts(_ROW)),
    "multiword.TensorCore": (TYPE, lambda: _CORE.gemm(_WIDE[0], np.eye(2))),
}
"""For every function that takes int64: a call with integers of which one is beyond 2**53. It is a TypeError,
or has the value 1 where they count as they are."""

HALF_BY_NATURE = {"multiword.from_complex"}
"""Functions that round to half precision whatever they are given, integers beyond 2**53 to infinities."""
