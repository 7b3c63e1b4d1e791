"""Words: a float32 array as the unevaluated sum of arrays in a shorter format."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multiword.formats import FORMATS, Format
from multiword.public import public_in
from multiword.rounding import ROUNDINGS, round_to, widened
from multiword.runtime.arrays import Array, as_array, namespace, on_device_of_arrays, to_float32
from multiword.runtime.options import check_choice, integer

WORD_FORMATS = ("fp16", "bf16", "tf32")
"""Formats that words may have."""


@public_in("multiword", "Words and their error")
@on_device_of_arrays
def split(
    x: object, word: str = "fp16", words: int = 2, *, scaled: bool = False, rounding: str = "RN"
) -> tuple[Array, ...]:
    """Return the words of an array: x ≈ x₁ + x₂ + …, each the rounding of what is left.

    Parameters
    ----------
    x : float32 or float64 array of any shape, NumPy or CuPy; other types as `round_to` takes them.
    word : "fp16", "bf16" or "tf32" (stored as float32).
    words : p. Two words of fp16 or tf32, or three of bf16, carry float32's significand.
    scaled : store word i times 2^(precision·(i-1)), 2¹¹ for fp16, so that it does not underflow
        before the first word does (Ootomo and Yokota, section 3.3). Exact.
    rounding : "RN", "RZ" or "RNA".

    Returns
    -------
    p arrays of the word's dtype and the shape of `x`. |x - Σxᵢ| ≤ u^p·|x| barring underflow and overflow.
    Infinities and NaNs are in the first word, and the other words are zero there.

    Raises
    ------
    ValueError : unknown word format or rounding, or words < 1. TypeError : `x` is not real, or
        float64 does not hold it.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, eq. (2.2). Ootomo and Yokota, eqs. (18) to (22).

    >>> first, second = split(np.float32([1 + 2.0**-11 + 2.0**-20]))
    >>> float(first[0]), float(second[0]) == -(2.0**-11) + 2.0**-20
    (1.0009765625, True)
    """
    check_choice("word", word, WORD_FORMATS)
    check_choice("rounding", rounding, ROUNDINGS)
    fmt = FORMATS[word]
    factor = 2.0**fmt.precision if scaled else 1.0
    words = integer("words", words)
    if words < 1:
        raise ValueError(f"words must be at least 1, got {words}")
    array = as_array(x, "x")
    xp, result = namespace(array), []
    # CuPy's own arithmetic on float32 would take subnormal numbers as zero.
    rest = array if array.dtype == np.float32 and xp is np else widened(array, "x")
    special = ~xp.isfinite(rest)
    with np.errstate(all="ignore"):
        for _ in range(words):
            result.append(round_to(rest, fmt, rounding))
            value = result[-1].astype(np.float32) if rest.dtype == np.float32 else widened(result[-1], "x")
            rest = xp.where(special, rest.dtype.type(0), (rest - value) * rest.dtype.type(factor))
            if xp is not np and array.dtype == np.float32:
                rest = widened(to_float32(rest), "x")  # may overflow, as on the host
    return tuple(result)


@public_in("multiword", "Words and their error")
@on_device_of_arrays
def join(words: Sequence[Array], *, scaled: bool = False, dtype: object = np.float32) -> Array:
    """Return the sum of words, x₁ + x₂ + …, smallest first, in float64, rounded once to `dtype`.

    Parameters
    ----------
    words : arrays of one shape and one dtype, float16, bfloat16 or float32 (tf32), from `split`.
    scaled : as they were split.
    dtype : of the result, float32 or float64.

    Returns
    -------
    Array of that dtype and the words' shape.

    Raises
    ------
    ValueError : no words, or shapes or `dtype` that do not fit. TypeError : words of another dtype.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, equation (2.3).

    >>> x = np.float32([0.1, -3e-5, 7e4 / 3])
    >>> bool((join(split(x, "bf16", 3)) == x).all())
    True
    """
    arrays = [as_array(word, f"words[{i}]") for i, word in enumerate(words)]
    if not arrays:
        raise ValueError("words must hold at least one array")
    target = np.dtype(dtype)  # type: ignore[call-overload]
    if target not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {target}")
    if len({x.shape for x in arrays}) > 1:
        raise ValueError(f"words must have one shape, got {', '.join(str(x.shape) for x in arrays)}")
    precision = _format_of(arrays).precision
    step = 2.0**-precision if scaled else 1.0
    with np.errstate(all="ignore"):
        total = widened(arrays[-1], "words")
        for word in reversed(arrays[:-1]):
            total = widened(word, "words") + total * step
        return to_float32(total) if target == np.float32 else total


def _format_of(words: list[Array]) -> Format:
    """Return the format of words, by their dtype."""
    dtypes = {x.dtype.newbyteorder("=") for x in words}
    for name in WORD_FORMATS:
        if dtypes == {FORMATS[name].dtype}:
            return FORMATS[name]
    names = ", ".join(sorted(str(dtype) for dtype in dtypes))
    raise TypeError(f"words must all be float16, bfloat16 or float32 (tf32), got {names}")
