"""Rounding arrays to a floating-point format: to nearest even, toward zero, to nearest away."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.formats import Format, get_format
from multiword.runtime.arrays import Array, as_array, namespace, on_device_of_arrays

ROUNDINGS = ("RN", "RZ", "RNA")
"""To nearest with ties to even, toward zero, to nearest with ties away from zero."""


def get_rounding(rounding: str) -> str:
    """Return `rounding`; ValueError, listing the known ones, if it is not in `ROUNDINGS`."""
    if rounding not in ROUNDINGS:
        raise ValueError(f"unknown rounding {rounding!r}; known are {', '.join(ROUNDINGS)}")
    return rounding


@on_device_of_arrays
def round_to(x: object, fmt: str | Format, rounding: str = "RN") -> Array:
    """Round every element to a floating-point format, once.

    Parameters
    ----------
    x : array of any shape, float32 or float64 (others are promoted to float64 exactly, int64
        and longer types beyond 2**53 excepted).
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
    ValueError : unknown format or rounding. TypeError : `x` is not numeric and real.

    References
    ----------
    Higham and Pranesh, "Simulating low precision floating-point arithmetic" (2019), `chop`.

    >>> round_to([1 + 2.0**-11, 1 + 3 * 2.0**-11], "fp16").tolist()
    [1.0, 1.001953125]
    >>> float(round_to(1 + 2.0**-11, "tf32", "RNA"))
    1.0009765625
    """
    fmt = get_format(fmt) if isinstance(fmt, str) else fmt
    get_rounding(rounding)
    values = as_array(x, "x")
    if values.dtype.kind == "c":
        raise TypeError(f"x must be real, got dtype {values.dtype}; round its parts")
    with np.errstate(over="ignore", invalid="ignore"):
        if rounding == "RN" and values.dtype in (np.float32, np.float64):
            fast = _hardware(values, fmt)
            if fast is not None:
                return fast
        wide = values.astype(np.float64)
        return _rounded(namespace(wide), wide, fmt, rounding).astype(fmt.dtype)


def _hardware(x: Array, fmt: Format) -> Array | None:
    """Rounding to nearest where one conversion or one integer addition does it, else None."""
    # (bfloat16's conversion from float64 goes through float32 and would round twice.)
    if fmt.name in ("fp64", "fp32", "fp16") or (fmt.name == "bf16" and x.dtype == np.float32):
        return x.astype(fmt.dtype)
    if fmt.name == "tf32" and x.dtype == np.float32:
        bits = namespace(x).ascontiguousarray(x).view(np.uint32)
        half = (bits >> np.uint32(13)) & np.uint32(1)
        nearest = (bits + (np.uint32(0x0FFF) + half)) & np.uint32(0xFFFFE000)
        special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
        return namespace(x).where(special, bits, nearest).view(np.float32).reshape(x.shape)
    return None


def _rounded(xp: Any, x: Array, fmt: Format, rounding: str) -> Array:
    """The rounded values, still stored as float64."""
    finite = xp.isfinite(x)
    x0 = xp.where(finite, x, 0.0)
    exponent = xp.maximum(xp.frexp(x0)[1] - 1, fmt.emin)
    quantum = (exponent - (fmt.precision - 1)).astype(np.int32)
    # Scaled in two steps: 2**-quantum itself may lie beyond float64 (fp64's subnormals).
    half = quantum // 2
    y = xp.ldexp(xp.ldexp(x0, -half), half - quantum)
    whole = xp.trunc(y)
    if rounding == "RN":
        whole = xp.rint(y)
    elif rounding == "RNA":
        away = xp.abs(y - whole) >= 0.5
        whole = whole + xp.copysign(away.astype(np.float64), y)
    result = xp.ldexp(whole, quantum)
    if fmt.name != "fp64":
        beyond = xp.abs(result) > fmt.maximum
        limit = fmt.maximum if rounding == "RZ" else np.inf
        result = xp.where(beyond, xp.copysign(limit, result), result)
    result = xp.copysign(result, x)
    return xp.where(finite, result, x)
