"""FP64-accurate, correctly rounded and reproducible products and sums from low-precision products."""

import multiword  # noqa: F401  # before its modules: threads that import both packages wait in one order
from ozaki.api import (
    accurate_cgemm,
    accurate_dgemm,
    accurate_sgemm,
    accurate_zgemm,
    matmul,
    plan,
    prepare,
)
from ozaki.arrays import array
from ozaki.contractions import einsum, inner, matvec, outer, tensordot, vecdot
from ozaki.execution.plan import Plan
from ozaki.fingerprints import fingerprint
from ozaki.lazy import ON_DASK as _ON_DASK
from ozaki.lazy import or_on_dask as _or_on_dask
from ozaki.linalg.residual import residual, two_word_product
from ozaki.mukunoki import mukunoki_dgemm, mukunoki_split, slice_count
from ozaki.product.cost import CostWarning
from ozaki.product.operand import Operand
from ozaki.rounding.error_free import two_product, two_sum
from ozaki.sums.api import dot, mean, norm, sum, vdot
from ozaki.sums.cumulative import cumsum
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.groups import group_count, group_dot, group_mean, group_std, group_sum, group_var
from ozaki.sums.statistics import average, nanmean, nanstd, nansum, nanvar, std, var
from ozaki.sums.textbook import acc_sum, extract_vector, near_sum, sum_k
from ozaki.symmetric import cdist_squared, corrcoef, cov, gram
from ozaki.tensors import takes_tensors as _takes_tensors

__all__ = [
    "CostWarning",
    "ExactSum",
    "Operand",
    "Plan",
    "acc_sum",
    "accurate_cgemm",
    "accurate_dgemm",
    "accurate_sgemm",
    "accurate_zgemm",
    "array",
    "average",
    "cdist_squared",
    "corrcoef",
    "cov",
    "cumsum",
    "dot",
    "einsum",
    "extract_vector",
    "fingerprint",
    "gram",
    "group_count",
    "group_dot",
    "group_mean",
    "group_std",
    "group_sum",
    "group_var",
    "inner",
    "matmul",
    "matvec",
    "mean",
    "mukunoki_dgemm",
    "mukunoki_split",
    "nanmean",
    "nanstd",
    "nansum",
    "nanvar",
    "near_sum",
    "norm",
    "outer",
    "plan",
    "prepare",
    "residual",
    "slice_count",
    "std",
    "sum",
    "sum_k",
    "tensordot",
    "two_product",
    "two_sum",
    "two_word_product",
    "var",
    "vdot",
    "vecdot",
]


# Arrays of other libraries are dealt with here: the functions themselves know NumPy's and CuPy's.
for _name in __all__:
    if not isinstance(_function := globals()[_name], type):
        globals()[_name] = _takes_tensors(_or_on_dask(_function) if _name in _ON_DASK else _function)


def __dir__() -> list[str]:
    """The public names; `ozaki.linalg` is one, and modules that are not imported yet are not."""
    return [*__all__, "linalg"]


def __getattr__(name: str) -> str:
    """`ozaki.__version__`, looked up when it is asked for: reading metadata would slow every import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ozaki-multiword")
    except PackageNotFoundError:  # used from its source tree
        return "0+unknown"
