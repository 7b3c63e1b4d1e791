"""The scales of rows that lose nothing, as in `ozaki.scaling.exact`, or of a given width, compiled."""

from __future__ import annotations

import numba

from ozaki.scaling.scales import NONFINITE_ROW
from ozaki.scaling.scales_numba import INFINITE, MAGNITUDE, OPTIONS

SIGNIFICAND = (1 << 52) - 1
"""The bits of a float64's significand."""


@numba.njit("void(int64[:, :, ::1], int64, int64[:, :, ::1])", **OPTIONS)
def given_scales(patterns, width, of_rows):
    """Fill in the scales of (s, r, k) bits of float64 rows, and the exponents of their largest integers.

    of_rows[s, 0] become the scales of matrix s, for integers of `width` bits or, if that is 0, the
    smallest that lose nothing. of_rows[s, 1] become the exponents. A row of zeros has 0 for both.
    """
    for s in range(patterns.shape[0]):
        for i in range(patterns.shape[1]):
            largest = places = 0
            lowest = 1 << 14  # the exponent of the last place
            for h in range(patterns.shape[2]):
                magnitude = patterns[s, i, h] & MAGNITUDE
                if magnitude > largest:
                    largest = magnitude
                if width == 0 and magnitude > 0:
                    field, significand = magnitude >> 52, magnitude & SIGNIFICAND
                    if field > 0:
                        significand, field = significand | 1 << 52, field - 1
                    if field - 1074 < lowest:  # else its last place is not the lowest one
                        places = 0
                        while not significand >> places & 1:
                            places += 1
                        if field - 1074 + places < lowest:
                            lowest = field - 1074 + places
            exponent = (largest >> 52) - 1022
            if largest >> 52 == 0:
                exponent = -1074
                while largest >> (exponent + 1074):
                    exponent += 1
            scale = width - exponent if width > 0 else -lowest
            of_rows[s, 0, i] = of_rows[s, 1, i] = 0
            if largest >> 52 == INFINITE:
                of_rows[s, 0, i] = NONFINITE_ROW
            elif largest > 0:
                of_rows[s, 0, i], of_rows[s, 1, i] = scale, exponent + scale
