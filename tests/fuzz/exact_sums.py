"""The sums of `ozaki` against Python's integers: each result is the exact value, rounded once."""

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np

import ozaki
from ozaki.public import PUBLIC
from ozaki.sums.table import REDUCTIONS
from tests.fuzz.arrays import COMPLEX, INTEGERS, REAL, place
from tests.fuzz.draw import Draw, check, check_one_nan, check_same, plain
from tests.oracle import (
    FORMATS,
    integers,
    joined,
    part_dtype,
    parts,
    real_dot,
    real_sum,
    rounded,
    rounded_ratio,
    value,
)
from tests.reductions import ONE_ARRAY, REFERENCES

FLOATS = (*REAL, *COMPLEX)
FLOAT64 = np.dtype(np.float64)


def columns(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The array as (results, terms), the reduced axes last."""
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    moved = x.transpose((*kept, *axes))
    return moved.reshape(math.prod(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes))


def chosen_axis(draw: Draw, ndim: int):
    """None, an axis or a tuple of axes, negative or not; and the axes that these are."""
    if ndim == 0 or draw.chance(0.3):
        axis = draw.pick("axis", None, ()) if draw.chance(0.1) else draw.pick("axis", None)
        return axis, tuple(range(ndim)) if axis is None else ()
    if draw.chance(0.6):
        axis = draw.size("axis", -ndim, ndim - 1)
        return axis, (axis % ndim,)
    count = int(draw.rng.integers(1, ndim + 1))
    axes = tuple(int(a) for a in draw.rng.permutation(ndim)[:count])
    draw.notes.append(f"axis={axes}")
    return axes, axes


def form(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    return tuple(1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes)


def array_of(draw: Draw, name: str, dtypes, most: int = 9) -> np.ndarray:
    ndim = int(draw.rng.choice([0, 1, 1, 2, 2, 3, 4]))
    shape = draw.shape("shape", ndim, {0: 1, 1: 300, 2: 20, 3: 9, 4: 5}[ndim])
    if ndim == 1 and draw.chance(0.05):
        shape = (int(draw.rng.integers(1000, 6000)),)
    return draw.array(name, shape, dtypes, draw.kind())


def targets(draw: Draw, source: np.dtype) -> np.dtype | None:
    """A dtype= for the result: None, or one that can take it."""
    if draw.chance(0.5):
        return None
    return draw.pick("dtype", *(COMPLEX if source.kind == "c" else FLOATS))


def out_for(draw: Draw, shape: tuple[int, ...], target: np.dtype) -> np.ndarray | None:
    """Now and then an array to write to, of the result's dtype or another."""
    if draw.chance(0.6):
        return None
    dtype = target
    if draw.chance(0.4):
        complex_too = [t for t in FLOATS if (t.kind == "c") >= (target.kind == "c")]
        others = [t for t in complex_too if np.can_cast(target, t, "same_kind")]
        dtype = draw.pick("out.dtype", *others)
    layout = draw.pick("out", "C", "F", "strided", "reversed")
    return place(np.full(shape, 5, dtype), layout)


def check_reduction(draw: Draw, name: str, got, expected: np.ndarray, out) -> None:
    """The result, or what stands in `out`."""
    if out is not None:
        check(f"{name}: out is not returned", got is out, type(got).__name__)
        check_same(
            f"{name}: out of another dtype" if "out.dtype" in " ".join(draw.notes) else f"{name}: out",
            got,
            expected,
        )
    else:
        check_same(name, got, expected)
    check_one_nan(f"{name}: NaN", got)


def options_of(draw: Draw, name: str, x: np.ndarray, axes: tuple[int, ...]) -> dict:
    """Now and then the where=, which broadcasts, the initial= and the ddof= of what takes them."""
    takes, options = PUBLIC[name].parameters, {}
    if "where" in takes and draw.chance(0.3):
        shape = tuple(1 if draw.chance(0.2) else n for n in x.shape)[draw.size("axes less", 0, x.ndim) :]
        options["where"] = draw.rng.random(shape) < draw.pick("share", 0.0, 0.3, 0.9)
    if "initial" in takes and draw.chance(0.3):
        shape = draw.pick("initial", (), tuple(n for a, n in enumerate(x.shape) if a not in axes))
        options["initial"] = draw.array("initial", shape, (x.dtype.newbyteorder("="),))
    if "ddof" in takes:
        options["ddof"] = draw.pick("ddof", 0, 0, 1, 2, 0.5, -1.25, Fraction(7, 3), 10**400)
    return options


def rows_of(x: np.ndarray, axes: tuple[int, ...], where=True, initial=None) -> list[tuple[np.ndarray, bool]]:
    """The numbers that each result has, and whether some have been left out."""
    kept, rows = [n for a, n in enumerate(x.shape) if a not in axes], columns(x, axes)
    if initial is not None:
        rows = np.concatenate([np.broadcast_to(plain(initial), kept).reshape(-1, 1), rows], axis=1)
    masks = columns(np.broadcast_to(where, x.shape), axes)
    masks = np.pad(masks, ((0, 0), (int(initial is not None), 0)), constant_values=True)
    return [(row[mask], not mask.all()) for row, mask in zip(rows, masks, strict=True)]


def without_nan_after_the_first(row: np.ndarray, left_out: bool) -> tuple[np.ndarray, bool]:
    """A row without the NaN among the numbers that are summed; what the sum begins with stays."""
    kept = ~np.isnan(row)
    kept[:1] = True
    return row[kept], left_out or not kept.all()


def reduction(name: str):
    """The check of a reduction of one array."""
    row = REDUCTIONS[name]

    def body(draw: Draw) -> None:
        x = array_of(draw, "x", (*FLOATS, *FLOATS, *INTEGERS))
        if row.skip_nan and x.dtype.kind not in "iub" and x.flags.writeable and draw.chance(0.6):
            x[draw.rng.random(x.shape) < draw.pick("missing", 0.05, 0.5, 0.9)] = np.nan
        axis, axes = chosen_axis(draw, x.ndim)
        options = options_of(draw, name, x, axes)
        rows = rows_of(plain(x), axes, options.get("where", True), options.get("initial"))
        options |= {"axis": axis, "keepdims": draw.pick("keepdims", False, True)}
        shape, dtype = form(x.shape, axes, options["keepdims"]), targets(draw, x.dtype.newbyteorder("="))
        if dtype is None and row.natural(x).kind in "iub":
            expected = np.array([np.sum(r) for r, _ in rows]).astype(row.natural(x)).reshape(shape)[()]
            check_same(f"{name} of integers", getattr(ozaki, name)(x, **options), expected)
            return
        dtype = part_dtype(dtype) if row.real and dtype is not None else dtype
        target = np.dtype(dtype or row.natural(x)).newbyteorder("=")
        target = part_dtype(target) if row.real else target
        out = out_for(draw, shape, target)
        result = target if out is None else out.dtype
        fmt, count = FORMATS[part_dtype(result)], 1 if row.real or x.dtype.kind != "c" else 2
        ddof = {"ddof": options["ddof"]} if "ddof" in options else {}
        of_row = REFERENCES["sum" if "initial" in options else name]
        if row.skip_nan and "initial" in options:
            rows = [without_nan_after_the_first(*r) for r in rows]
        found = [of_row(r, fmt, less, **ddof) for r, less in rows]
        expected = complete(list(np.array(found, np.float64).reshape(-1, count).T), shape, result)
        got = getattr(ozaki, name)(x, dtype=dtype, out=out, **options)
        check_reduction(draw, name, got, expected, out)

    body.__doc__ = f"`ozaki.{name}` over any axes, into any dtype."
    return body


def dots(x: np.ndarray, y: np.ndarray, fmt, conjugate: bool) -> list[float]:
    """The parts of Σ x·y or Σ conj(x)·y of two vectors, each rounded once."""
    if "c" not in (x.dtype.kind, y.dtype.kind):
        return [value(real_dot([(1, x, y)]), fmt)]
    sign = -1 if conjugate else 1
    real, imaginary = [(1, x.real, y.real)], []
    if x.dtype.kind == y.dtype.kind == "c":
        real.append((-sign, x.imag, y.imag))
    if y.dtype.kind == "c":
        imaginary.append((1, x.real, y.imag))
    if x.dtype.kind == "c":
        imaginary.append((sign, x.imag, y.real))
    return [value(real_dot(terms), fmt) for terms in (real, imaginary)]


def dot(draw: Draw) -> None:
    """`ozaki.dot` of arrays that broadcast."""
    x = array_of(draw, "x", (*FLOATS, *FLOATS, *INTEGERS))
    shape = tuple(1 if draw.chance(0.15) else n for n in x.shape)
    y = draw.array("y", shape, (*FLOATS, *FLOATS, *INTEGERS), draw.kind())
    if x.ndim == 0:
        return
    if (both := common_dtype(x, y)) is None:
        return
    a, b = np.broadcast_arrays(plain(x), plain(y))
    axis, keepdims = draw.size("axis", -x.ndim, x.ndim - 1), draw.pick("keepdims", False, True)
    axes = (axis % x.ndim,)
    shape = form(a.shape, axes, keepdims)
    dtype = targets(draw, both)
    if both.kind in "iub" and dtype is None:
        wide = np.dtype(np.int64)
        got = ozaki.dot(x, y, axis=axis, dtype=wide, keepdims=keepdims)
        exact = (integers(a)[0] * integers(b)[0]).sum(axis=axis, keepdims=keepdims)
        fits = [-(2**63) <= int(v) < 2**63 for v in np.asarray(exact, object).ravel()]
        if all(fits) and np.uint64 not in (x.dtype, y.dtype):
            check_same("dot of integers, dtype=int64", got, np.asarray(exact, object).astype(np.int64))
        return
    target = np.dtype(dtype or both)
    out = out_for(draw, shape, target)
    result = target if out is None else out.dtype
    rows = zip(columns(a, axes), columns(b, axes), strict=True)
    found = list(zip(*(dots(p, q, FORMATS[part_dtype(result)], False) for p, q in rows), strict=True))
    check_reduction(
        draw,
        "dot",
        ozaki.dot(x, y, axis=axis, dtype=dtype, out=out, keepdims=keepdims),
        complete(found, shape, result),
        out,
    )


BF = REAL[3]


def common_dtype(x, y):
    try:
        return np.result_type(x.dtype.newbyteorder("="), y.dtype.newbyteorder("="))
    except TypeError:
        return None  # NumPy has no common type for these


def complete(found, shape, dtype) -> np.ndarray:
    """An array from the parts of its elements; a missing imaginary part is 0."""
    values = [np.asarray(f).reshape(shape) for f in found] or [np.zeros(shape)]
    if np.dtype(dtype).kind == "c" and len(values) == 1:
        values.append(np.zeros(shape))
    return joined(values, dtype)


def vdot(draw: Draw) -> None:
    """`ozaki.vdot`, flattened and conjugated."""
    x = array_of(draw, "x", FLOATS)
    shape = x.shape if draw.chance(0.7) else (x.size,)
    y = draw.array("y", shape, FLOATS, draw.kind())
    if (both := common_dtype(x, y)) is None:
        return
    dtype = targets(draw, both)
    target = np.dtype(dtype or both)
    found = dots(plain(x).reshape(-1), plain(y).reshape(-1), FORMATS[part_dtype(target)], True)
    check_reduction(draw, "vdot", ozaki.vdot(x, y, dtype=dtype), complete(found, (), target), None)


def cumsum(draw: Draw) -> None:
    """`ozaki.cumsum`: every running sum rounded once; the last is that of `ozaki.sum`."""
    x = array_of(draw, "x", (*FLOATS, *FLOATS, *INTEGERS))
    axis = None if x.ndim == 0 or draw.chance(0.3) else draw.size("axis", -x.ndim, x.ndim - 1)
    source = x.dtype.newbyteorder("=")
    dtype = targets(draw, source)
    values = plain(x)
    if source.kind in "iub" and dtype is None:
        check_same("cumsum of integers", ozaki.cumsum(x, axis=axis), np.cumsum(values, axis=axis))
        return
    target = np.dtype(dtype or source)
    fmt = FORMATS[part_dtype(target)]
    found = []
    for part in parts(values):
        moved = part.reshape(1, -1) if axis is None else np.moveaxis(part, axis, -1)
        flat = (
            np.ascontiguousarray(moved).reshape(-1, moved.shape[-1])
            if moved.size
            else moved.reshape(0, moved.shape[-1])
        )
        sums = np.array([_running(row, fmt) for row in flat], np.float64).reshape(moved.shape)
        found.append(sums.reshape(-1) if axis is None else np.moveaxis(sums, -1, axis))
    expected = complete(found, found[0].shape, target)
    out = place(np.full(expected.shape, 5, target), "strided") if draw.chance(0.3) else None
    got = ozaki.cumsum(x, axis=axis, dtype=dtype, out=out)
    check_reduction(draw, "cumsum", got, expected, out)


def _running(row: np.ndarray, fmt) -> list[float]:
    whole, e = integers(row)
    result, total, special, only_minus = [], 0, 0.0, True
    floating = row.dtype.kind not in "iub"
    wide = row.astype(np.float64)
    for v, x in zip(whole.tolist(), wide.tolist(), strict=True):
        total += v
        only_minus &= floating and x == 0 and math.copysign(1, x) < 0
        special = special + x if not math.isfinite(x) else special
        result.append(special if special != 0 else -0.0 if only_minus else rounded(total, e, fmt))
    return result


def average(draw: Draw) -> None:
    """`ozaki.average` with weights of any sign, of the array's shape or of its axes."""
    x = array_of(draw, "x", (*FLOATS, *INTEGERS))
    axis, axes = chosen_axis(draw, x.ndim)
    shape = tuple(x.shape[a] for a in axes) if axes and draw.chance(0.4) else x.shape
    w = draw.array("weights", shape, (*REAL, *INTEGERS), draw.kind())
    if (both := common_dtype(x, w)) is None:
        return
    target = FLOAT64 if both.kind in "iub" else both
    every = plain(w)
    if shape != x.shape:
        every = every.transpose(np.argsort(axes))
        every = np.broadcast_to(
            every.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)]), x.shape
        )
    values, rows = parts(plain(x)), columns(every, axes)
    if any(special == 0 or (special is None and d == 0) for d, _, special in map(real_sum, rows)):
        with suppress(ZeroDivisionError):
            check("average: no error", False, repr(ozaki.average(x, axis, w)))
        return
    fmt = FORMATS[part_dtype(target)]
    found = [
        [weighted_mean(*pair, fmt) for pair in zip(columns(part, axes), rows, strict=True)] for part in values
    ]
    keepdims = draw.pick("keepdims", False, True)
    got = ozaki.average(x, axis, w, keepdims)
    check_reduction(draw, "average", got, complete(found, form(x.shape, axes, keepdims), target), None)


def weighted_mean(row: np.ndarray, weights: np.ndarray, fmt) -> float:
    (n, e, above), (d, f, below) = real_dot([(1, row, weights)]), real_sum(weights)
    if n and above is below is None:
        return rounded_ratio(n if d > 0 else -n, abs(d), e - f, fmt)
    with np.errstate(all="ignore"):
        above = np.float64((n > 0) - (n < 0) if above is None else above)
        return float(above / np.float64((1 if d > 0 else -1) if below is None else below))


CHECKS = {
    **{name: reduction(name) for name in ONE_ARRAY},
    "average": average,
    "dot": dot,
    "vdot": vdot,
    "cumsum": cumsum,
}
