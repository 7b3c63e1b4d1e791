"""Words: a float32 array as the unevaluated sum of arrays in a shorter format."""

from __future__ import annotations

import numpy as np

from multiword.formats import get_format
from multiword.fp32.operand import measure_operands, split_operands
from multiword.fp32.schemes import Scheme
from multiword.rounding import get_rounding, round_to
from multiword.runtime.arrays import Array, as_array, is_cupy, namespace, on_device_of_arrays

WORD_FORMATS = ("fp16", "bf16", "tf32")
"""Formats that words may have."""


@on_device_of_arrays
def split(
    x: object, word: str = "fp16", words: int = 2, *, scaled: bool = False, rounding: str = "RN"
) -> tuple[Array, ...]:
    """Split an array into words: x ≈ x₁ + x₂ + …, each the rounding of what is left.

    Parameters
    ----------
    x : float32 array of any shape (float64 on NumPy too), NumPy or CuPy.
    word : "fp16", "bf16" or "tf32" (stored as float32).
    words : p. Two words of fp16 or tf32, or three of bf16, carry float32's significand.
    scaled : store word i times 2^(precision·(i-1)), 2¹¹ for fp16, so that it does not underflow
        before the first word does (Ootomo and Yokota, section 3.3). Exact.
    rounding : "RN", "RZ" or "RNA".

    Returns
    -------
    p arrays of the word's dtype and the shape of `x`. |x - Σxᵢ| ≤ u^p·|x| barring underflow.
    Infinities and NaNs are in the first word, and the other words are zero there. The first
    word overflows where `x` exceeds its range: scale before.

    Raises
    ------
    ValueError : unknown word format or rounding, or words < 1. TypeError : `x` is not real.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, eq. (2.2). Ootomo and Yokota, eqs. (18) to (22).

    >>> first, second = split(np.float32([1 + 2.0**-11 + 2.0**-20]))
    >>> float(first[0]), float(second[0]) == -(2.0**-11) + 2.0**-20
    (1.0009765625, True)
    """
    fmt, step = get_format(word), get_format(word).precision if scaled else 0
    get_rounding(rounding)
    if word not in WORD_FORMATS:
        raise ValueError(f"word must be one of {', '.join(WORD_FORMATS)}, got {word!r}")
    if words < 1:
        raise ValueError(f"words must be at least 1, got {words}")
    array = as_array(x, "x")
    if array.dtype.kind == "c":
        raise TypeError(f"x must be real, got dtype {array.dtype}; split its parts")
    if is_cupy(array) and array.dtype == np.float32 and words <= 4 and array.size:
        return _split_on_device(array, word, words, scaled, rounding)
    rest, result = array.astype(np.promote_types(array.dtype, np.float32)), []
    special = ~namespace(array).isfinite(rest)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(words):
            result.append(round_to(rest, fmt, rounding))
            rest = (rest - result[-1].astype(rest.dtype)) * rest.dtype.type(2.0**step)
            rest = namespace(array).where(special, rest.dtype.type(0), rest)
    return tuple(result)


def _split_on_device(x: Array, word: str, words: int, scaled: bool, rounding: str) -> tuple[Array, ...]:
    """The same in one reading of `x`."""
    xp, lines = namespace(x), _as_lines(x)
    scheme = Scheme(word, words, scaled_words=scaled, scaled_lines=False, rounding=rounding)
    pair = split_operands(measure_operands(lines, lines[:0], scheme, target=0, guess=False))
    parts = pair.left.words.reshape(lines.shape[0], words, -1)
    result = [xp.ascontiguousarray(parts[:, i, : lines.shape[1]]).reshape(x.shape) for i in range(words)]
    special = ~xp.isfinite(x)
    for i, part in enumerate(result):
        # Through float32: CuPy's `where` knows no bfloat16.
        whole = xp.where(special, x if i == 0 else np.float32(0), part.astype(np.float32))
        result[i] = whole.astype(part.dtype)
    return tuple(result)


def _as_lines(x: Array) -> Array:
    """Any array as contiguous lines, without copying a contiguous one."""
    return namespace(x).ascontiguousarray(x).reshape(-1, x.shape[-1] if x.ndim else 1)


@on_device_of_arrays
def join(words: tuple[Array, ...], *, scaled: bool = False, dtype: object = np.float32) -> Array:
    """Add words up again: x₁ + x₂ + …, smallest first, in float64, rounded once to `dtype`.

    Parameters
    ----------
    words : arrays of one shape, from `split`.
    scaled : as they were split.
    dtype : of the result, float32 or float64.

    Returns
    -------
    Array of that dtype and the words' shape.

    Raises
    ------
    ValueError : no words.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, equation (2.3).

    >>> x = np.float32([0.1, -3e-5, 7e4 / 3])
    >>> bool((join(split(x, "bf16", 3)) == x).all())
    True
    """
    if not words:
        raise ValueError("words must hold at least one array")
    first = words[0]
    name = {2: "fp16", 4: "tf32"}[first.dtype.itemsize] if first.dtype.name != "bfloat16" else "bf16"
    step = 2.0 ** -get_format(name).precision if scaled else 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        total = words[-1].astype(np.float64)
        for word in reversed(words[:-1]):
            total = word.astype(np.float64) + total * step
        return total.astype(dtype)
