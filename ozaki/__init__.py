"""FP64-accurate, correctly rounded and reproducible products and sums from low-precision products."""

# ruff: noqa: F401  # what is public says so where it is defined; the imports are for editors, and for `__all__`

import multiword  # before its modules: threads that import both packages wait in one order
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
from ozaki.covariances import corrcoef, cov
from ozaki.elementary.angles import acos, asin, atan, cos, cospi, sin, sinpi, tan
from ozaki.elementary.complex_numbers import abs, angle
from ozaki.elementary.exponentials import (
    cosh,
    elu,
    exp,
    exp2,
    exp10,
    expm1,
    mish,
    sigmoid,
    silu,
    sinh,
    softplus,
    tanh,
)
from ozaki.elementary.logarithms import acosh, asinh, atanh, cbrt, log, log1p, log2, log10, logit, rsqrt, sqrt
from ozaki.elementary.normal import erf, erfc, gelu
from ozaki.elementary.two_arguments import atan2, hypot, logaddexp, pow
from ozaki.execution.executors import executor
from ozaki.execution.plan import Plan
from ozaki.fingerprints import fingerprint
from ozaki.linalg.residual import residual, two_word_product
from ozaki.mukunoki import mukunoki_dgemm, mukunoki_split, slice_count
from ozaki.product.cost import CostWarning
from ozaki.product.operand import Operand
from ozaki.public import PUBLIC as _PUBLIC
from ozaki.rounding.error_free import two_product, two_sum
from ozaki.rowwise.api import gmean, hmean, layer_norm, log_softmax, logsumexp, rms_norm, softmax
from ozaki.sums.api import dot, mean, norm, rms, sum, vdot
from ozaki.sums.central import kurtosis, moment, skew
from ozaki.sums.convolution import convolve, correlate
from ozaki.sums.cumulative import cumsum
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.groups import group_count, group_dot, group_mean, group_std, group_sum, group_var
from ozaki.sums.groups_covariance import group_cov
from ozaki.sums.groups_skipping import group_average, group_nanmean, group_nanstd, group_nansum, group_nanvar
from ozaki.sums.rolling import rolling_mean, rolling_std, rolling_sum, rolling_var
from ozaki.sums.statistics import average, nanmean, nanstd, nansum, nanvar, std, var
from ozaki.sums.textbook import acc_sum, extract_vector, near_sum, sum_k
from ozaki.symmetric import cdist_squared, gram

__all__ = sorted(_PUBLIC)


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
