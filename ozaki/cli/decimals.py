"""Decimal numbers in text files, as float64."""

import math


def float64_of(text: str) -> float:
    """Return the float64 nearest to a decimal number.

    ValueError for what is no number, for an integer that no float64 is, and for numbers that would become 0
    or infinite.

    >>> float64_of("0.1"), float64_of("-inf")
    (0.1, -inf)
    >>> float64_of("9007199254740993")
    Traceback (most recent call last):
    ValueError: float64 cannot hold 9007199254740993 exactly
    """
    text = text.strip()
    x = float(text)
    significand = text.lower().partition("e")[0]
    lost = math.isinf(x) or (x == 0 and any(digit in significand for digit in "123456789"))
    if "_" in text or (lost and "inf" not in text.lower()):
        raise ValueError(f"float64 cannot hold {_shortened(text)}")
    if text.lstrip("+-").isdecimal() and int(x) != int(text):
        raise ValueError(f"float64 cannot hold {_shortened(text)} exactly")
    return x


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:40]}... of {len(text)} characters"
