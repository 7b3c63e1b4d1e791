"""The theorem of extraction, in integers, at the edges of what it says; and who uses it."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import ozaki.sums.exact
from ozaki.sums.exact.levels import GROUPS, HIGHEST, THREE, TWO

LEVELS = {"two": TWO, "groups": GROUPS, "three": THREE}


def pattern(x: float) -> int:
    return int(np.float64(x).view(np.int64))


def pieces(x: float, k: int, levels) -> tuple[list[int], float]:
    """The integers of each level, and what is left, in float64 as every form computes them."""
    found, rest = [], x
    for level in range(levels.count):
        sigma = float(np.ldexp(1.5, k - level * levels.bits))
        shifted = rest + sigma
        found.append(pattern(shifted) - pattern(sigma))
        rest -= shifted - sigma
    return found, rest


def edges(k: int, levels) -> list[float]:
    """Numbers up to the largest that a window takes: its neighbours, ties, and some in between."""
    largest = float(np.ldexp(1.0, k - 53 + levels.bits))
    below = float(np.nextafter(largest, 0))
    unit = float(np.ldexp(1.0, k - 52))
    some = np.random.default_rng(abs(k)).uniform(-1, 1, 50) * below
    return [
        below,
        -below,
        unit / 2,
        1.5 * unit,
        -2.5 * unit,
        float(np.nextafter(unit / 2, 1e308)),
        *some.tolist(),
    ]


@pytest.mark.parametrize("name", LEVELS)
def test_a_window_takes_numbers_to_pieces_of_so_many_bits(name):
    levels = LEVELS[name]
    for k in (levels.lowest, levels.lowest + 1, 0, 700, HIGHEST):
        for x in edges(k, levels):
            assert (pattern(abs(x)) >> 52) < max(k + levels.limit, 1)
            found, rest = pieces(x, k, levels)
            units = [Fraction(2) ** (k - 52 - level * levels.bits) for level in range(levels.count)]
            assert sum(q * unit for q, unit in zip(found, units, strict=True)) + Fraction(rest) == Fraction(x)
            assert all(abs(q) <= levels.units(1) for q in found)
            assert abs(Fraction(rest)) <= units[-1] / 2
            assert rest == 0 or Fraction(x) % units[-1] != 0
            assert k > levels.lowest or rest == 0


@pytest.mark.parametrize("name", LEVELS)
def test_the_bound_of_a_piece_is_reached(name):
    """So that no user may have one term more."""
    levels = LEVELS[name]
    found, _ = pieces(float(np.nextafter(np.ldexp(1.0, levels.bits - 53), 0)), 0, levels)
    assert found[0] == levels.units(1)


def test_windows_are_above_what_they_are_made_for():
    for levels in LEVELS.values():
        for x in (1.0, 2.0**-900, 1.7e300):
            assert pattern(x * 2) >> 52 < levels.window(pattern(x)) + levels.limit


def test_the_kernels_take_their_levels_from_here():
    source = (Path(ozaki.sums.exact.__file__).parent / "extraction.cuh").read_text()
    assert "THREE_LEVELS_BITS : TWO_LEVELS_BITS" in source
    assert "WORD_BITS - LEVEL_BITS + 1" in source
