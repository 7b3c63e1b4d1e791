"""Textbook sums, accumulators and fingerprints against exact references."""

import math
from fractions import Fraction

import numpy as np

import ozaki
from tests.fuzz.arrays import COMPLEX, INTEGERS, REAL, place
from tests.fuzz.draw import Draw, check, check_same, difference, plain
from tests.fuzz.exact_sums import BF, FLOAT64, FLOATS, array_of, complete
from tests.oracle import (
    FORMATS,
    integers,
    joined,
    part_dtype,
    parts,
    real_dot,
    real_sum,
    rounded,
    value,
)


def textbook(draw: Draw) -> None:
    """near_sum, acc_sum, sum_k, extract_vector, two_sum, two_product within their stated ranges."""
    kinds = "normal", "wide", "cancelling", "ties", "subnormal", "integers", "sparse", "zeros", "powers"
    kind, n = draw.pick("values", *kinds), draw.size("n", 0, 60)
    hard = draw.pick("hard", "", "deep", *HARD)
    x = HARD[hard](draw) if hard else draw.array("p", (n,), (FLOAT64,), kind)
    _check_sums(draw, x)
    _check_transformations(draw, "wide" if kind in ("subnormal", "zeros") else kind, n)


def _crowded(draw: Draw) -> np.ndarray:
    """Numbers of one sign just below a power of two, about as many as an extraction has carries for.

    Their sum takes all the bits between sigma and the unit of what is extracted.
    """
    n = (1 << draw.size("log2 of n", 3, 6)) - draw.size("less", 0, 6)
    steps = draw.rng.integers(1, 1 << draw.size("bits", 1, 52), n)
    return draw.pick("sign", 1.0, -1.0) * np.ldexp((1 << 53) - steps.astype(float), draw.size("e", -900, 900))


def _deep(draw: Draw) -> np.ndarray:
    """Numbers whose sum is far below them, by any number of bits: it takes one extraction, or several.

    Most often by 53 bits less one to three times the carries: there an extraction is the last one, or not
    quite, and what has been extracted does not add up to a single number.
    """
    n, spread, rest = draw.size("pairs", 1, 25), draw.pick("spread", 0, 0, 5, 60), draw.size("rest", 0, 30)
    carries = (2 * n + rest + 1).bit_length()
    few, most = (53 - 3 * carries, 53 - carries) if draw.chance(0.8) else (0, 250)
    depth = draw.size("depth", few, most)
    x = np.ldexp(draw.rng.standard_normal(n), draw.rng.integers(-spread, spread + 1, n))
    small = np.ldexp(draw.rng.standard_normal(rest), spread - depth)
    return np.ldexp(draw.rng.permutation(np.concatenate([x, -x, small])), draw.pick("e", 0, 0, 800, -980))


def _next_to_ties(draw: Draw) -> np.ndarray:
    """A number, half its last place, what cancels, and a tail of either sign that decides, or none.

    Of what cancels, three numbers are so small that their sum, as rounded, may decide a tie the wrong way.
    """
    one, tail = 1 + 2.0**-52 * draw.size("last", 0, 3), 2.0 ** -draw.size("tail", 54, 1074)
    large, half = 2.0 ** draw.size("large", 0, 300), draw.pick("half", 1, -1) * 2.0**-53
    small = np.ldexp(draw.rng.integers(-48, 49, 2).astype(float), -109)
    x = np.array([one, half, draw.pick("side", 1, -1, 0, 0) * tail, large, -large, *small, -small.sum()])
    return draw.pick("sign", 1.0, -1.0) * draw.rng.permutation(x)


def _balanced(draw: Draw) -> np.ndarray:
    """Crowded numbers next to half of what a first extraction keeps, their sum's opposite, and large ones.

    The extraction leaves the crowd, which the second must hold, and all but cancels what was extracted.
    """
    crowd = _crowded(draw)
    crowd = np.ldexp(crowd, -int(np.frexp(crowd[0])[1]))
    if draw.pick("on the other side", False, True):
        crowd = 2 * np.sign(crowd) - crowd
    carries = (len(crowd) + 4).bit_length()
    large = 2.0 ** (52 - carries + draw.pick("above", 0, 0, 1, draw.size("far", -12, 4)))
    x = draw.rng.permutation(np.concatenate([crowd, [-crowd.sum(), large, -large]]))
    return np.ldexp(x, draw.pick("e", 0, 800, -900))


def _outweighed(draw: Draw) -> np.ndarray:
    """Numbers whose first extraction takes 2**M units of sigma's last place, and leaves all but four of them.

    Half that unit and a little more is taken as one unit, so that what is left is of the other sign.
    """
    carries = draw.size("carries", 5, 7)
    crowd = 1 + np.ldexp(draw.rng.integers(1, 1 << 40, (1 << carries) - 4).astype(float), -52)
    large = 2.0 ** (52 - carries)
    x = np.concatenate([crowd, [large, -large - (2 * crowd.size - (1 << carries))]])
    return np.ldexp(draw.rng.permutation(x), draw.pick("e", 0, 800, -900))


def _halves(draw: Draw) -> np.ndarray:
    """Numbers of which two extractions take a float64 and half its last place, and leave another half.

    Their sum is a float64, or next to one.
    """
    carries = draw.size("carries", 4, 6)
    first = float((1 << carries - 1) + draw.size("first", 0, (1 << carries - 1) - 1))
    last = np.spacing(first)
    left = np.full(1 << carries - 1, draw.pick("left", 1, -1) * last / 2**carries)
    left[0] *= draw.pick("of the first", 1, 1, 1 - 2.0**-9)
    large = 2.0 ** (52 - 2 * carries)
    x = np.concatenate([[first, draw.pick("taken", 1, -1) * last / 2, large, -large], left])
    return np.ldexp(draw.pick("sign", 1.0, -1.0) * draw.rng.permutation(x), draw.pick("e", 0, 800, -900))


def _few_zeros(draw: Draw) -> np.ndarray:
    """No, one or a few zeros, most often −0 alone."""
    x = np.full(draw.size("n", 0, 3), -0.0)
    x[: draw.pick("of the other sign", 0, 0, 1)] = 0.0
    return x


HARD = {
    "crowded": _crowded,
    "deep": _deep,
    "next to ties": _next_to_ties,
    "balanced": _balanced,
    "outweighed": _outweighed,
    "halves": _halves,
    "few zeros": _few_zeros,
}
"""Vectors on which a step of an algorithm less, or a wrong one, would show."""


def _check_sums(draw: Draw, x: np.ndarray) -> None:
    """Each sum is the exact one, one of its neighbours, or within its bound."""
    n = len(x)
    total, e, special = real_sum(plain(x))
    exact = rounded(total, e, FORMATS[FLOAT64]) if special is None else special
    check_same("near_sum", np.float64(ozaki.near_sum(x)), np.float64(exact), f"ozaki.sum: {ozaki.sum(x)!r}")
    truth = Fraction(total) * Fraction(2) ** e
    _check_faithful(ozaki.acc_sum(x), exact, truth)
    k = draw.size("k", 2, 5)
    size = sum(abs(v) for v in integers(plain(x))[0].tolist()) * Fraction(2) ** e
    error, u = abs(Fraction(float(ozaki.sum_k(x, k))) - truth), Fraction(1, 2**53)
    allowed = 2 * u * abs(truth) + 2 * (2 * max(n, 1) * u) ** k * size
    check("sum_k above its bound", error <= allowed, f"error {float(error)!r}")
    if n:
        _check_extraction(plain(x), truth)


def _check_faithful(got: float, exact: float, truth: Fraction) -> None:
    """The sum itself if it is a float64, else one of its neighbours."""
    if Fraction(exact) == truth:
        check_same("acc_sum of a number", np.float64(got), np.float64(exact))
        return
    other = math.nextafter(exact, math.inf if Fraction(exact) < truth else -math.inf)
    check("acc_sum is not faithful", got in (exact, other), f"{got!r}, between {exact!r} and {other!r}")


def _check_transformations(draw: Draw, kind: str, n: int) -> None:
    """two_sum and two_product lose nothing; the first of both results is the operation's own."""
    pair = [plain(draw.array(name, (n,), (FLOAT64,), kind)) for name in "ab"]
    a, b = (np.where(np.abs(v) < 2.0**-400, 1.5, v) for v in pair)
    with np.errstate(all="ignore"):
        direct = {"two_sum": a + b, "two_product": a * b}
        found = {"two_sum": ozaki.two_sum(a, b), "two_product": ozaki.two_product(a, b)}
    for name, (value_, rest) in found.items():
        size = np.abs(direct[name])
        if (size > 2.0**990).any() or (name == "two_product" and (size < 2.0**-960).any()):
            continue
        check_same(name, value_, direct[name])
        for p, q, s, t in zip(*(v.tolist() for v in (a, b, value_, rest)), strict=True):
            p, q = Fraction(p), Fraction(q)
            truth = p + q if name == "two_sum" else p * q
            check(name, Fraction(s) + Fraction(t) == truth, f"{float(p)!r}, {float(q)!r}: {s!r}, {t!r}")


def _check_extraction(x: np.ndarray, truth: Fraction) -> None:
    bits = (x.size + 1).bit_length()
    sigma = math.ldexp(1.0, bits + max(math.frexp(float(np.abs(x).max()))[1], -900))
    tau, rest = ozaki.extract_vector(sigma, x)
    left, unit = integers(rest)
    total = Fraction(tau) + sum(left.tolist()) * Fraction(2) ** unit
    check("extract_vector", total == truth and (np.abs(rest) <= 2.0**-53 * sigma).all(), f"sigma {sigma!r}")


def exactsum(draw: Draw) -> None:
    """ExactSum: any parts in any order, by any road, have one state, which rounds to the exact sum."""
    dtype = draw.pick("dtype", *FLOATS)
    shape = tuple(draw.size("length", 1, 4) for _ in range(int(draw.rng.integers(0, 3))))
    pieces = [_piece(draw, i, dtype, shape) for i in range(draw.size("pieces", 0, 4))]
    one, other = ozaki.ExactSum(dtype, shape), ozaki.ExactSum(dtype, shape)
    for piece in pieces:
        _add(one, piece)
    for i in draw.rng.permutation(len(pieces)):
        part = _add(ozaki.ExactSum(dtype, shape), pieces[i])
        read = ozaki.ExactSum.from_bytes(part.to_bytes(), dtype, shape)
        other = part.merge(other) if draw.chance(0.5) else other.merge(read)
    check("ExactSum: order", one == other and one.to_bytes() == other.to_bytes(), "two orders, two states")
    check("ExactSum: bytes", len(one.to_bytes()) == one.nbytes, f"{len(one.to_bytes())} bytes")
    target = draw.pick("round", None, *(COMPLEX if dtype.kind == "c" else REAL))
    result = np.dtype(target or dtype)
    check_same("ExactSum.round", one.round(target), _exact_round(pieces, dtype, shape, result))


def _piece(draw: Draw, i: int, dtype: np.dtype, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """An array to add, or two whose products are."""
    fits = tuple(t for t in (*FLOATS, *INTEGERS) if _safe(t, dtype))
    lead = draw.shape(f"lead {i}", int(draw.rng.integers(0, 2)), 12)
    x = draw.array(f"x{i}", (*lead, *shape), fits, draw.kind(0.05))
    if x.dtype.kind == "c" or draw.chance(0.7):
        return (x,)
    return x, draw.array(f"y{i}", x.shape, (x.dtype.newbyteorder("="),), draw.kind(0.05))


def _add(total: ozaki.ExactSum, piece: tuple[np.ndarray, ...]) -> ozaki.ExactSum:
    return total.add(*piece) if len(piece) == 1 else total.add_products(*piece)


def _exact_round(pieces: list, dtype: np.dtype, shape: tuple[int, ...], result: np.dtype) -> np.ndarray:
    """The sum of all that was added, rounded once."""
    size, fmt, found = math.prod(shape), FORMATS[part_dtype(result)], []
    for part in range(2 if dtype.kind == "c" else 1):
        given = [p for p in pieces if not part or p[0].dtype.kind == "c"]
        flat = [[parts(plain(x).reshape(-1, size))[part] for x in piece] for piece in given]
        flat = [(x, *(rest or [np.ones_like(x)])) for x, *rest in flat if len(x)]
        sums = [
            real_dot([(1, x[:, j], y[:, j]) for x, y in flat]) if flat else (0, 0, 0.0) for j in range(size)
        ]
        found.append(np.array([value(s, fmt) for s in sums]))
    return complete(found, shape, result)


def _safe(source, target) -> bool:
    try:
        return np.can_cast(source, target, "safe")
    except TypeError:
        return False


def fingerprint(draw: Draw) -> None:
    """`fingerprint`: of the numbers, the shape and the dtype alone; every bit of them counts."""
    x = array_of(draw, "x", (*FLOATS, *INTEGERS))
    name = ozaki.fingerprint(x)
    for layout in ("C", "F", "strided", "reversed", "transposed", "byteswapped", "unaligned"):
        again = ozaki.fingerprint(place(plain(x), layout))
        check("fingerprint: layout", again == name, f"{layout} gives {again}, {name} expected")
    y = plain(x)
    others = [("shape", y.reshape(1, *y.shape)), ("shape", y.reshape(*y.shape, 1))]
    if y.dtype.kind == "f":
        others.append(("dtype", y.view(f"u{y.dtype.itemsize}")))
    if y.size:
        z = y.copy()
        flat = z.reshape(-1)
        where = int(draw.rng.integers(z.size))
        raw = flat.view(np.uint8).reshape(z.size, -1)
        raw[where, int(draw.rng.integers(raw.shape[1]))] ^= np.uint8(1)
        if difference(z, y) is not None and z.dtype.kind != "b":
            others.append(("one bit", z))
    for what, other in others:
        if other is not y:
            check(
                f"fingerprint: {what}",
                ozaki.fingerprint(other) != name,
                f"{other.dtype} {other.shape} has {name}, too",
            )
    if y.dtype.kind in "fc" or y.dtype == BF:
        _check_nan_fingerprints(y.dtype)


def _check_nan_fingerprints(dtype) -> None:
    """All NaNs count as one; in complex numbers, part by part."""
    part = part_dtype(dtype)
    nan = np.array([np.nan]).astype(part)
    pair = [nan, -nan]
    if dtype.kind == "c":
        pair = [joined([nan, np.ones(1, part)], dtype), joined([-nan, np.ones(1, part)], dtype)]
        two = joined([nan, np.full(1, 2, part)], dtype)
        check(
            "fingerprint: nan+1j and nan+2j", ozaki.fingerprint(two) != ozaki.fingerprint(pair[0]), str(dtype)
        )
    check("fingerprint: two NaNs", ozaki.fingerprint(pair[0]) == ozaki.fingerprint(pair[1]), str(dtype))


CHECKS = {"near_sum, acc_sum, …": textbook, "ExactSum": exactsum, "fingerprint": fingerprint}
