"""The certificate: how wide the integers must be for the error asked for, proved from the data.

With scaled rows a' of A and columns b' of B, and every rounding at most one half,

    |C' - a'·b'| <= T = (Σ|a'| + Σ|b'|)/2 + k/4,

and the certificate is T <= tol·u·Σ|a'||b'| for every pair (row, column). It comes in two
stages, both of them in integers or in float64 operations of a fixed order on the host, so
that every engine reaches the same verdict.

1. From the profiles alone, for all pairs at once: if N elements of a row are at least x, and
   M elements of a column at least y, at least N + M - k products are at least x·y, whatever
   their order. Numbers that spread over many octaves make that a small sum, and all integers
   are widened by as many bits as are missing.
2. From a product of truncated magnitudes, exact, when the first stage cannot tell (few nonzero
   numbers, say): the sum |A||B| of each pair to 24 bits, and the number of its nonzero terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._graphs import side_by_side
from multiword._kernels import Kernel
from multiword.formats import Format
from ozaki._operand import Operand
from ozaki._pairs import ExactSums, pair_errors
from ozaki._profile import (
    BITS,
    COUNT_BITS,
    COUNT_WORDS,
    FINE,
    LEVELS,
    NONFINITE,
    STEP,
    ZERO,
    Profile,
)
from ozaki._scales import DISCARD, NormLimit, norm_limit, norm_scales, usable_rows

OCTAVES = 44
"""Octaves below the norm limit over which scaled magnitudes are counted."""

WIDEST, WIDENING = 48, 3
"""Bits by which the first stage may widen all integers (data that ask for more see the second), and
the step in which it does: moduli come in such steps, and few widths mean few kernels to compile."""

_SUMMARY_CONSTANTS: dict[str, Any] = {
    "BITS": BITS,
    "FINE": FINE,
    "STEP": STEP,
    "COUNTS": len(LEVELS),
    "COUNT_BITS": COUNT_BITS,
    "COUNT_WORDS": COUNT_WORDS,
    "ZERO": ZERO,
    "NONFINITE": NONFINITE,
    "DISCARD": DISCARD,
    "OCTAVES": OCTAVES,
    "WARPS": 22,
    "BATCH": 8,
}


@dataclass(frozen=True)
class Summary:
    """What the first stage needs of one operand, over all its usable rows.

    Attributes
    ----------
    nonfinite : whether any row has an Inf or NaN.
    largest_total : upper bound of Σ|a'| for every row.
    log2_square : log2 of an upper bound of Σa'², at least 0, for every row, to a few ulps.
    at_least : (OCTAVES,) how many elements of every row are at least 2**(top - d), d = 0, 1, …,
        with top = bits // 2 of the norm limit.
    length : elements in a row.
    """

    nonfinite: bool
    largest_total: float
    log2_square: float
    at_least: np.ndarray
    length: int


Reading = Callable[[], tuple[Summary, Summary]]
"""Waits for the summaries of both operands, and returns them."""


def summarize(
    profiles: tuple[Profile, Profile], scales: tuple[Array | None, Array | None], limits: Format
) -> tuple[tuple[Array, Array], Callable[[], Reading]]:
    """Reduce the profiles of both operands over their rows.

    Where no scales are given, they are the norm scales of the format `limits`, made in the same pass.

    Returns the scales, and a function that sends the summaries to the host: one small transfer,
    for which only what that function returns waits, so that work can be queued in between.
    """
    limit = norm_limit(limits, profiles[0].length)
    if is_cupy(profiles[0].exponent):
        return _summarize_device(profiles, scales, limit)
    made = [norm_scales(p, limits) if s is None else s for p, s in zip(profiles, scales, strict=True)]
    given = made[0], made[1]
    return (
        given,
        lambda: (
            lambda: (
                _summarize_host(profiles[0], given[0], limit.bits // 2),
                _summarize_host(profiles[1], given[1], limit.bits // 2),
            )
        ),
    )


def _summarize_host(profile: Profile, scale: np.ndarray, top: int) -> Summary:
    usable = usable_rows(profile)
    nonfinite = bool((profile.exponent == NONFINITE).any())
    if not usable.any():
        return Summary(nonfinite, 0.0, 0.0, np.full(OCTAVES, profile.length), profile.length)
    p, scale = profile.block(usable), scale[usable]
    height = p.exponent + scale  # bits of the largest integer of each row
    total = np.ldexp(p.total.astype(np.float64), height - BITS).max()
    log2_square = max(0.0, (np.log2(p.square) + 2.0 * (height - BITS)).max())
    at_least = _at_least(p, scale, top).min(axis=1)
    return Summary(nonfinite, float(total), float(log2_square), at_least, profile.length)


def _at_least(profile: Profile, scale: np.ndarray, top: int) -> np.ndarray:
    """How many scaled magnitudes of each row are at least 2**(top - d), for d = 0, 1, …: (OCTAVES, r)."""
    segments = profile.segments
    height = segments.exponent + scale
    words = segments.counts.transpose(1, 0, 2)
    counts = np.concatenate([words >> COUNT_BITS * i & ((1 << COUNT_BITS) - 1) for i in range(3)])
    found = np.zeros((OCTAVES, len(scale)), np.int64)
    for bits in np.unique(height[segments.exponent != ZERO]):  # few, unless the numbers spread far
        here = np.einsum("isr,sr->ir", counts, (height == bits).astype(counts.dtype))
        # Segments of that height count magnitudes from 2**(bits - 1 - q): look up the largest such q.
        level = bits - 1 - (top - np.arange(OCTAVES))
        index = np.where(level < FINE, level, FINE - 1 + (level - (FINE - 1)) // STEP)
        found[level >= 0] += here[np.minimum(index[level >= 0], len(LEVELS) - 1)]
    return found


_SUMMARIZE = Kernel(
    "summarize",
    r"""
typedef unsigned long long u64;
typedef long long i64;
#define COUNT_MASK ((1u << COUNT_BITS) - 1)
/* norm_scales, where no scales are given: the largest s with square·4^s below the norm limit. */
__device__ int norm_scale(int exponent, i64 square, int limit_bits, int thirtyseconds) {
    if (exponent == ZERO) return 0;
    if (exponent == NONFINITE) return DISCARD;
    const int bits = 63 - __clzll(square);
    const i64 threshold = (1ll << bits) + (((thirtyseconds - 32) * (1ll << bits)) >> 5);
    return ((limit_bits - bits - (square > threshold)) >> 1) + BITS - exponent;
}
/* The bits of a positive double order as the numbers do. */
__device__ void raise(u64 *largest, double x) {
    for (int d = 16; d; d >>= 1) x = fmax(x, __shfl_xor_sync(~0u, x, d));
    if (threadIdx.x == 0) atomicMax(largest, (u64)__double_as_longlong(x));
}

/* _summarize_host: every lane has a row, every warp some of the octaves.
   out: nonfinite, the bits of largest_total and of log2_square, length - at_least[OCTAVES] */
extern "C" __global__ void __launch_bounds__(32 * WARPS)
summarize(const int *exponent, const i64 *total, const i64 *square, const int *segment_exponents,
          const unsigned *counts, int *scale, int given, int rows, int segments, i64 length, int limit_bits,
          int thirtyseconds, u64 *out) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.x * 32 + lane;
    const int e = row < rows ? exponent[row] : ZERO;
    int s = 0;
    if (row < rows) {
        s = given ? scale[row] : norm_scale(e, square[row], limit_bits, thirtyseconds);
        if (!given && warp == 0) scale[row] = s;
    }
    const bool usable = e != ZERO && e != NONFINITE;
    if (warp == 0) {
        const int units = e + s - BITS;
        raise(&out[1], usable ? scalbn((double)total[row], units) : 0);
        raise(&out[2], usable ? fmax(0.0, log2((double)square[row]) + 2.0 * units) : 0);
        if (e == NONFINITE) atomicMax(&out[0], 1ull);
    }
    const int top = limit_bits / 2;
    for (int d = warp; d < OCTAVES; d += WARPS) {
        unsigned found = 0;
        for (int first = 0; first < segments; first += BATCH) {
            int level[BATCH]; /* several at once: each lookup has to wait for memory twice */
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const bool exists = usable && first + i < segments;
                const i64 at = (i64)(first + i) * rows + row;
                level[i] = exists ? segment_exponents[at] + s - 1 - (top - d) : -1;
            }
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const int coarse = FINE - 1 + (level[i] - (FINE - 1)) / STEP;
                const int index = min(level[i] < FINE ? level[i] : coarse, COUNTS - 1);
                const i64 at = ((i64)(first + i) * COUNT_WORDS + index % COUNT_WORDS) * rows + row;
                if (level[i] >= 0) found += counts[at] >> index / COUNT_WORDS * COUNT_BITS & COUNT_MASK;
            }
        }
        const unsigned most = __reduce_max_sync(~0u, usable ? (unsigned)length - found : 0);
        if (lane == 0) atomicMax(&out[3 + d], (u64)most);
    }
}
""",
    (_SUMMARY_CONSTANTS,),
)


def _summarize_device(
    profiles: tuple[Profile, Profile], scales: tuple[Array | None, Array | None], limit: NormLimit
) -> tuple[tuple[Array, Array], Callable[[], Reading]]:
    cupy = namespace(profiles[0].exponent)
    found = cupy.zeros((2, 3 + OCTAVES), cupy.uint64)
    made = tuple(
        cupy.empty(len(p.exponent), cupy.int32) if given is None else given
        for p, given in zip(profiles, scales, strict=True)
    )

    def reduce(i: int) -> None:
        p, rows = profiles[i], len(profiles[i].exponent)
        given, segments = np.int32(scales[i] is not None), np.int32(len(p.segments.exponent))
        sizes = (given, np.int32(rows), segments, np.int64(p.length))
        limits = (np.int32(limit.bits), np.int32(limit.thirtyseconds))
        arrays = (p.exponent, p.total, p.square, p.segments.exponent, p.segments.counts, made[i])
        grid, block = (-(-rows // 32),), (32 * _SUMMARY_CONSTANTS["WARPS"],)
        _SUMMARIZE(grid, block, (*arrays, *sizes, *limits, found[i]), **_SUMMARY_CONSTANTS)

    side_by_side(lambda: reduce(0), lambda: reduce(1))
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(found.nbytes), np.uint64, found.size)
    pinned = pinned.reshape(found.shape)
    arrived = cupy.cuda.Event(block=False, disable_timing=True)

    def send() -> Reading:
        found.get(out=pinned, blocking=False)
        arrived.record()
        return read

    def read() -> tuple[Summary, Summary]:
        arrived.synchronize()
        return _read_summary(pinned[0], profiles[0].length), _read_summary(pinned[1], profiles[1].length)

    return made, send


def _read_summary(found: np.ndarray, length: int) -> Summary:
    total, log2_square = found[1:3].view(np.float64)
    return Summary(
        bool(found[0]), float(total), float(log2_square), length - found[3:].view(np.int64), length
    )


def log2_norms(a: Summary, b: Summary) -> float:
    """Upper bound of log2 of |A'B'|, by Cauchy and Schwarz.

    Rounding to integers adds at most sqrt(k)/2 to a norm. The margin of 2**-10 covers the
    rounding of the logarithms.
    """

    def log2_norm(x: Summary) -> float:
        half = x.log2_square / 2
        return half + math.log2(1 + (math.sqrt(x.length) / 2 + 1) * 2.0**-half)

    return log2_norm(a) + log2_norm(b) + 2.0**-10


def first_stage(a: Summary, b: Summary, target: Format) -> float:
    """The certified error of the norm scales: a bound of max |C - AB| / |A||B|, or inf.

    The rounding of C itself, u·|C|, comes on top.
    """
    length = a.length
    if a.largest_total == 0 or b.largest_total == 0:
        return 0.0
    top = norm_limit(target, length).bits // 2
    truncation = 0.5 * (a.largest_total + b.largest_total) + 0.25 * length
    # |x| is at least Σ_d 2**(top - 1 - offset_d)·[|x| >= 2**(top - d)]: each octave adds half of
    # its own threshold, the lowest one all of it.
    overlap = np.add.outer(a.at_least - float(length), b.at_least)
    np.maximum(overlap, 0, out=overlap)
    # Fewer than 2**11 counts below 2**32, times ten powers of two: each sum is exact, in any order.
    lower = math.ldexp(math.fsum(_OCTAVE_WEIGHTS @ overlap.ravel()), 2 * (top - 1))
    return truncation / lower if lower > 0 else math.inf


def _octave_weights() -> np.ndarray:
    """What overlaps count for, 2**-(offset_d + offset_e), in one row for every ten such sums."""
    offsets = np.minimum(np.arange(OCTAVES), OCTAVES - 2)
    sums = np.add.outer(offsets, offsets).ravel()
    return np.where(sums // 10 == np.arange(sums.max() // 10 + 1)[:, None], 2.0**-sums, 0)


_OCTAVE_WEIGHTS = _octave_weights()


def first_tolerance(length: int, target: Format) -> float:
    """What the first stage must certify: at most k/2·u, and at most 12·sqrt(k)·u.

    The counting bound is four to ten times too small for data without structure, for which
    what this accepts means an error of about sqrt(k)·u at the very worst.
    """
    return min(length / 2, 12 * math.sqrt(length)) * target.unit_roundoff


def widening(a: Summary, b: Summary, target: Format) -> tuple[int, float] | None:
    """The bits by which all integers must grow, and the bound of max |C - AB| / |A||B| then.

    None where the first stage cannot tell, or asks for more than WIDEST.
    """
    bound, tolerance = first_stage(a, b, target), first_tolerance(a.length, target)
    if bound <= tolerance:
        return 0, bound
    if bound > tolerance * 2.0**WIDEST:
        return None
    # The exponent of a quotient, unlike its logarithm, is the same on every machine.
    bits = WIDENING * -(-math.frexp(bound / tolerance)[1] // WIDENING)
    return bits, bound * 2.0**-bits


def second_stage(
    a: Operand, b: Operand, scales: tuple[Array, Array], target: Format, sums: ExactSums
) -> tuple[tuple[Array, Array], float]:
    """Widen the scales until the certificate holds for every pair.

    The tolerance is sqrt(terms)/2·u of |A||B|, with `terms` the number of nonzero terms of
    the pair; no row becomes wider than it takes to lose nothing.

    Returns the scales and the certified bound of max |C - AB| / |A||B|.
    """
    xp = namespace(a.matrix)
    error, ratio = pair_errors(a, b, scales, sums)
    needed = ratio / target.unit_roundoff
    if not math.isfinite(needed):
        return (a.exact, b.exact), 0.0
    widening = max(0, math.frexp(needed)[1]) if needed > 1 else 0
    widened = [xp.minimum(s + widening, x.exact) for s, x in zip(scales, (a, b), strict=True)]
    return (widened[0], widened[1]), error * 2.0**-widening
