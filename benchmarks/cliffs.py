"""`python -m benchmarks.cliffs [--gpu] [--json FILE]`: every public function beside NumPy's or CuPy's own.

Functions come from the records of `ozaki.public`, so that none is forgotten; shapes are those that people
meet: one number to ten million, long and short rows, stacks of tiny matrices. What is asked is where a
function is far slower than its neighbours, not how fast it is: the tail is printed, and all rows are kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import ozaki
from benchmarks.dgemm import versions
from benchmarks.timing import compact
from multiword.runtime.parallel import thread_count
from ozaki.public import PUBLIC

BURST, TURNS = 0.02, 5
"""Seconds of calls in a turn, and turns."""

DTYPES = ("float32", "float64", "complex128")
ROWS = ((1,), (1000,), (10**5,), (10**7,), (1000, 1000), (10**6, 4), (4, 10**6), (16384, 768), (100, 20, 30))
MATRICES = (2, 8, 32, 100, 300, 1000)
STACKS = ((2000, 3), (1000, 8), (1000, 16), (200, 32), (100, 64))
PRODUCTS = (
    *(((n, n), (n, n)) for n in (1, 4, 16, 64, 256, 1024)),
    *(((s, n, n), (s, n, n)) for s, n in STACKS),
    *(((100, 100, 3), (3, 3)), ((10**6, 3), (3, 3))),
    *(((1, n), (n, n)) for n in (30, 100, 300, 1000)),
    *(((n, n), (n, 1)) for n in (30, 100, 300, 1000)),
    *(((2000, 4), (4, 2000)), ((100, 10**5), (10**5, 100)), ((1000,), (1000,)), ((300, 1000), (1000,))),
)
EINSUMS = ("ij,jk->ik", "ij,ij->ij", "ij,ij->i", "ij,ij->", "ij->j", "ij,kj->ik")
NOT_TIMED = {
    **dict.fromkeys(
        ("Operand", "CostWarning", "Plan", "prepare", "plan", "ExactSum", "array", "executor"),
        "no computation",
    ),
    **dict.fromkeys(("fingerprint", "residual", "two_word_product"), "nothing of NumPy's does the same"),
    **dict.fromkeys(
        ("mukunoki_split", "mukunoki_dgemm", "slice_count", "extract_vector"), "a paper's own step"
    ),
    **dict.fromkeys(("acc_sum", "near_sum", "sum_k", "two_sum", "two_product"), "a paper's own step"),
    **dict.fromkeys(
        ("linalg.lu_factor", "linalg.lu_solve", "linalg.solve_triangular"), "NumPy has none; see linalg.solve"
    ),
    "accurate_cgemm": "as accurate_zgemm",
}
"""Public names without a row, and why."""


def _softmax(xp: Any, x: Any, axis: int) -> tuple[Any, Any]:
    """The softmax and its logarithm, as NumPy's users write them."""
    less = x - x.max(axis=axis, keepdims=True)
    powers = xp.exp(less)
    total = powers.sum(axis=axis, keepdims=True)
    return powers / total, less - xp.log(total)


def _moment_over(power: int, of: int) -> Callable[..., Any]:
    """A central moment over a power of the deviation, as NumPy's users write them."""

    def native(xp: Any) -> Callable[..., Any]:
        def moments(x: Any, axis: int) -> Any:
            less = x - x.mean(axis=axis, keepdims=True)
            return (less**power).mean(axis=axis) / (less * less).mean(axis=axis) ** (of / 2)

        return moments

    return native


def _running(x: Any, axis: int, powers: int) -> Any:
    """What differences of running sums of x, and of its squares, are made of."""
    return [(x if power == 1 else x * x).cumsum(axis=axis) for power in range(1, powers + 1)]


NATIVE = {
    **dict.fromkeys(("rolling_sum", "rolling_mean"), lambda xp: partial(_running, powers=1)),
    **dict.fromkeys(("rolling_var", "rolling_std"), lambda xp: partial(_running, powers=2)),
    "moment": _moment_over(3, 0),
    "skew": _moment_over(3, 3),
    "kurtosis": _moment_over(4, 4),
    "norm": "linalg.norm",
    "rms": lambda xp: lambda x, axis: xp.sqrt(xp.mean(x.real**2 + x.imag**2, axis=axis)),
    "average": "average",
    "softmax": lambda xp: lambda x, axis: _softmax(xp, x, axis)[0],
    "log_softmax": lambda xp: lambda x, axis: _softmax(xp, x, axis)[1],
    "logsumexp": lambda xp: (
        lambda x, axis: xp.log(xp.exp(x - x.max(axis=axis, keepdims=True)).sum(axis=axis))
    ),
    "layer_norm": lambda xp: (
        lambda x, axis: (
            (x - x.mean(axis=axis, keepdims=True)) / xp.sqrt(x.var(axis=axis, keepdims=True) + 1e-5)
        )
    ),
    "rms_norm": lambda xp: lambda x, axis: x / xp.sqrt(xp.mean(x * x, axis=axis, keepdims=True) + 1e-5),
    "gmean": lambda xp: lambda x, axis: xp.exp(xp.mean(xp.log(x), axis=axis)),
    "hmean": lambda xp: lambda x, axis: 1 / xp.mean(1 / x, axis=axis),
    "rsqrt": lambda xp: lambda x: 1 / xp.sqrt(x),
    "exp10": lambda xp: lambda x: xp.power(10.0, x, dtype=x.dtype),
    "sinpi": lambda xp: lambda x: xp.sin(np.pi * x),
    "cospi": lambda xp: lambda x: xp.cos(np.pi * x),
    **dict.fromkeys(("asin", "acos", "atan", "asinh", "acosh", "atanh"), "arc"),
    "pow": "power",
    "atan2": "arctan2",
    **dict.fromkeys(("erf", "erfc", "logit"), "special"),
    "sigmoid": lambda xp: lambda x: 1 / (1 + xp.exp(-x)),
    "softplus": lambda xp: lambda x: xp.logaddexp(0, x),
    "silu": lambda xp: lambda x: x / (1 + xp.exp(-x)),
    "gelu": lambda xp: lambda x: x / 2 * (1 + special(xp).erf(x * np.sqrt(0.5).astype(x.dtype))),
    "elu": lambda xp: lambda x: xp.where(x > 0, x, xp.expm1(x)),
    "mish": lambda xp: lambda x: x * xp.tanh(xp.logaddexp(0, x)),
}
"""What a function is timed beside, where that is not NumPy's of the same name."""


MORE: dict[str, dict[str, Any]] = {
    "moment": {"order": 3},
    **{name: {"window": 100} for name in PUBLIC if name.startswith("rolling_")},
}
"""What reductions take beside arrays and an axis."""

REAL = {
    *(*MORE, "skew", "kurtosis"),
    *(r.name for r in PUBLIC.values() if r.heading == "Functions of rows"),
}
"""Reductions of real numbers alone."""

Wanted = Callable[[str], bool]
"""Whether a function is to be timed."""


class Row(NamedTuple):
    """A call of ours, and NumPy's or CuPy's."""

    function: str
    call: str
    dtype: str
    numbers: int
    ours: Callable[[], Any]
    native: Callable[[], Any]


def special(xp: Any) -> Any:
    """Return SciPy's special functions, or CuPy's."""
    if xp is np:
        import scipy.special as module
    else:
        import cupyx.scipy.special as module
    return module


def native(name: str, xp: Any) -> Callable[..., Any]:
    """Return NumPy's or CuPy's function."""
    given = NATIVE.get(name, name)
    if callable(given):
        return given(xp)
    if given == "arc":
        return getattr(xp, f"arc{name[1:]}")
    if given == "special":
        return getattr(special(xp), name)
    found = xp
    for part in given.split("."):
        if not hasattr(found, part):
            raise AttributeError(f"give NATIVE in benchmarks/cliffs.py what {name} is timed beside")
        found = getattr(found, part)
    return found


def drawn(xp: Any, shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Return normal numbers."""
    rng = xp.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def rows_of_sums(xp: Any, dtype: str, wanted: Wanted) -> Iterator[Row]:
    """Reductions, over the first and the last axis."""
    for name in (
        r.name
        for r in PUBLIC.values()
        if r.heading in ("Sums", "Moments", "Moving windows", "Functions of rows") and "axis" in r.parameters
    ):
        if not wanted(name) or (name in REAL and dtype[0] == "c"):
            continue
        count = len(PUBLIC[name].arrays) - len(MORE.get(name, {}).keys() & {*PUBLIC[name].arrays})
        for shape in ROWS:
            arrays = [drawn(xp, shape, dtype, i) for i in range(count)]
            if name in ("gmean", "hmean"):  # those of negative numbers are NaN
                arrays = [abs(x) for x in arrays]
            for axis in {0, len(shape) - 1}:
                ours, other = getattr(ozaki, name), (None if name in ("dot", "vdot") else native(name, xp))
                theirs = (
                    (lambda a=arrays, axis=axis: (a[0] * a[1]).sum(axis=axis))
                    if other is None
                    else (lambda f=other, a=arrays, axis=axis: f(*a, axis=axis))
                )
                call = f"{shape} axis {axis}"
                yield Row(
                    name,
                    call,
                    dtype,
                    arrays[0].size,
                    partial(ours, *arrays, axis=axis, **MORE.get(name, {})),
                    theirs,
                )


def _weighted_variance(xp: Any, x: Any, axis: int, w: Any) -> Any:
    """The weighted variance, as NumPy's users write it."""
    less = x - xp.expand_dims(xp.average(x, axis, w), axis)
    return xp.average((less * less.conj()).real, axis, w)


def rows_of_weights(xp: Any, dtype: str, wanted: Wanted) -> Iterator[Row]:
    """Weighted means, variances and covariances, of a weight for each number, or each observation."""
    for name, ours, theirs in (
        ("average, weights", ozaki.average, xp.average),
        ("var, weights", lambda x, axis, w: ozaki.var(x, axis, aweights=w), partial(_weighted_variance, xp)),
    ):
        for shape in ROWS if wanted(name) else ():
            x, w = drawn(xp, shape, dtype), abs(drawn(xp, shape, dtype, 1))
            for axis in {0, len(shape) - 1}:
                given = (x, axis, w)
                yield Row(
                    name,
                    f"{shape} axis {axis}",
                    dtype,
                    x.size,
                    partial(ours, *given),
                    partial(theirs, *given),
                )
    for n in (16, 256) if wanted("cov, weights") and dtype[0] != "c" else ():
        x, w = drawn(xp, (n, 1000), dtype), abs(drawn(xp, (1000,), dtype, 1))
        both = (partial(f.cov, x, aweights=w) for f in (ozaki, xp))
        yield Row("cov, weights", f"{n} × 1000", dtype, x.size, *both)


def rows_of_groups(xp: Any, dtype: str, wanted: Wanted) -> Iterator[Row]:
    """Sums by group, beside weighted counts."""
    if dtype != "float64":
        return
    for name in (x for x in PUBLIC if x.startswith("group_") and wanted(x)):
        for n, groups in ((1000, 10), (10**6, 10), (10**6, 10**5)):
            labels, x = xp.random.default_rng(1).integers(0, groups, n), drawn(xp, (n,), dtype)
            arguments = {"group_count": (labels, groups), "group_dot": (x, x, labels, groups)}
            arguments["group_average"] = x, labels, groups, abs(x)
            given = arguments.get(name, (x, labels, groups))
            theirs = partial(xp.bincount, labels, x, groups)
            yield Row(
                name,
                f"{n} numbers, {groups} groups",
                dtype,
                n,
                lambda f=name, a=given: getattr(ozaki, f)(*a),
                theirs,
            )


def rows_of_functions(xp: Any, dtype: str, wanted: Wanted) -> Iterator[Row]:
    """Elementary functions of numbers in (0.1, 0.9), where all are defined, and 1.1 to 1.9 for acosh."""
    if dtype[0] == "c":
        return
    for name in (r.name for r in PUBLIC.values() if r.heading == "Elementary functions" and wanted(r.name)):
        for n in (1, 1000, 10**6):
            x = (xp.random.default_rng(2).random(n) * 0.8 + (1.1 if name == "acosh" else 0.1)).astype(dtype)
            both = [x] * len(PUBLIC[name].arrays)  # of pow and its like
            yield Row(
                name,
                f"{n} numbers",
                dtype,
                n,
                partial(PUBLIC[name].value, *both),
                partial(native(name, xp), *both),
            )


def rows_of_products(xp: Any, dtype: str, wanted: Wanted) -> Iterator[Row]:
    """Products and contractions."""
    for left, right in PRODUCTS if wanted("matmul") else ():
        a, b = drawn(xp, left, dtype), drawn(xp, right, dtype, 1)
        call = f"{left} {right}"
        yield Row(
            "matmul",
            call,
            dtype,
            a.size + b.size,
            lambda a=a, b=b: ozaki.matmul(a, b),
            lambda a=a, b=b: a @ b,
        )
    gemm = {"float32": "accurate_sgemm", "float64": "accurate_dgemm", "complex128": "accurate_zgemm"}[dtype]
    for n in (16, 256, 1024):
        a, b = drawn(xp, (n, n), dtype), drawn(xp, (n, n), dtype, 1)
        for name, ours, theirs in (
            (gemm, lambda a=a, b=b, f=gemm: getattr(ozaki, f)(a, b), lambda a=a, b=b: a @ b),
            ("gram", lambda a=a: ozaki.gram(a), lambda a=a: a.conj().T @ a),
            *(
                (f, lambda a=a, f=f: getattr(ozaki, f)(a), lambda a=a, f=f: getattr(xp, f)(a))
                for f in ("cov", "corrcoef")
                if dtype[0] != "c"
            ),
            *(
                (f, lambda a=a, b=b, f=f: getattr(ozaki, f)(a, b), lambda a=a, b=b, f=f: getattr(xp, f)(a, b))
                for f in ("inner",)
            ),
            ("tensordot", lambda a=a, b=b: ozaki.tensordot(a, b, 1), lambda a=a, b=b: xp.tensordot(a, b, 1)),
            ("outer", lambda a=a, b=b: ozaki.outer(a[0], b[0]), lambda a=a, b=b: xp.outer(a[0], b[0])),
            ("matvec", lambda a=a, b=b: ozaki.matvec(a, b[0]), lambda a=a, b=b: a @ b[0]),
        ):
            yield Row(name, f"{n}", dtype, a.size, ours, theirs)
        for e in EINSUMS:
            given = (a, b) if "," in e else (a,)
            yield Row(
                "einsum",
                f"{e}, {n}",
                dtype,
                a.size,
                lambda e=e, g=given: ozaki.einsum(e, *g),
                lambda e=e, g=given: xp.einsum(e, *g),
            )
    for n in (1000, 10**7) if wanted("vdot") else ():
        x, y = drawn(xp, (n,), dtype), drawn(xp, (n,), dtype, 1)
        yield Row("vdot", f"{n} numbers", dtype, n, partial(ozaki.vdot, x, y), partial(xp.vdot, x, y))
    for name in ("convolve", "correlate"):
        for m, n in ((10, 10), (10**4, 100)) if wanted(name) else ():
            x, y = drawn(xp, (m,), dtype), drawn(xp, (n,), dtype, 1)
            yield Row(
                name,
                f"{m} by {n} numbers",
                dtype,
                m + n,
                lambda x=x, y=y, f=name: getattr(ozaki, f)(x, y),
                lambda x=x, y=y, f=name: getattr(xp, f)(x, y),
            )
    for shape in ROWS[4:] if wanted("vecdot") else ():
        x, y = drawn(xp, shape, dtype), drawn(xp, shape, dtype, 1)
        yield Row(
            "vecdot",
            f"{shape}",
            dtype,
            x.size,
            lambda x=x, y=y: ozaki.vecdot(x, y),
            lambda x=x, y=y: (x.conj() * y).sum(-1),
        )
    if dtype[0] != "c":
        x = drawn(xp, (300, 50), dtype)
        yield Row(
            "cdist_squared",
            "300 × 50",
            dtype,
            x.size,
            lambda: ozaki.cdist_squared(x, x),
            lambda: ((x[:, None] - x) ** 2).sum(-1),
        )


def _condition(sizes: Any) -> Any:
    return sizes[..., 0] / sizes[..., -1]


LINALG: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    name: (lambda m, a, f=name: getattr(m, f)(a), lambda m, a, f=name: getattr(m, f)(a))
    for name in ("cholesky", "det", "slogdet", "inv", "qr", "eigh", "eigvalsh", "svd")
} | {
    "norm": (
        lambda m, a: m.norm(a, 2, axis=(-2, -1)),
        lambda m, a: m.svd(a, compute_uv=False).max(axis=-1),
    ),
    "cond": (lambda m, a: m.cond(a), lambda m, a: _condition(m.svd(a, compute_uv=False))),
    "matrix_rank": (lambda m, a: m.matrix_rank(a), lambda m, a: m.matrix_rank(a)),
    "pinv": (lambda m, a: m.pinv(a), lambda m, a: m.pinv(a)),
    "solve": (lambda m, a: m.solve(a, a), lambda m, a: m.solve(a, a)),
    "lstsq": (lambda m, a: m.lstsq(a, a, None), lambda m, a: m.lstsq(a, a, None)),
    "svdvals": (lambda m, a: m.svdvals(a), lambda m, a: m.svd(a, compute_uv=False)),
    "verified.solve": (lambda m, a: m.verified.solve(a, a), lambda m, a: m.solve(a, a)),
    "verified.inv": (lambda m, a: m.verified.inv(a), lambda m, a: m.inv(a)),
    "verified.det": (lambda m, a: m.verified.det(a), lambda m, a: m.det(a)),
    "verified.eigh": (lambda m, a: m.verified.eigh(a), lambda m, a: m.eigh(a)),
    "verified.lstsq": (lambda m, a: m.verified.lstsq(a, a), lambda m, a: m.lstsq(a, a, None)),
    "verified.svdvals": (lambda m, a: m.verified.svdvals(a), lambda m, a: m.svd(a, compute_uv=False)),
    "verified.certify": (lambda m, a: m.verified.certify(a), lambda m, a: m.inv(a)),
    "verified.is_positive_definite": (
        lambda m, a: m.verified.is_positive_definite(a),
        lambda m, a: m.cholesky(a),
    ),
}
"""What `ozaki.linalg` is called with, and NumPy's or CuPy's, of symmetric positive definite matrices."""


def rows_of_linalg(xp: Any, dtype: str, wanted: Wanted) -> Iterator[Row]:
    """Linear algebra of single matrices and of stacks."""
    if dtype == "float32":
        return
    for name, (ours, theirs) in LINALG.items():
        if not wanted(f"linalg.{name}"):
            continue
        sizes = [
            (n, n)
            for n in MATRICES
            if n <= (100 if "verified" in name else 300 if name in ("eigh", "svd") else 1000)
        ]
        stacks = [] if "verified" in name or name == "lstsq" else [(s, n, n) for s, n in STACKS]
        for shape in (*sizes, *stacks):
            x = drawn(xp, shape, dtype)
            a = x @ x.conj().swapaxes(-1, -2)
            a = xp.tril(a, -1) + xp.tril(a, -1).conj().swapaxes(-1, -2)  # Hermitian to the last bit
            parts = 2 if a.dtype.kind == "c" else 1  # of larger numbers
            a += 4 * parts * shape[-1] * xp.eye(shape[-1], dtype=dtype)
            yield Row(
                f"linalg.{name}",
                f"{shape}",
                dtype,
                a.size,
                lambda f=ours, a=a: f(ozaki.linalg, a),
                lambda f=theirs, a=a: f(xp.linalg, a),
            )


GRIDS = (10, 50, 300)
"""Laplacians of squares: five entries a row."""


def rows_of_sparse(xp: Any, dtype: str, wanted: Wanted) -> Iterator[Row]:
    """Products, sums and residuals of sparse matrices in each format, beside SciPy's or CuPy's."""
    import scipy.sparse as host

    if xp is np:
        sparse: Any = host
    else:
        import cupyx.scipy.sparse as sparse
    for n in GRIDS if any(map(wanted, SPARSE)) else ():
        line = host.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
        grid = host.csr_matrix(host.kronsum(line, line)).astype(dtype)
        x, columns = drawn(xp, (n * n,), dtype), drawn(xp, (n * n, 40), dtype)
        for form in ("csr", "csc", "coo", "dia"):
            a = getattr(sparse, f"{form}_matrix")(grid.asformat(form))
            for name, (ours, theirs) in SPARSE.items():
                for b in (x, columns) if name == "sparse.matmul" else (x,):
                    call = f"{form} {n * n}² by {1 if b.ndim == 1 else b.shape[1]}"
                    yield Row(name, call, dtype, grid.nnz, partial(ours, a, b), partial(theirs, a, b))


SPARSE: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sparse.matmul": (ozaki.matmul, lambda a, x: a @ x),
    "sparse.transposed": (lambda a, x: ozaki.matmul(a.T, x), lambda a, x: a.T @ x),
    "sparse.residual": (lambda a, x: ozaki.residual(a, x, x), lambda a, x: x - a @ x),
    "sparse.sum": (lambda a, x: ozaki.sum(a, axis=0), lambda a, x: a.sum(axis=0)),
}
"""What is asked of a sparse matrix and a vector, or several, of ours and of SciPy's or CuPy's."""

PARTS = (
    rows_of_sums,
    rows_of_weights,
    rows_of_groups,
    rows_of_functions,
    rows_of_products,
    rows_of_linalg,
    rows_of_sparse,
)


def seconds(work: Callable[[], Any], xp: Any) -> float:
    """Return the median seconds of a call in a burst, the device's work included."""
    found, begin = [], time.perf_counter()
    while not found or time.perf_counter() - begin < BURST:
        start = time.perf_counter()
        work()
        if xp is not np:
            xp.cuda.get_current_stream().synchronize()
        found.append(time.perf_counter() - start)
    return median(found)


def measured(row: Row, xp: Any) -> dict[str, Any]:
    """Time both in turns."""
    row.ours(), row.native()
    first = seconds(row.ours, xp)
    turns = [(seconds(row.ours, xp), seconds(row.native, xp)) for _ in range(1 if first > 0.2 else TURNS)]
    ours, theirs = (median(t) for t in zip(*turns, strict=True))
    about = {"function": row.function, "call": row.call, "dtype": row.dtype, "numbers": row.numbers}
    return about | {
        "ours": float(f"{ours:.3g}"),
        "native": float(f"{theirs:.3g}"),
        "ratio": float(f"{ours / theirs:.3g}"),
    }


def summary(rows: list[dict[str, Any]]) -> str:
    """Return the median, the tail and the worst rows, in words."""
    ratios = sorted(row["ratio"] for row in rows)
    half, most, nearly = (ratios[int(share * len(ratios))] for share in (0.5, 0.9, 0.99))
    below = f"90 % below {most:.3g}, 99 % below {nearly:.3g}"
    head = f"{len(rows)} rows: median {half:.3g}, {below}, worst {ratios[-1]:.3g}"
    worst = sorted(rows, key=lambda row: -row["ratio"])[:25]
    return "\n".join([head, *(f"{r['ratio']:8.3g}  {r['function']} {r['call']} {r['dtype']}" for r in worst)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="+", default=("",), help="functions whose names begin so")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--minutes", type=float, default=60.0, help="what is left after them is left out")
    arguments = parser.parse_args()
    xp: Any = np
    if arguments.gpu:
        import cupy as xp
    rows, end = [], time.perf_counter() + 60 * arguments.minutes

    def wanted(name: str) -> bool:
        return name.startswith(tuple(arguments.only)) and time.perf_counter() < end

    with np.errstate(all="ignore"):
        for part in PARTS:
            for row in (row for dtype in arguments.dtypes for row in part(xp, dtype, wanted)):
                if wanted(row.function):
                    rows.append(measured(row, xp))
    chosen = f" --dtypes {' '.join(arguments.dtypes)}" if arguments.dtypes is not DTYPES else ""
    record = {
        "date": date.today().isoformat(),
        "command": "python -m benchmarks.cliffs" + " --gpu" * arguments.gpu + chosen,
        "environment": {**versions(xp), "threads": thread_count()},
        "unit": f"seconds of a call, median of {TURNS} turns; native is NumPy's or CuPy's",
        "results": rows,
    }
    print(summary(rows))
    if arguments.json:
        arguments.json.write_text(compact(record))


if __name__ == "__main__":
    main()
