"""Row profiles: all that scales and certificates need to know of an operand, in integers.

A profile is made of exponents, counts and sums of integers. Integer sums do not depend on
their order, so the profile, and all that is decided from it, is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from ozaki.scaling.scales import DISCARD, NORM_LIMITS, norm_limit, norm_scales
from ozaki.scaling.segments import BITS, NONFINITE, ZERO, Segments, segments_of


@dataclass(frozen=True)
class Rows:
    """What the segments of each row make together, all integers.

    Attributes
    ----------
    exponent : (r,) int32, e with 2**(e-1) <= max |x| < 2**e; `ZERO` or `NONFINITE` else.
    total : (r,) int64, an upper bound of the sum of |x|·2**(BITS - e).
    square : (r,) int64, an upper bound of the sum of x²·4**(BITS - e).
    norm_scales : by format, the (r,) int32 scales that fill its norm limit.
    """

    exponent: Array
    total: Array
    square: Array
    norm_scales: dict[str, Array]

    def __getitem__(self, rows: Any) -> Rows:
        """Some of the rows."""
        scales = {name: scale[rows] for name, scale in self.norm_scales.items()}
        return Rows(self.exponent[rows], self.total[rows], self.square[rows], scales)

    @property
    def usable(self) -> Array:
        """Which rows have a nonzero element and none that is Inf or NaN."""
        return (self.exponent != ZERO) & (self.exponent != NONFINITE)


@dataclass(frozen=True)
class Profile:
    """What is known of an operand.

    Attributes
    ----------
    segments : of its rows.
    length : elements in a row: k, or 2k for a complex operand.
    """

    segments: Segments
    length: int

    @cached_property
    def rows(self) -> Rows:
        """The segments of each row, put together when they are first asked for."""
        fold = _fold_device if is_cupy(self.segments.exponent) else _fold_host
        exponent, total, square, *scales = fold(self.segments, self.length)
        return Rows(exponent, total, square, dict(zip(NORM_LIMITS, scales, strict=True)))


def profile(parts: list[Array]) -> Profile:
    """Return the profile of an operand given as (r, k) float32 or float64 parts."""
    return Profile(segments_of(parts), len(parts) * parts[0].shape[1])


def _fold_host(segments: Segments, length: int) -> tuple[np.ndarray, ...]:
    """Exponent, total and square of the rows: those of their segments, in the row's units, rounded up.

    And the norm scales that follow from them.
    """
    exponent = segments.exponent.max(axis=0)
    shift = exponent.astype(np.int64) - segments.exponent
    total = -(-segments.total.astype(np.int64) >> np.minimum(shift, 63)).sum(axis=0)
    square = -(-segments.square >> np.minimum(2 * shift, 63)).sum(axis=0)
    finite = exponent != NONFINITE
    total, square = np.where(finite, total, 0), np.where(finite, square, 0)
    limits = (norm_limit(FORMATS[name], length) for name in NORM_LIMITS)
    return exponent, total, square, *(norm_scales(exponent, square, limit) for limit in limits)


FOLD_CONSTANTS: dict[str, Any] = {"BITS": BITS, "ZERO": ZERO, "NONFINITE": NONFINITE, "DISCARD": DISCARD}


_CONSTANTS: dict[str, Any] = {**FOLD_CONSTANTS, "WARPS": 8}

_FOLD = Kernel(
    "fold_segments",
    Path(__file__).with_name("profile.cu"),
    (_CONSTANTS,),
)


def _fold_device(segments: Segments, length: int) -> tuple[Array, ...]:
    xp = namespace(segments.exponent)
    count, rows = segments.exponent.shape
    exponent, *scales = xp.empty((1 + len(NORM_LIMITS), rows), xp.int32)
    sums = xp.empty((2, rows), xp.int64)
    limits = [norm_limit(FORMATS[name], length) for name in NORM_LIMITS]
    numbers = [count, rows, *(x for limit in limits for x in (limit.bits, limit.thirtyseconds))]
    given = (segments.exponent, segments.total, segments.square, *map(np.int32, numbers))
    _FOLD((-(-rows // 32),), (256,), (*given, exponent, *sums, *scales), **_CONSTANTS)
    return exponent, *sums, *scales
