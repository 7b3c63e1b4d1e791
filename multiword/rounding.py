"""Rounding arrays to a floating-point format, and the errors of rounded sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.formats import FORMATS, Format, get_format
from multiword.public import public_in
from multiword.runtime.arrays import (
    Array,
    as_array,
    is_cupy,
    namespace,
    on_device_of_arrays,
    to_float32,
    to_float64,
)
from multiword.runtime.options import check_choice

ROUNDINGS = ("RN", "RZ", "RNA")
"""To nearest with ties to even, toward zero, to nearest with ties away from zero."""


@public_in("multiword", "Formats")
@on_device_of_arrays
def round_to(x: object, fmt: str | Format, rounding: str = "RN") -> Array:
    """Return an array with every element rounded to a floating-point format, once.

    Parameters
    ----------
    x : array of any shape, float32 or float64, or of a type that float64 holds exactly.
    fmt : a `Format` or the name of one: "fp16", "bf16", "tf32", "fp32", "fp64".
    rounding : "RN" (to nearest, ties to even), "RZ" (toward zero) or "RNA" (to nearest, ties
        away from zero).

    Returns
    -------
    Array of the format's dtype, of the same shape, on the same device. Subnormal numbers of the
    format are results like any other; beyond its range RN and RNA give infinities and RZ the
    largest finite number, as IEEE 754 has it.

    Raises
    ------
    ValueError : unknown format or rounding. TypeError : `x` is not numeric and real, or float64
        does not hold it (longdouble, integers beyond 2**53).

    References
    ----------
    Higham and Pranesh, "Simulating low precision floating-point arithmetic" (2019), `chop`.

    >>> round_to([1 + 2.0**-11, 1 + 3 * 2.0**-11], "fp16").tolist()
    [1.0, 1.001953125]
    >>> float(round_to(1 + 2.0**-11, "tf32", "RNA"))
    1.0009765625
    """
    fmt = get_format(fmt) if isinstance(fmt, str) else fmt
    check_choice("rounding", rounding, ROUNDINGS)
    values = as_array(x, "x")
    with np.errstate(all="ignore"):
        if rounding == "RN" and values.dtype in (np.float32, np.float64) and fmt == FORMATS.get(fmt.name):
            fast = _hardware(values, fmt)
            if fast is not None:
                return fast
        wide = widened(values, "x")
        result = _rounded(namespace(wide), wide, fmt, rounding)
        # By way of float32, which holds them: CuPy's own conversions would lose subnormal numbers.
        return result if fmt.dtype == np.float64 else to_float32(result).astype(fmt.dtype, copy=False)


def widened(x: Array, name: str) -> Array:
    """Return real `x` in float64, exactly; TypeError, naming the argument, if float64 does not hold it."""
    if x.dtype.kind == "c":
        raise TypeError(f"{name} must be real, got dtype {x.dtype}; take its parts")
    long = x.dtype.kind in "iu" and x.dtype.itemsize == 8 and x.size
    if long and max(int(x.max()), -int(x.min())) > 2**53:
        raise TypeError(
            f"{name} has integers beyond 2**53, which float64 does not hold: "
            f"convert it with astype('float64')"
        )
    return to_float64(x)


def _hardware(x: Array, fmt: Format) -> Array | None:
    """Return `x` rounded to nearest where one conversion or one integer addition does it, else None."""
    if fmt.name == "fp64":
        return to_float64(x) if x.dtype == np.float32 else x.copy()
    if fmt.name == "fp32":
        return to_float32(x) if x.dtype == np.float64 else x.copy()
    # From float64 only NumPy's fp16 is rounded once; the others go through float32.
    if (fmt.name in ("fp16", "bf16") and x.dtype == np.float32) or (fmt.name == "fp16" and not is_cupy(x)):
        return x.astype(fmt.dtype)
    if fmt.name == "tf32" and x.dtype == np.float32:
        bits = namespace(x).ascontiguousarray(x).view(np.uint32)
        half = (bits >> np.uint32(13)) & np.uint32(1)
        nearest = (bits + (np.uint32(0x0FFF) + half)) & np.uint32(0xFFFFE000)
        special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
        return namespace(x).where(special, bits, nearest).view(np.float32).reshape(x.shape)
    return None


def _rounded(xp: Any, x: Array, fmt: Format, rounding: str) -> Array:
    """Return the rounded values, stored as float64."""
    finite = xp.isfinite(x)
    x0 = xp.where(finite, x, 0.0)
    exponent = xp.maximum(xp.frexp(x0)[1] - 1, fmt.emin)
    quantum = (exponent - (fmt.precision - 1)).astype(np.int32)
    # Scaled in two steps: 2**-quantum itself may lie beyond float64 (fp64's subnormals).
    half = quantum // 2
    y = xp.ldexp(xp.ldexp(x0, -half), half - quantum)
    integer = xp.rint(y) if rounding == "RN" else xp.trunc(y)
    if rounding == "RNA":
        away = xp.abs(y - integer) >= 0.5
        integer = integer + xp.copysign(away.astype(np.float64), y)
    result = xp.ldexp(integer, quantum)
    if fmt.name != "fp64":
        beyond = xp.abs(result) > fmt.maximum
        limit = fmt.maximum if rounding == "RZ" else np.inf
        result = xp.where(beyond, xp.copysign(limit, result), result)
    result = xp.copysign(result, x)
    return xp.where(finite, result, x)


SPLITTER = 2.0**27 + 1
"""Veltkamp's factor, which splits float64 numbers into halves of 26 bits."""


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return s = fl(a + b) and e = a + b - s, of float64 numbers: Knuth, TAOCP 2, Theorem 4.2.2 B."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def product_error(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return a·b − p for p = fl(a·b), by Dekker's product, of float64 halves of 26 bits.

    Ogita, Rump and Oishi, "Accurate sum and dot product", Algorithms 3.2 and 3.3.

    >>> product_error(1 + 2.0**-30, 1 + 2.0**-30, 1 + 2.0**-29)
    8.673617379884035e-19
    """
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _upper_half(x: np.ndarray) -> np.ndarray:
    """Return the upper half of float64 numbers, by Veltkamp's splitting."""
    scaled = SPLITTER * x
    return scaled - (scaled - x)
