"""The theorem of extraction, on which all exact sums rest, and what each of its users takes of it.

Let sigma be 1.5·2**k and |x| <= 2**(k - 1), both float64. Then x + sigma, rounded, lies between 2**k and
2**(k + 1), where float64 numbers are 2**(k - 52) apart. So

    1.  it is sigma + q units of 2**(k - 52), for an integer q: x rounded to units;
    2.  its bit pattern, read as an integer, is that of sigma plus q;
    3.  r = x - ((x + sigma) - sigma) has no rounding error, and |r| is half a unit at most, 2**(k - 53).

That is ExtractVector of Rump, Ogita and Oishi (Accurate floating-point summation, part I, algorithm 3.2 and
lemma 3.3), who add up q in floating point. Here bit patterns are added as integers: exactly, in any order.

Levels that are `bits` apart take x to pieces: the next sigma is 1.5·2**(k - bits), and what level l leaves
is at most 2**(k - l·bits - 53), as is x at first if |x| <= 2**(k - 53 + bits). Divided by the unit of the
next level that is 2**(bits - 1). Hence

    4.  |q| <= 2**(bits - 1) at every level, and sums of n terms are n·2**(bits - 1) at most;
    5.  `count` levels leave nothing of a multiple of the last unit, 2**(k - 52 - (count - 1)·bits).
"""

from __future__ import annotations

from dataclasses import dataclass

BIAS, FRACTION, SMALLEST = 1023, 52, -1074
"""Of float64: its exponents' bias, its fraction's bits, and the exponent of the smallest number."""

HIGHEST = 1023
"""The largest k: 1.5·2**k is finite, and a sum with x as well."""

SLACK = 2
"""Bits by which what follows may be larger than the numbers that a window was made for."""

WORD = 62
"""Sums of magnitudes below 2**62 are added to one more of their kind in 64 bits."""


@dataclass(frozen=True)
class Levels:
    """So many levels, so many bits apart: a window is these below some k."""

    count: int
    bits: int

    def terms(self, word: int) -> int:
        """Return how many terms have sums of at most 2**word units at each level (4.)."""
        return 1 << (word - self.bits + 1)

    def units(self, terms: int) -> int:
        """Return the bound of what so many terms have at each level, in its units (4.)."""
        return terms << (self.bits - 1)

    def window(self, largest: int) -> int:
        """Return k of a window with room above the largest number, given by its bit pattern; any integer."""
        return (largest >> FRACTION) + SLACK + 1 - self.limit

    @property
    def limit(self) -> int:
        """And k: the exponent field of what is too large for 4."""
        return BIAS - 1 - FRACTION + self.bits

    @property
    def lowest(self) -> int:
        """The smallest k: the last unit is the smallest number, so that nothing is left (5.)."""
        return SMALLEST + FRACTION + (self.count - 1) * self.bits


TWO = Levels(2, 46)
"""Of blocks (`extraction`, `extraction_numba`), whose sums are two words a column."""

GROUPS = Levels(3, 38)
"""Of sums by group (`groups`): shorter, since a group may have all terms; the third is seldom needed."""

THREE = Levels(3, 49)
"""Of products of two float64 numbers on a GPU: their squares differ twice as much in size as numbers do."""

BLOCK_ROWS = TWO.terms(60)
"""The most elements of a column in a block of `extraction`. Two blocks' sums are below 2**61."""

LEVEL_BITS, LOWEST, OFFSET = TWO.bits, TWO.lowest, TWO.window(0)
"""Of blocks, as compiled loops take them."""


def window_above(largest: int) -> int:
    """Return k of a block's window for numbers up to this bit pattern; the lowest if none holds them."""
    k = (largest >> FRACTION) + OFFSET
    return k if LOWEST < k <= HIGHEST else LOWEST


def bits_between(terms: int) -> int:
    """Return how far apart two levels are, at most, of so many terms that are added up in one word (4.).

    >>> bits_between(2000), bits_between(1 << 20)
    (52, 43)
    """
    bits = FRACTION
    while terms > 1 << (WORD - bits + 1):
        bits -= 1
    return bits


TOGETHER = 1 << 61
"""Bound of sums of blocks that are added up as they are (`FixedPoint.plus`)."""

WINDOW_BLOCK = 1 << 11
"""Elements of a vector that go into a window together, or not at all: their sums are carried then."""

REST = 39
"""Where only the upper level is exact: bits from its sigma to that by which the rest of a block is cut."""

ERROR = 16
"""Units of the lower level, for each number, of which such sums are off at most."""

GROUP_TERMS = GROUPS.terms(58)
"""Terms between carries of a group's words, to which the lanes of a group are added."""

GROUP_TERMS_ON_DEVICE = GROUPS.terms(61)
"""The same of the threads of a GPU, which carry once."""

GROUPS_CARRIED = 1 << 59
"""Units that all lanes of a group may have, and so many terms more."""

# Every user, held to 4: the largest sum that its words may have.
assert all(levels.bits <= FRACTION for levels in (TWO, GROUPS, THREE)), "|x| <= 2**(k - 1), above"
assert 2 * TWO.units(BLOCK_ROWS) <= TOGETHER  # `FixedPoint.plus`
assert TWO.units(WINDOW_BLOCK) + (1 << TWO.bits) <= 1 << WORD  # `extraction_numba._carry`
# `extraction_numba.enclosed_sum`: the upper level leaves 2**(k - 53) of each number (3.), and a product has
# as much of an error, at most. So the rest of a block is below 2·WINDOW_BLOCK·2**(k - 53), and is cut by the
# theorem, too. Each rounding of it is off by 2**-54 of that, and the cut by 2**(k - REST - 53), in units of
# 2**(k - 52 - LEVEL_BITS).
assert 2 * WINDOW_BLOCK <= 1 << (FRACTION - REST)
_ROUNDING, _CUT = WINDOW_BLOCK >> (54 - LEVEL_BITS), 1 << (LEVEL_BITS - 1 - REST)
assert WINDOW_BLOCK * _ROUNDING + _CUT <= ERROR * WINDOW_BLOCK
assert Levels(2, bits_between(2000)).units(2000) <= 1 << WORD  # `windows_enclosed_numba`
assert GROUPS.units(GROUP_TERMS) + GROUPS_CARRIED <= 1 << WORD  # `groups._Window`
assert GROUPS.units(GROUP_TERMS_ON_DEVICE) <= 1 << WORD
