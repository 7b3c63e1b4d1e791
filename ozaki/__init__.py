"""FP64-accurate, correctly rounded and reproducible products and sums from low-precision products."""

from ozaki._gemm import accurate_dgemm, plan
from ozaki._plan import Plan

__all__ = ["Plan", "accurate_dgemm", "plan"]
