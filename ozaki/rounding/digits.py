"""One correct rounding of an exact integer times a power of two, on the host and in CUDA.

This is where every exact result of the package, product or sum, becomes floating point: to
nearest, ties to even, once, with gradual underflow and overflow to infinity.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel

FORM = "ozaki.rounding.digits_numba"


def round_digits(
    digits: Array, base_bits: int, exponent: Array | int, target: Format = FORMATS["fp64"]
) -> Array:
    """Round V·2**exponent to the target format, where V = Σ digits[l]·2**(base_bits·l).

    Parameters
    ----------
    digits : (L, ...) int64, least significant first, any signs; magnitudes below 2**62.
    base_bits : bits between one digit and the next, at most 60.
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
    if (form := compiled(FORM)) is not None:
        shape, out = digits.shape[1:], np.empty(digits[0].size)
        exponents = np.broadcast_to(np.asarray(exponent, np.int64), shape).ravel()
        digits = np.ascontiguousarray(digits).reshape(len(digits), -1)
        formats = target.precision, target.last_place, np.empty(len(digits), np.int64)
        form.round_digits(digits, base_bits, exponents, *formats, out)
        return out.reshape(shape)
    magnitude, negative = _sign_and_magnitude(digits, base_bits)
    window, rest, dropped = _leading_window(magnitude, base_bits)
    # The value is (window·2**(base_bits + 1) + rest)·2**scale; rest is below 2**(base_bits + 1).
    scale = np.asarray(exponent, np.int64) + dropped - (base_bits + 1)
    return np.where(negative, -1.0, 1.0) * _round_window(window, rest, base_bits + 1, scale, target)


def carry(digits: np.ndarray, base_bits: int) -> np.ndarray:
    """Bring all digits but the last into [0, 2**base_bits), in place."""
    mask = np.int64((1 << base_bits) - 1)
    for low, high in pairwise(digits):
        high += low >> base_bits
        low &= mask
    return digits


def _sign_and_magnitude(digits: np.ndarray, base_bits: int) -> tuple[np.ndarray, np.ndarray]:
    carried = carry(digits.astype(np.int64), base_bits)
    negative = carried[-1] < 0
    if negative.any():
        carried *= np.where(negative, -1, 1)
        carry(carried, base_bits)
    return carried, negative


def _leading_window(magnitude: np.ndarray, base_bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split a magnitude into its leading bits, the next digit with a sticky bit, and a shift.

    Leading digits are shifted into 64 bits while there is room for a whole one; the first that
    finds no room goes, doubled, to `rest`, whose lowest bit says if anything follows.
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
    # The last place of the result: precision bits below the leading one, or the subnormals' last place.
    shift = np.maximum(np.maximum(length - target.precision, target.last_place - scale), 0)
    # Bits cut from the window: where these are all 64, NumPy's shifts leave nothing, as they should.
    high = np.clip(shift - rest_bits, 0, 64).astype(np.uint64)
    low = np.minimum(shift, rest_bits).astype(np.uint64)  # bits cut from the rest
    beyond = shift > rest_bits + 64  # even the leading bit lies below half of the last place
    rounded = (window >> high) << (np.uint64(rest_bits) - low) | (rest >> low)
    # What was cut, as a number to compare with one half of that place.
    in_window = shift > rest_bits
    cut = np.where(in_window, window & ((one << high) - one), rest & ((one << low) - one))
    half = np.where(in_window, one << (np.maximum(high, one) - one), (one << low) >> one)
    sticky = in_window & (rest != 0)
    up = (cut > half) | ((cut == half) & (half != 0) & (sticky | ((rounded & one) == one)))
    rounded = np.where(beyond, np.uint64(0), rounded + up)
    with np.errstate(over="ignore"):
        return np.ldexp(rounded.astype(np.float64), np.clip(scale + shift, -(2**20), 2**20).astype(np.int32))


def bit_length(x: np.ndarray) -> np.ndarray:
    """Bits in each integer, none of them negative: 0 for 0."""
    exponent = np.frexp(x.astype(np.float64))[1].astype(np.int64)
    # The conversion may round up to the next power of two, and only up.
    return exponent - ((exponent > 0) & ((x >> np.maximum(exponent - 1, 0).astype(x.dtype)) == 0))


_ROUND_DIGITS = Kernel(
    "round_digits",
    Path(__file__).with_name("digits.cu"),
    ({"LIMBS": 2}, {"LIMBS": 6}, {"LIMBS": 40}),
    equals="ozaki.definition.rounding.nearest",
)


def _round_digits_device(digits: Array, base_bits: int, exponent: Array | int, target: Format) -> Array:
    xp = namespace(digits)
    digits, exponents = xp.ascontiguousarray(digits), np.uintp(0)
    if not isinstance(exponent, int):
        exponents = xp.ascontiguousarray(xp.broadcast_to(xp.asarray(exponent, xp.int32), digits.shape[1:]))
        exponent = 0
    out = xp.empty(digits.shape[1:], xp.float64)
    bits = base_bits * (len(digits) - 1) + 64
    sizes = (np.int64(out.size), np.int32(len(digits)), np.int32(base_bits))
    formats = (np.int32(target.precision), np.int32(target.last_place))
    grid = (min(1 << 16, -(-out.size // 256)),)
    _ROUND_DIGITS(
        grid, (256,), (digits, *sizes, exponents, np.int32(exponent), *formats, out), LIMBS=-(-bits // 64)
    )
    return out
