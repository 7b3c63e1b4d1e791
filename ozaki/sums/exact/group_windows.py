"""The window of sums by group: three units, and which numbers are multiples of them.

Three levels of each number are extracted (ExtractVector of Rump, Ogita and Oishi), with sigma = 1.5·2**k,
1.5·2**(k - GAP) and 1.5·2**(k - 2·GAP): a window holds some 110 bits below the largest numbers.
"""

from __future__ import annotations

GAP = 38
"""Bits between the units of levels. A number below 2**(k − 15) has at most 2**(GAP − 1) of each."""

LIMIT = 1023 - (52 - GAP) - 1
"""And k: the exponent field of what a window does not hold."""

LOWEST, HIGHEST = 2 * GAP + 52 - 1074, 1023  # for k: no number is below the lowest unit, no sigma overflows
BEYOND = HIGHEST + LIMIT
"""The exponent field of what no window holds."""

SLACK = 2
"""Bits by which numbers may be above those that a window is made for."""


def fitting(largest: int) -> int:
    """Return k of the window for numbers up to one, given by its bit pattern."""
    return min(max((largest >> 52) + SLACK - LIMIT + 1, LOWEST), HIGHEST)
