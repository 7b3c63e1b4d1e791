"""FP64-accurate, correctly rounded and reproducible products and sums from low-precision products."""

from ozaki._fingerprint import fingerprint
from ozaki._gemm import (
    accurate_cgemm,
    accurate_dgemm,
    accurate_sgemm,
    accurate_zgemm,
    matmul,
    plan,
    prepare,
)
from ozaki._operand import Operand
from ozaki._plan import Plan

__all__ = [
    "Operand",
    "Plan",
    "accurate_cgemm",
    "accurate_dgemm",
    "accurate_sgemm",
    "accurate_zgemm",
    "fingerprint",
    "matmul",
    "plan",
    "prepare",
]
