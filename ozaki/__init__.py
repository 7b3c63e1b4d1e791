"""FP64-accurate, correctly rounded and reproducible products and sums from low-precision products."""

from ozaki.api import (
    accurate_cgemm,
    accurate_dgemm,
    accurate_sgemm,
    accurate_zgemm,
    matmul,
    plan,
    prepare,
)
from ozaki.fingerprints import fingerprint
from ozaki.operand import Operand
from ozaki.plans import Plan
from ozaki.rounding.error_free import two_product, two_sum
from ozaki.slices.mukunoki import mukunoki_dgemm, mukunoki_split, slice_count
from ozaki.sums.api import dot, mean, norm, sum, vdot
from ozaki.sums.cumulative import cumsum
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.textbook import acc_sum, extract_vector, near_sum, sum_k

__all__ = [
    "ExactSum",
    "Operand",
    "Plan",
    "acc_sum",
    "accurate_cgemm",
    "accurate_dgemm",
    "accurate_sgemm",
    "accurate_zgemm",
    "cumsum",
    "dot",
    "extract_vector",
    "fingerprint",
    "matmul",
    "mean",
    "mukunoki_dgemm",
    "mukunoki_split",
    "near_sum",
    "norm",
    "plan",
    "prepare",
    "slice_count",
    "sum",
    "sum_k",
    "two_product",
    "two_sum",
    "vdot",
]
