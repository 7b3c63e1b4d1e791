"""Weighted variances, moments, convolutions and rolling sums of `ozaki` against fractions, rounded once."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np

import ozaki
from ozaki.sums.exact import groups_enclosed
from tests.fuzz.arrays import COMPLEX, INTEGERS, REAL
from tests.fuzz.draw import Draw, check, check_one_nan, check_same, plain
from tests.fuzz.exact_sums import (
    array_of,
    chosen_axis,
    columns,
    common_dtype,
    complete,
    dots,
    form,
    out_for,
    targets,
    weighted_mean,
)
from tests.oracle import FORMATS, part_dtype, parts, rounded_ratio, rounded_root
from tests.reductions import REFERENCES

FLOAT64 = np.dtype(np.float64)


def exactly(row: np.ndarray) -> list[Fraction]:
    """Finite numbers as fractions."""
    return [Fraction(int(v)) if row.dtype.kind in "iub" else Fraction(float(v)) for v in row.tolist()]


def nearest(value: Fraction, fmt) -> float:
    return rounded_ratio(value.numerator, value.denominator, 0, fmt)


def root(square: Fraction, fmt) -> float:
    return rounded_root(square.numerator, 0, fmt, square.denominator)


def finite(*rows: np.ndarray) -> bool:
    return all(p.dtype.kind in "iub" or bool(np.isfinite(p).all()) for row in rows for p in parts(row))


def held(x: np.ndarray) -> bool:
    """Whether float64 holds integers."""
    small = x.dtype.itemsize < 8 or x.dtype.kind not in "iu"
    return small or all(int(float(v)) == v for v in x.ravel().tolist())


def target_of(draw: Draw, x: np.ndarray) -> tuple[np.dtype | None, np.dtype]:
    """A dtype= of a real result, and what it is in the end."""
    dtype = targets(draw, part_dtype(x.dtype.newbyteorder("=")))
    dtype = None if dtype is None else part_dtype(dtype)
    return dtype, dtype or (FLOAT64 if x.dtype.kind in "iub" else part_dtype(x.dtype.newbyteorder("=")))


def weighted(row: np.ndarray, f: list[Fraction], a: list[Fraction], ddof, square_root: bool, fmt) -> float:
    """Σw|x − m|²/(Σw − ddof·Σw·a/Σw) about the weighted mean, or its root; None where Σw = 0."""
    w = [p * q for p, q in zip(f, a, strict=True)]
    total, square = sum(w, Fraction(0)), Fraction(0)
    for part in map(exactly, parts(row)):
        mean = sum(p * x for p, x in zip(w, part, strict=True)) / total
        square += sum(p * (x - mean) ** 2 for p, x in zip(w, part, strict=True))
    below = total - Fraction(ddof) * sum(p * q for p, q in zip(w, a, strict=True)) / total
    if below <= 0:
        return math.inf if square else math.nan
    return (root if square_root else nearest)(square / below, fmt)


def weighted_variances(draw: Draw) -> None:
    """`ozaki.var` and `ozaki.std` with frequencies, reliabilities, or both."""
    x, name = array_of(draw, "x", (*REAL, *COMPLEX, *INTEGERS)), draw.pick("function", "var", "std")
    axis, axes = chosen_axis(draw, x.ndim)
    if not held(x) or not axes:
        return
    of_axes = tuple(x.shape[a] for a in axes)
    shapes = [draw.pick("shape of weights", x.shape, of_axes) for _ in range(2)]
    given = {
        "fweights": draw.rng.integers(0, 5, shapes[0]),
        "aweights": abs(draw.array("aweights", shapes[1], (np.float32, np.float64), draw.kind())),
    }
    for skipped in draw.pick("without", (), ("fweights",), ("aweights",)):
        del given[skipped]
    ddof = draw.pick("ddof", 0, 1, 0.5, -2)
    dtype, target = target_of(draw, x)
    every = {n: _along(w, x.shape, axes) for n, w in given.items()}
    rows = [columns(np.asarray(v), axes) for v in (plain(x), *every.values())]
    fmt, expected = FORMATS[target], []
    for row, *weights in zip(*rows, strict=True):
        exact = dict(zip(every, weights, strict=True))
        if not finite(row, *weights):
            expected.append(math.nan)
            continue
        f, a = (
            exactly(exact[n]) if n in exact else [Fraction(1)] * len(row) for n in ("fweights", "aweights")
        )
        if not sum(p * q for p, q in zip(f, a, strict=True)):
            try:
                getattr(ozaki, name)(x, axis=axis, ddof=ddof, **given)
            except ZeroDivisionError:
                return
            check("weights: no error for a sum of zero", False, "")
        expected.append(weighted(row, f, a, ddof, name == "std", fmt))
    keepdims = draw.pick("keepdims", False, True)
    shape = form(x.shape, axes, keepdims)
    out = out_for(draw, shape, target) if dtype is None else None
    if out is not None and out.dtype != target:
        return
    got = getattr(ozaki, name)(x, axis=axis, dtype=dtype, out=out, ddof=ddof, keepdims=keepdims, **given)
    check_same(f"weighted {name}", np.asarray(got), np.asarray(complete([expected], shape, target)))
    check_one_nan(f"weighted {name}: NaN", got)


def _along(w: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    """Weights of the axes, in their order, in the shape of the array."""
    w = plain(w)
    if w.shape != shape:
        w = w.transpose(np.argsort(axes)).reshape([n if a in axes else 1 for a, n in enumerate(shape)])
    return np.broadcast_to(w, shape)


def central(row: np.ndarray, k: int, about=None) -> Fraction:
    """The k-th moment about a number, or about the mean."""
    values = exactly(row)
    mean = sum(values, Fraction(0)) / len(values) if about is None else Fraction(about)
    return sum((v - mean) ** k for v in values) / len(values)


def skewness(row: np.ndarray, fmt, bias: bool) -> float:
    n, second, third = len(row), central(row, 2), central(row, 3)
    if not second:
        return math.nan
    factor = Fraction(1) if bias or n <= 2 else Fraction(n * (n - 1), (n - 2) ** 2)
    value = root(third**2 / second**3 * factor, fmt)
    return -value if third < 0 else value


def excess(row: np.ndarray, fmt, bias: bool, fisher: bool) -> float:
    n, second, fourth = len(row), central(row, 2), central(row, 4)
    if not second:
        return math.nan
    value = fourth / second**2 - 3
    if not bias and n > 3:
        value = Fraction(1, (n - 2) * (n - 3)) * ((n**2 - 1) * (value + 3) - 3 * (n - 1) ** 2)
    return nearest(value if fisher else value + 3, fmt)


def moments(draw: Draw) -> None:
    """`ozaki.moment`, `skew` and `kurtosis` over any axes."""
    x, name = array_of(draw, "x", (*REAL, *REAL, *INTEGERS)), draw.pick("f", "moment", "skew", "kurtosis")
    axis, axes = chosen_axis(draw, x.ndim)
    if not held(x):
        return
    dtype, target = target_of(draw, x)
    fmt, bias = FORMATS[target], draw.pick("bias", True, False)
    if name == "moment":
        k, center = draw.size("order", 0, 6), draw.pick("center", None, 0, 0.1, -3e5)
        options = {"order": k, "center": center}
        reference = lambda row: nearest(central(row, k, center), fmt)  # noqa: E731
    elif name == "skew":
        options, reference = {"bias": bias}, lambda row: skewness(row, fmt, bias)
    else:
        fisher = draw.pick("fisher", True, False)
        options = {"bias": bias, "fisher": fisher}
        reference = lambda row: excess(row, fmt, bias, fisher)  # noqa: E731
    rows = columns(plain(x), axes)
    found = [reference(row) if len(row) and finite(row) else math.nan for row in rows]
    keepdims = draw.pick("keepdims", False, True)
    got = getattr(ozaki, name)(x, axis=axis, dtype=dtype, keepdims=keepdims, **options)
    expected = complete([found], form(x.shape, axes, keepdims), target)
    check_same(name, np.asarray(got), np.asarray(expected))
    check_one_nan(f"{name}: NaN", got)


def convolutions(draw: Draw) -> None:
    """`ozaki.convolve` and `ozaki.correlate` of vectors of any lengths."""
    a = draw.array("a", (draw.size("n", 1, 40),), (*REAL, *COMPLEX), draw.kind())
    v = draw.array("v", (draw.size("m", 1, 12),), (*REAL, *COMPLEX), draw.kind())
    if (both := common_dtype(a, v)) is None:
        return
    name, mode = draw.pick("f", "convolve", "correlate"), draw.pick("mode", "full", "same", "valid")
    full = _full(plain(a), plain(v), name, FORMATS[part_dtype(both)])
    chosen = full[_part_of_full(a.size, v.size, name, mode)]
    expected = complete(list(zip(*chosen, strict=True)), (len(chosen),), both)
    check_same(name, getattr(ozaki, name)(a, v, mode), expected)


def _full(a: np.ndarray, v: np.ndarray, name: str, fmt) -> list[list[float]]:
    """The elements of mode "full", in parts."""
    v = v if name == "convolve" else v.conj()[::-1]
    found = []
    for k in range(a.size + v.size - 1):
        low, high = max(0, k - v.size + 1), min(a.size, k + 1)
        found.append(dots(a[low:high], v[k - high + 1 : k - low + 1][::-1], fmt, False))
    return found


def _part_of_full(n: int, m: int, name: str, mode: str) -> slice:
    """Which elements of mode "full" NumPy has in another."""
    of, a, v = getattr(np, name), np.arange(1.0, n + 1) ** 2, np.arange(1.0, m + 1) ** 3
    full, part = of(a, v, "full").tolist(), of(a, v, mode).tolist()
    before = next(i for i in range(len(full)) if full[i : i + len(part)] == part)
    return slice(before, before + len(part))


def rolling(draw: Draw) -> None:
    """`ozaki.rolling_sum` and its kin: each window as the reduction without NaN, whose reference is exact."""
    x, name = array_of(draw, "x", (*REAL, *REAL, *INTEGERS)), draw.pick("of", "sum", "mean", "var", "std")
    if not x.ndim or not held(x):
        return
    if x.dtype.kind not in "iub" and x.flags.writeable and draw.chance(0.5):
        x[draw.rng.random(x.shape) < draw.pick("missing", 0.05, 0.5)] = np.nan
    axis, window = draw.size("axis", -x.ndim, x.ndim - 1), draw.size("window", 1, 12)
    least, center = draw.pick("min_count", None, 0, 1, window), draw.pick("center", False, True)
    dtype, target = target_of(draw, x)
    ddof = {"ddof": draw.pick("ddof", 0, 1, 0.5)} if name in ("var", "std") else {}
    reference, ahead, fmt = REFERENCES["nan" + name], (window - 1) // 2 if center else 0, FORMATS[target]

    def one(row: np.ndarray) -> list[float]:
        found = []
        for i in range(ahead + 1, len(row) + ahead + 1):
            part = row[max(0, i - window) : i]
            part = part.astype(FLOAT64) if part.dtype.kind in "iub" else part
            few = np.count_nonzero(~np.isnan(part)) < (window if least is None else least)
            found.append(math.nan if few else reference(part, fmt, **ddof)[0])
        return found

    moved = np.moveaxis(plain(x), axis, -1)
    rows = moved.reshape(-1, moved.shape[-1]) if moved.size else moved.reshape(0, 1)
    values = np.array([one(row) for row in rows], FLOAT64).reshape(moved.shape)
    expected = complete([np.moveaxis(values, -1, axis)], x.shape, target)
    got = getattr(ozaki, f"rolling_{name}")(x, window, axis, least, center, dtype, **ddof)
    check_same(f"rolling_{name}", got, expected)
    check_one_nan(f"rolling_{name}: NaN", got)


MOST_ENCLOSED = groups_enclosed.ENCLOSED_GROUPS


@contextmanager
def enclosing_groups(most: int) -> Iterator[None]:
    """Have groups of up to so many numbers enclosed; of threads that do so at once, the last one decides."""
    groups_enclosed.ENCLOSED_GROUPS = most
    try:
        yield
    finally:
        groups_enclosed.ENCLOSED_GROUPS = MOST_ENCLOSED


def group_averages(draw: Draw) -> None:
    """`ozaki.group_average` of vectors: the exact weighted mean of every group that has numbers."""
    n, count = draw.size("n", 0, 60), draw.size("groups", 1, 9)
    x = draw.array("x", (n,), (*REAL, *INTEGERS), draw.kind())
    w = abs(draw.array("weights", (n,), (np.float32, np.float64), draw.kind(0)))
    if (both := common_dtype(x, w)) is None:
        return
    labels = draw.rng.integers(0, count, n)
    groups = [(plain(x)[labels == g], plain(w)[labels == g]) for g in range(count)]
    if any(len(of_w) and not of_w.any() for _, of_w in groups):
        return
    fmt = FORMATS[both]
    found = [weighted_mean(*group, fmt) if len(group[0]) else math.nan for group in groups]
    with enclosing_groups(draw.pick("enclosed", 0, MOST_ENCLOSED)):
        got = ozaki.group_average(x, labels, count, w)
    check_same("group_average", got, complete([found], (count,), both))


CHECKS = {
    "group_average": group_averages,
    "rolling sums": rolling,
    "var, std with weights": weighted_variances,
    "moment, skew, kurtosis": moments,
    "convolve, correlate": convolutions,
}
