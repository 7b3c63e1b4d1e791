"""One correct rounding of an exact integer times a power of two, on the host and in CUDA.

This is where every exact result of the package, product or sum, becomes floating point: to
nearest, ties to even, once, with gradual underflow and overflow to infinity.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from multiword._arrays import Array, is_cupy, namespace
from multiword._kernels import Kernel
from multiword.formats import FORMATS, Format


def round_digits(
    digits: Array, base_bits: int, exponent: Array | int, target: Format = FORMATS["fp64"]
) -> Array:
    """Round V·2**exponent to the target format, where V = Σ digits[l]·2**(base_bits·l).

    Parameters
    ----------
    digits : (L, ...) int64, least significant first, any signs; magnitudes below 2**62.
    base_bits : bits between one digit and the next, at most 32.
    exponent : integers that broadcast against digits[0].
    target : the format to round to.

    Returns
    -------
    float64 array of the shape of digits[0], holding numbers of the target format (or ±inf
    where the target's range is exceeded; for targets narrower than fp64 the conversion to
    the target's dtype makes it so, and is exact otherwise).

    >>> third = np.array([[1], [3]])  # 1 + 3·2**30
    >>> round_digits(third, 30, -30)
    array([3.])
    """
    if is_cupy(digits):
        return _round_digits_device(digits, base_bits, exponent, target)
    magnitude, negative = _sign_and_magnitude(digits, base_bits)
    window, rest, dropped = _leading_window(magnitude, base_bits)
    # The value is (window·2**(base_bits + 1) + rest)·2**scale; rest is below 2**(base_bits + 1).
    scale = np.asarray(exponent, np.int64) + dropped - (base_bits + 1)
    return np.where(negative, -1.0, 1.0) * _round_window(window, rest, base_bits + 1, scale, target)


def _carry(digits: np.ndarray, base_bits: int) -> np.ndarray:
    """Bring all digits but the last into [0, 2**base_bits), in place."""
    mask = (1 << base_bits) - 1
    for low, high in pairwise(digits):
        high += low >> base_bits
        low &= mask
    return digits


def _sign_and_magnitude(digits: np.ndarray, base_bits: int) -> tuple[np.ndarray, np.ndarray]:
    carried = _carry(digits.astype(np.int64), base_bits)
    negative = carried[-1] < 0
    if negative.any():
        carried *= np.where(negative, -1, 1)
        _carry(carried, base_bits)
    return carried, negative


def _leading_window(magnitude: np.ndarray, base_bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split a magnitude into its leading bits, the next digit with a sticky bit, and a shift.

    Leading digits are shifted into 64 bits while there is room for a whole one; the first that
    finds no room is kept, doubled, in `rest`, and its lowest bit says if anything follows.
    """
    window = magnitude[-1].astype(np.uint64)
    rest = np.zeros_like(window)
    dropped = np.zeros(window.shape, np.int64)
    room_below = np.uint64(1 << (64 - base_bits))
    for digit in magnitude[-2::-1].astype(np.uint64):
        full = window >= room_below
        if not full.any():
            window = (window << np.uint64(base_bits)) | digit
            continue
        first = full & (dropped == 0)
        window = np.where(full, window, (window << np.uint64(base_bits)) | digit)
        rest = np.where(first, digit << np.uint64(1), rest | (full & (digit != 0)))
        dropped += np.where(full, base_bits, 0)
    return window, rest, dropped


def _round_window(
    window: np.ndarray, rest: np.ndarray, rest_bits: int, scale: np.ndarray, target: Format
) -> np.ndarray:
    """RN((window·2**rest_bits + rest)·2**scale), all integers, as float64."""
    one = np.uint64(1)
    length = bit_length(window) + rest_bits
    smallest = target.emin - target.precision + 1  # exponent of the smallest subnormal
    # The last place kept: precision bits below the leading one, or the subnormals' last place.
    shift = np.maximum(np.maximum(length - target.precision, smallest - scale), 0)
    # Bits cut from the window: where these are all 64, NumPy's shifts leave nothing, as they should.
    high = np.clip(shift - rest_bits, 0, 64).astype(np.uint64)
    low = np.minimum(shift, rest_bits).astype(np.uint64)  # bits cut from the rest
    beyond = shift > rest_bits + 64  # even the leading bit lies below half of the last place
    kept = (window >> high) << (np.uint64(rest_bits) - low) | (rest >> low)
    # What was cut, as a number to compare with one half of the last place kept.
    in_window = shift > rest_bits
    cut = np.where(in_window, window & ((one << high) - one), rest & ((one << low) - one))
    half = np.where(in_window, one << (np.maximum(high, one) - one), (one << low) >> one)
    sticky = in_window & (rest != 0)
    up = (cut > half) | ((cut == half) & (half != 0) & (sticky | ((kept & one) == one)))
    kept = np.where(beyond, np.uint64(0), kept + up)
    with np.errstate(over="ignore"):
        return np.ldexp(kept.astype(np.float64), np.clip(scale + shift, -(2**20), 2**20).astype(np.int32))


def bit_length(x: np.ndarray) -> np.ndarray:
    """Bits in each integer, none of them negative: 0 for 0."""
    exponent = np.frexp(x.astype(np.float64))[1].astype(np.int64)
    # The conversion may round up to the next power of two, and only up.
    return exponent - ((exponent > 0) & ((x >> np.maximum(exponent - 1, 0).astype(x.dtype)) == 0))


ROUNDING_SOURCE = r"""
typedef unsigned long long u64;

/* The two's complement integer limb[0..WORDS-1], least significant first, times 2^exponent,
   rounded to nearest even at `precision` bits, or at the last place 2^smallest if that is
   coarser: what round_digits computes. Destroys limb. */
template <int WORDS>
__device__ double round_limbs(u64 *limb, int exponent, int precision, int smallest) {
    const bool negative = (long long)limb[WORDS - 1] < 0;
    if (negative) {
        u64 carry = 1;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
        for (int i = 0; i < WORDS; i++) { limb[i] = ~limb[i] + carry; carry = carry && limb[i] == 0; }
    }
    int top = WORDS - 1;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
    for (int i = WORDS - 1; i > 0; i--) if (top == i && limb[i] == 0) top = i - 1;
    u64 lead = 0, next = 0, sticky = 0;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
    for (int i = 0; i < WORDS; i++) {
        if (i == top) lead = limb[i];
        else if (i == top - 1) next = limb[i];
        else if (i < top) sticky |= limb[i];
    }
    if (lead == 0) return 0.0;
    /* Normalise: 64 leading bits, everything below them in one sticky bit. */
    const int zeros = __clzll(lead);
    u64 window = zeros ? (lead << zeros) | (next >> (64 - zeros)) : lead;
    sticky |= zeros ? next << zeros : next;
    const int scale = exponent + 64 * top - zeros;
    int shift = max(64 - precision, smallest - scale);
    if (shift > 64) return negative ? -0.0 : 0.0;
    u64 kept = shift == 64 ? 0 : window >> shift;
    const u64 half = 1ull << (shift - 1);
    const u64 cut = shift == 64 ? window : window & ((half << 1) - 1);
    kept += cut > half || (cut == half && (sticky || (kept & 1)));
    /* kept is at most 2^53 and the exponent is that of a representable number or of overflow */
    const double value = scalbn((double)kept, max(-4096, min(4096, scale + shift)));
    return negative ? -value : value;
}

/* RN((a + b + c)·2^exponent) for exact a, b, c of decreasing weight, each an integer below 2^53
   times a power of two, where the result is a normal number; false, and no result, where it may
   not be. Two error-free sums leave s + t + f; t is rounded to odd, so that the one rounding that
   follows, s + t, goes as that of s + t + f does (Boldo and Melquiond). */
__device__ bool round_three(double a, double b, double c, int exponent, double *result) {
    const double s = a + b, z = s - a, e = (a - (s - z)) + (b - z);
    const double t = e + c, y = t - e, f = (e - (t - y)) + (c - y);
    long long bits = __double_as_longlong(t);
    /* If t is inexact and even, step to its neighbour on the side of f. */
    if (f != 0 && !(bits & 1)) bits += (f > 0) == (t > 0) ? 1 : -1;
    const double sum = s + __longlong_as_double(bits);
    const int scaled = ((int)(__double2hiint(sum) >> 20) & 0x7ff) + exponent;
    if (scaled < 1 || scaled > 2046 || sum == 0) return false;
    *result = __hiloint2double(__double2hiint(sum) + exponent * (1 << 20), __double2loint(sum));
    return true;
}

/* limb += value·2^bits, modulo 2^(64·WORDS). */
template <int WORDS>
__device__ void add_shifted(u64 *limb, long long value, int bits) {
    const int first = bits / 64, shift = bits % 64;
    const u64 sign = (u64)(value >> 63);
    const u64 low = (u64)value << shift;
    const u64 high = shift ? (u64)(value >> (64 - shift)) : sign;
    u64 carry = 0;
#pragma unroll(WORDS <= 8 ? WORDS : 1)
    for (int i = 0; i < WORDS; i++) {
        if (i < first) continue;
        const u64 term = i == first ? low : i == first + 1 ? high : sign;
        const u64 partial = limb[i] + term;
        limb[i] = partial + carry;
        carry = (partial < term) | (limb[i] < partial);
    }
}
"""

_ROUND_DIGITS = Kernel(
    "round_digits",
    ROUNDING_SOURCE
    + r"""
extern "C" __global__ void round_digits(const long long *digits, long long count, int length, int base_bits,
                                        const int *exponent, int precision, int smallest, double *out) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        u64 limb[LIMBS] = {};
        for (int l = 0; l < length; l++) add_shifted<LIMBS>(limb, digits[l * count + i], l * base_bits);
        out[i] = round_limbs<LIMBS>(limb, exponent[i], precision, smallest);
    }
}
""",
    ({"LIMBS": 2}, {"LIMBS": 6}, {"LIMBS": 40}),
)


def _round_digits_device(digits: Array, base_bits: int, exponent: Array | int, target: Format) -> Array:
    xp = namespace(digits)
    digits = xp.ascontiguousarray(digits)
    exponent = xp.ascontiguousarray(xp.broadcast_to(xp.asarray(exponent, xp.int32), digits.shape[1:]))
    out = xp.empty(digits.shape[1:], xp.float64)
    bits = base_bits * (len(digits) - 1) + 64
    smallest = target.emin - target.precision + 1
    sizes = (np.int64(out.size), np.int32(len(digits)), np.int32(base_bits))
    formats = (np.int32(target.precision), np.int32(smallest))
    grid = (min(1 << 16, -(-out.size // 256)),)
    _ROUND_DIGITS(grid, (256,), (digits, *sizes, exponent, *formats, out), LIMBS=-(-bits // 64))
    return out
