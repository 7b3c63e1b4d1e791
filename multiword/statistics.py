"""How much of a float32 number two fp16 words keep: lengths, and probabilities of underflow.

Everything under Ootomo and Yokota's Assumption 1: the stored significand bits are independent
and each is 1 with probability ½.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np

from multiword.formats import get_format
from multiword.public import public_in
from multiword.rounding import round_to, widened
from multiword.runtime.arrays import namespace, on_device_of_arrays
from multiword.words import join, split

_FP32_STORED = 23


@public_in("multiword", "Words and their error")
def significand_lengths(rounding: str = "RN", word: str = "fp16") -> dict[int, Fraction]:
    """Return the probability of each number of stored fp32 bits that two words keep.

    By enumeration of every significand whose bits matter. A number whose two words differ from it by d
    units in its last place keeps 23 bits less the bits of d.

    Parameters
    ----------
    rounding : of both words, "RN", "RZ" or "RNA".
    word : format of the words, "fp16", "bf16" or "tf32".

    Returns
    -------
    The probability, as a fraction, of each length in bits.

    Raises
    ------
    ValueError : unknown rounding or format.

    References
    ----------
    Ootomo and Yokota, section 3.1, Tables 1 and 2.

    >>> significand_lengths("RZ")
    {23: Fraction(1, 2), 22: Fraction(1, 4), 21: Fraction(1, 4)}
    """
    bits = _FP32_STORED + 1 - get_format(word).precision
    # The bits below the first word's last, and that last bit itself, which decides ties.
    low = np.arange(2 << bits, dtype=np.int64)
    value = ((1 << _FP32_STORED) + low).astype(np.float32)
    two = split(value * np.float32(2.0**-_FP32_STORED), word, 2, scaled=True, rounding=rounding)
    loss = np.abs(value - join(two, scaled=True, dtype=np.float64) * 2.0**_FP32_STORED).astype(np.int64)
    counts = Counter(_FP32_STORED - int(d).bit_length() for d in loss)
    return {length: Fraction(counts[length], low.size) for length in sorted(counts, reverse=True)}


@public_in("multiword", "Words and their error")
def expected_length(rounding: str = "RN", word: str = "fp16") -> Fraction:
    """Return the expected number of stored fp32 significand bits, of 23, that two words keep.

    As `multiword.significand_lengths`; differs in returning the mean, a fraction.

    >>> [float(expected_length(r)) for r in ("RN", "RNA", "RZ")]
    [22.75, 22.75, 22.25]
    """
    lengths = significand_lengths(rounding, word)
    return sum((length * chance for length, chance in lengths.items()), Fraction(0))


@public_in("multiword", "Words and their error")
def leading_zeros_probability(n: int, word: str = "fp16") -> Fraction:
    """Return the probability that the first n bits below the first word's are 0, and the next is 1.

    Parameters
    ----------
    n : number of zeros.
    word : format of the first word.

    Returns
    -------
    The probability, as a fraction.

    Raises
    ------
    ValueError : unknown format.

    References
    ----------
    Ootomo and Yokota, equation (14): P(l₀ = n).

    >>> leading_zeros_probability(0), leading_zeros_probability(13)
    (Fraction(1, 2), Fraction(1, 8192))
    """
    width = _FP32_STORED - (get_format(word).precision - 1)
    if n < 0 or n > width:
        return Fraction(0)
    return Fraction(1, 2 ** min(n + 1, width))


@public_in("multiword", "Words and their error")
def underflow_probability(
    exponent: int, *, gradual: bool = False, word: str = "fp16", scale: int = 0
) -> Fraction:
    """Return the probability that the second word of 1.m·2^exponent underflows.

    Parameters
    ----------
    exponent : e_v.
    gradual : count subnormal second words too: P_{u+gu}; without, P_u.
    word : format of the words.
    scale : the second word is stored times 2^scale (11 for halfhalf).

    Returns
    -------
    The probability, as a fraction. A second word that is zero because nothing is left counts as
    one with l₀ = 13, as in the paper.

    Raises
    ------
    ValueError : unknown format.

    References
    ----------
    Ootomo and Yokota, equations (13) and (15) for P_{u+gu}, (16) and (17) for P_u.

    >>> float(underflow_probability(0, gradual=True)), underflow_probability(0)
    (0.0625, Fraction(0, 1))
    """
    fmt = get_format(word)
    stored, width = fmt.precision - 1, _FP32_STORED - (fmt.precision - 1)
    smallest = fmt.emin if gradual else fmt.emin - stored
    # e_v - (l0 + stored + 1) + scale < smallest, the exponent of the smallest (normal) number
    first = exponent + scale - stored - 1 - smallest + 1
    return sum((leading_zeros_probability(n, word) for n in range(max(first, 0), width + 1)), Fraction(0))


@public_in("multiword", "Words and their error")
@on_device_of_arrays
def underflow_counts(x: object, *, word: str = "fp16", scale: int = 0) -> tuple[int, int]:
    """Return how many elements of an array have a second word that underflows, or is at least subnormal.

    As `multiword.underflow_probability`; differs in counting both kinds (Figure 8), the first word being cut
    toward zero. Zeros, Inf and NaN count as neither.

    Parameters
    ----------
    x : float32 array of any shape, NumPy or CuPy; other types are rounded to it, as by `round_to`.

    >>> underflow_counts(np.float32([1 + 2.0**-23, 1.5 + 2.0**-11]))
    (0, 1)
    """
    fmt = get_format(word)
    values = widened(round_to(x, "fp32"), "x").ravel()
    xp = namespace(values)
    values = values[xp.isfinite(values) & (values != 0)]
    exponent = xp.frexp(values)[1] - 1
    # The first word of unlimited exponent range: the paper asks about the second one alone.
    unit = xp.ldexp(1.0, exponent - (fmt.precision - 1))
    left = xp.abs(values - xp.trunc(values / unit) * unit)
    left = xp.where(left == 0, xp.ldexp(1.0, exponent - _FP32_STORED - 1), left)
    second = xp.frexp(left)[1] - 1 + scale
    return int((second < fmt.last_place).sum()), int((second < fmt.emin).sum())
