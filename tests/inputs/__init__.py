"""What every public function makes of every kind of input: a table, as data.

One policy for all: what can be read as numbers without loss or doubt gives the result of the plain NumPy
array; everything else is a TypeError or ValueError that names the argument. `python -m tests.inputs.page`
makes a page of the documentation of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import multiword
import ozaki
from ozaki.public import PUBLIC
from tests.inputs.extras import EXTRAS, FORMS, function_of, missing_package, public_names
from tests.inputs.kinds import BFLOAT16, EMPTY, SCALARS, Kind
from tests.inputs.tables import _CORE, ELEMENTARY, OF_TWO, ROWS, TABLES, Function
from tests.oracle import FORMATS
from tests.reductions import ONE_ARRAY, REFERENCES

SAME, TYPE, VALUE = "as the plain array", "TypeError", "ValueError"


@dataclass(frozen=True)
class Outcome:
    """What a call must come to: SAME, or an error whose message matches a pattern."""

    result: str
    message: str = ""


GROUPS = {**TABLES, **EXTRAS}
FUNCTIONS = tuple(function for group in GROUPS.values() for function in group)

LINEAR_ALGEBRA = {
    f"{module}.{name}"
    for module in ("ozaki.linalg", "ozaki.linalg.verified")
    for name in public_names(module)
}
"""Functions whose errors are those of numpy.linalg: `tests.linalg` says what they accept."""

NO_ARRAYS = LINEAR_ALGEBRA | {
    "ozaki.CostWarning",
    "ozaki.executor",  # a context
    "ozaki.array",  # whose functions are those of the table, or NumPy's
    "ozaki.dask.flox.aggregation",  # which flox gives arrays to
    "ozaki.cupy.Call",
    "ozaki.cupy.emulated",
    "ozaki.cupy.run",
    "ozaki.Operand",  # made by prepare
    "ozaki.Plan",
    "ozaki.random.Generator",
    "ozaki.random.default_rng",
    # which take sparse matrices, or right sides beside them: see `tests/sparse`
    *(f"ozaki.sparse.{name}" for name in public_names("ozaki.sparse")),
    *(f"ozaki.sparse.linalg.{name}" for name in public_names("ozaki.sparse.linalg")),
    "ozaki.group_count",  # takes labels alone
    "ozaki.dask.group_count",
    *(f"ozaki.mpi.{name}" for name in public_names("ozaki.mpi")),  # whose ranks are in `tests/test_mpi.py`
    "ozaki.torch.ExactGradients",  # of parameters
    "ozaki.torch.reproducible",
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
    "multiword.batched.attainable_flops",
    "multiword.batched.bytes_moved",
    "multiword.batched.least_seconds",
    "multiword.batched.operational_intensity",
    "multiword.probe.Findings",
    "multiword.probe.infer_blocking",
    "multiword.probe.print_report",
    "multiword.probe.probe",
    "multiword.probe.save_report",
    "multiword.probe.subtree_sizes",
    "multiword.probe.survey",
}
"""Public names that take no array."""

NO_ARRAYS |= {f"ozaki.{m}.{n}" for n in FORMS for m in PUBLIC[n].instead}
"""And those of which others stand for all."""

_WITH_TENSORS = {f.name for group in TABLES.values() for f in group if f.name.startswith("ozaki.")} - {
    "ozaki.ExactSum"
}
TAKES = {
    "dask": {f"{module}.{name}" for module in ("ozaki", "ozaki.dask") for name in public_names("ozaki.dask")},
    "torch": _WITH_TENSORS,
    "jax": _WITH_TENSORS | {f"ozaki.jax.{name}" for name in public_names("ozaki.jax")},
}
"""The functions that take the arrays of each package."""


def skipped(function: Function, kind: Kind) -> bool:
    """Cells that mean nothing: no addend, or an empty one, of a product that is not empty."""
    return function.argument == "c" and (kind is EMPTY or kind.name == "None")


def missing(function: Function, kind: Kind) -> str | None:
    """The package that is not installed and without which the cell cannot be tested."""
    taken = function.name in TAKES.get(kind.package, ())
    return missing_package(function.name) or (kind.package if taken and not find_spec(kind.package) else None)


def expected(function: Function, kind: Kind) -> Outcome:
    """The policy: what the call must come to."""
    named = rf"\b{function.argument}\b"
    if kind.refused and function.name not in TAKES.get(kind.package, ()):
        return Outcome(TYPE, rf"{named}.*({kind.refused})|({kind.refused}).*{named}")
    dtype = kind.plain(function.base).dtype
    mixed = function.name == "multiword.batched_matmul" and dtype == BFLOAT16  # with float16
    if mixed or not holds_dtype(function.holds, np.dtype(dtype)):
        return Outcome(TYPE, named)
    if (kind in SCALARS or kind.name == "0-d tensor") and function.takes != "any":
        return Outcome(VALUE, "axis|dim" if function.name.endswith(".dot") else named)
    if kind is EMPTY and function.name in ("ozaki.plan", "ozaki.convolve", "ozaki.correlate"):
        return Outcome(VALUE, "nothing|empty")
    return Outcome(SAME)


def holds_dtype(holds: str, dtype: np.dtype) -> bool:
    """Whether a function that `holds` such dtypes takes this one."""
    if dtype.kind == "c":
        return holds in ("any", "floating")
    if holds == "floating":
        return dtype.name in ("float32", "float64", "complex64", "complex128")
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
    columns = kind.name.startswith("empty") and function.argument == "b"
    return make(function.base.T).T if columns else make(function.base)


_WIDE = np.array([[2**53 + 1, 2**53]]), np.array([[1], [-1]])
_ROW, _SIGNS = _WIDE[0][0], _WIDE[1][:, 0]
_WIDE_ROWS = (_ROW * _SIGNS, _ROW, _ROW[:1].repeat(9), _ROW[0] + np.array([0, 0, 1]))


def _wide_sum(name: str, function: Callable) -> Any:
    """Whether a reduction has the exact result of a row of which float64 numbers have another."""
    reference = partial(REFERENCES[name], fmt=FORMATS[np.dtype(float)])
    row = next(row for row in _WIDE_ROWS if reference(row) != reference(row.astype(float)))
    return function(row, dtype=float) == reference(row)[0]


_WIDE_SUMS: dict[str, Callable[[Callable], Any]] = {
    **{name: partial(_wide_sum, name) for name in ONE_ARRAY},
    "dot": lambda f: f(_ROW, _SIGNS, dtype=float),
    "vdot": lambda f: f(*_WIDE, dtype=float),
    "group_sum": lambda f: f(_ROW * _SIGNS, *_ONE, dtype=float),
    "group_mean": lambda f: 2 * f(_ROW * _SIGNS, *_ONE),
    "group_var": lambda f: 4 * f(_ROW, *_ONE),
    "group_std": lambda f: 2 * f(_ROW, *_ONE),
    "group_dot": lambda f: f(_ROW, _SIGNS, *_ONE, dtype=float),
    "group_nansum": lambda f: f(_ROW * _SIGNS, *_ONE, dtype=float),
    "group_nanmean": lambda f: 2 * f(_ROW * _SIGNS, *_ONE),
    "group_nanvar": lambda f: 4 * f(_ROW, *_ONE),
    "group_nanstd": lambda f: 2 * f(_ROW, *_ONE),
    "group_average": lambda f: 2 * f(_ROW * _SIGNS, *_ONE, _ONES),
    "group_cov": lambda f: 2 * f(_ROW, *_ONE),
}
_ONE, _ONES = (np.zeros(2, int), 1), np.array([1, 1])
_WIDE_ALONE: dict[str, Callable[[], Any]] = {
    "ozaki.average": lambda: ozaki.average(_ROW * _SIGNS, weights=_ONES) * 2,
    "ozaki.dask.average": lambda: (
        function_of("ozaki.dask", "average")(_ROW * _SIGNS, weights=_ONES).compute() * 2
    ),
    "ozaki.convolve": lambda: -ozaki.convolve(_ROW, _SIGNS, "valid")[0],
    "ozaki.correlate": lambda: ozaki.correlate(_ROW, _SIGNS)[0],
}


def _wide_sums(module: str) -> dict[str, tuple[str, Callable[[], Any]]]:
    return {
        f"{module}.{name}": (SAME, lambda name=name, call=call: call(function_of(module, name)))
        for name, call in _WIDE_SUMS.items()
    }


def _running_sum(cumsum: Callable) -> Any:
    return np.asarray(cumsum(_ROW * _SIGNS, dtype=float))[1]


WIDE_INTEGERS: dict[str, tuple[str, Callable[[], Any]]] = {
    "ozaki.accurate_dgemm": (TYPE, lambda: ozaki.accurate_dgemm(*_WIDE, accuracy="exact")),
    "ozaki.accurate_zgemm": (TYPE, lambda: ozaki.accurate_zgemm(*_WIDE, accuracy="exact")),
    "ozaki.accurate_sgemm": (TYPE, lambda: ozaki.accurate_sgemm(*_WIDE, accuracy="exact")),
    "ozaki.accurate_cgemm": (TYPE, lambda: ozaki.accurate_cgemm(*_WIDE, accuracy="exact")),
    "ozaki.matmul": (TYPE, lambda: ozaki.matmul(*_WIDE, accuracy="exact")),
    "ozaki.gram": (TYPE, lambda: ozaki.gram(_WIDE[0])),
    **{
        f"{module}.{name}": (TYPE, lambda m=module, name=name: np.asarray(function_of(m, name)(_WIDE[0])))
        for module in ("ozaki", "ozaki.dask")
        for name in ("cov", "corrcoef")
    },
    "ozaki.cdist_squared": (TYPE, lambda: ozaki.cdist_squared(_WIDE[0], _WIDE[0])),
    "ozaki.einsum": (TYPE, lambda: ozaki.einsum("ab,bc", *_WIDE)),
    "ozaki.tensordot": (TYPE, lambda: ozaki.tensordot(*_WIDE, axes=1)),
    "ozaki.inner": (TYPE, lambda: ozaki.inner(_WIDE[0], _WIDE[1].T)),
    "ozaki.outer": (TYPE, lambda: ozaki.outer(*_WIDE)),
    "ozaki.vecdot": (TYPE, lambda: ozaki.vecdot(_WIDE[0][0], _WIDE[1][:, 0])),
    "ozaki.matvec": (TYPE, lambda: ozaki.matvec(_WIDE[0], _WIDE[1][:, 0])),
    "ozaki.plan": (TYPE, lambda: ozaki.plan(*_WIDE)),
    "ozaki.dask.matmul": (TYPE, lambda: function_of("ozaki.dask", "matmul")(*_WIDE)),
    "ozaki.two_word_product": (TYPE, lambda: ozaki.two_word_product(*_WIDE)),
    "ozaki.residual": (TYPE, lambda: ozaki.residual(*_WIDE, _WIDE[0])),
    "ozaki.prepare": (TYPE, lambda: ozaki.prepare(_WIDE[0])),
    "ozaki.mukunoki_dgemm": (TYPE, lambda: ozaki.mukunoki_dgemm(*_WIDE, summation="nearsum")),
    "ozaki.mukunoki_split": (TYPE, lambda: ozaki.mukunoki_split(_WIDE[0])),
    "ozaki.slice_count": (TYPE, lambda: ozaki.slice_count(*_WIDE)),
    **_wide_sums("ozaki"),
    **_wide_sums("ozaki.dask"),
    **{name: (SAME, call) for name, call in _WIDE_ALONE.items()},
    **{
        f"{module}.cumsum": (SAME, lambda module=module: _running_sum(function_of(module, "cumsum")))
        for module in ("ozaki", "ozaki.dask")
    },
    **{
        f"ozaki.{name}": (TYPE, lambda name=name: getattr(ozaki, name)(_ROW))
        for name in ("moment", "skew", "kurtosis")
    },
    **{
        f"{module}.{name}": (TYPE, lambda m=module, name=name: np.asarray(function_of(m, name)(_ROW, 1)))
        for module in ("ozaki", "ozaki.dask")
        for name in PUBLIC
        if name.startswith("rolling_")
    },
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
    **{
        f"{module}.{name}": (TYPE, lambda module=module, name=name: function_of(module, name)(_ROW))
        for module in ("ozaki", "ozaki.dask")
        for name in ELEMENTARY
    },
    **{
        f"{module}.{name}": (TYPE, lambda module=module, name=name: function_of(module, name)(_ROW, _ROW))
        for module in ("ozaki", "ozaki.dask")
        for name in OF_TWO
    },
    **{f"ozaki.{name}": (TYPE, lambda name=name: getattr(ozaki, name)(_ROW)) for name in ROWS},
}
"""For every function that takes int64: a call with integers of which one is beyond 2**53. It is a TypeError,
or has the value 1 where they count as they are."""

HALF_BY_NATURE = {"multiword.from_complex"}
"""Functions that round to half precision whatever they are given, integers beyond 2**53 to infinities."""
