"""Which public functions the families of the fuzz call, and what each result is compared with, as a table.

pytest runs some cases of every family, `campaign` as many as there is time for, and `devices` those that both
sides of a comparison can make.
"""

from typing import NamedTuple

from ozaki import elementary
from ozaki.elementary.record import PARTS
from ozaki.public import PUBLIC
from tests.fuzz.solvers import METHODS
from tests.reductions import ONE_ARRAY


class Family(NamedTuple):
    """The public functions that a family calls, without `ozaki.`, and its oracle."""

    functions: str
    oracle: str


GEMMS = "accurate_dgemm accurate_sgemm accurate_zgemm accurate_cgemm"
INTEGERS, BOUND, BITS = "integers, rounded once", "a proved bound", "the bits of another form of the call"
RATIONAL, LAPACK = "fractions", "errors of LAPACK's size"
_FACTORIZATIONS = "linalg.cholesky linalg.qr linalg.lu_factor linalg.lu_solve"
_SPECTRA = "linalg.eigh linalg.eigvalsh linalg.svd linalg.svdvals"
_SYSTEMS = "linalg.solve linalg.inv linalg.det linalg.slogdet linalg.lstsq linalg.solve_triangular"
_TEXTBOOK = "near_sum acc_sum sum_k extract_vector two_sum two_product"
_EINSUM = "einsum tensordot inner outer vecdot matvec"
_GROUPS = "group_sum group_mean group_var group_std group_dot group_count ExactSum"
_GROUPS_WITHOUT_NAN = "group_nansum group_nanmean group_nanvar group_nanstd"
_RANKS = "linalg.pinv linalg.matrix_rank linalg.cond linalg.norm"
_CORE = "multiword.TensorCore"

_ROWS = " ".join(name for name, r in PUBLIC.items() if r.heading == "Functions of rows")

FAMILIES = {
    "gemm, bits": Family(GEMMS, INTEGERS),
    "gemm, exact": Family(GEMMS, INTEGERS),
    "gemm, alpha beta c out": Family(GEMMS, INTEGERS),
    "gemm, certified": Family(f"{GEMMS} plan", BOUND),
    "gemm, same bits": Family(f"{GEMMS} prepare", BITS),
    "gemm, row by row": Family("accurate_dgemm accurate_sgemm", BITS),
    "gemm, order of rows": Family(GEMMS, BITS),
    "gemm, order of k": Family(GEMMS, BITS),
    "gemm, Inf and NaN": Family(GEMMS, BITS),
    "gemm, int64": Family("accurate_dgemm", INTEGERS),
    "gemm, int8 words": Family(GEMMS, BITS),
    "gemm, int8 words in stacks": Family(f"{GEMMS} matmul prepare gram", BITS),
    "matmul": Family("matmul", INTEGERS),
    "matmul, integers": Family("matmul", INTEGERS),
    "matmul, two words": Family("matmul", BOUND),
    "mukunoki": Family("mukunoki_dgemm mukunoki_split slice_count", INTEGERS),
    "gram": Family("gram", BITS),
    "cov, corrcoef": Family("cov corrcoef", BOUND),
    "cdist_squared": Family("cdist_squared", INTEGERS),
    "einsum and its like": Family(_EINSUM, INTEGERS),
    "residual, two_word_product": Family("residual two_word_product", INTEGERS),
    **{name: Family(name, INTEGERS) for name in (*ONE_ARRAY, "dot", "vdot", "cumsum", "average")},
    "var, std with weights": Family("var std", INTEGERS),
    "moment, skew, kurtosis": Family("moment skew kurtosis", INTEGERS),
    "rolling sums": Family("rolling_sum rolling_mean rolling_var rolling_std", INTEGERS),
    "convolve, correlate": Family("convolve correlate", INTEGERS),
    "near_sum, acc_sum, …": Family(_TEXTBOOK, INTEGERS),
    "ExactSum": Family("ExactSum", INTEGERS),
    "groups": Family(f"{_GROUPS} {_GROUPS_WITHOUT_NAN}", INTEGERS),
    "group_average": Family("group_average", INTEGERS),
    "group_cov": Family("group_cov", INTEGERS),
    "fingerprint": Family("fingerprint", BITS),
    "linalg": Family(f"{_FACTORIZATIONS} {_SPECTRA} {_SYSTEMS} {_RANKS}", BITS),
    "linalg: clusters": Family(_SPECTRA, LAPACK),
    "elementary functions": Family(" ".join(elementary.NAMES), INTEGERS),
    "functions of complex numbers": Family(" ".join(PARTS), INTEGERS),
    "functions of rows": Family(_ROWS, INTEGERS),
    "sparse matrices": Family("matmul residual sum norm", INTEGERS),
    "sparse.linalg": Family(" ".join(f"sparse.linalg.{name}" for name in METHODS), BITS),
    "random": Family("random.default_rng random.Generator", BITS),
    "linalg.verified.solve": Family("linalg.verified.solve", RATIONAL),
    "linalg.verified: scales": Family(
        "linalg.verified.solve linalg.verified.inv linalg.verified.certify linalg.verified.det"
        " linalg.verified.lstsq linalg.verified.eigh linalg.verified.svdvals"
        " linalg.verified.is_positive_definite",
        BITS,
    ),
    "linalg.verified": Family(
        "linalg.verified.inv linalg.verified.certify linalg.verified.det linalg.verified.lstsq"
        " linalg.verified.eigh linalg.verified.svdvals linalg.verified.is_positive_definite",
        RATIONAL,
    ),
    "round_to": Family("multiword.round_to", RATIONAL),
    "split, join": Family("multiword.split multiword.join", RATIONAL),
    "half-complex": Family("multiword.from_complex multiword.from_planes multiword.to_complex", RATIONAL),
    "TensorCore.gemm": Family(_CORE, RATIONAL),
    "TensorCore.gemm, others": Family(_CORE, RATIONAL),
    "multiword.matmul": Family("multiword.matmul multiword.matmul_plan", BOUND),
    "batched_matmul": Family("multiword.batched_matmul multiword.HalfComplex", BOUND),
    "situation: wrong out": Family("", BITS),
    "situation: merges": Family("ExactSum", INTEGERS),
    "situation: scratch memory": Family("", BITS),
    "situation: mixed libraries": Family("", BITS),
    "situation: re-entry": Family("", BITS),
    "situation: float modes": Family("", BITS),
    "situation: threads": Family("", BITS),
    "situation: forks": Family("", BITS),
    "situation: front ends": Family(
        "array torch.matmul torch.sum torch.mean torch.norm torch.var torch.dot torch.vdot"
        " jax.matmul jax.sum jax.mean",
        BITS,
    ),
    "situation: lists": Family("sum ExactSum", INTEGERS),
    "situation: blocks": Family("dask.sum dask.mean dask.var dask.nansum dask.norm dask.matmul", INTEGERS),
}
