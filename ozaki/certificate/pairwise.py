"""The second stage's look at all pairs of a row and a column: |A||B| of each, from below."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines import Engine
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel
from multiword.runtime.readback import Message
from ozaki.certificate.counting import Side
from ozaki.certificate.magnitudes import LARGEST, NONZERO, Magnitudes
from ozaki.operand import Operand
from ozaki.schemes import in_panels

QUICK, THOROUGH = (0,), (0, 7, 14, 21, NONZERO)
"""The depths of a look at most numbers that count, and of one at pairs that have few of those in common."""

SLACK = 1 - 2.0**-50
"""More than the rounding of a truncation."""

PAIRS_AT_ONCE = 1 << 18
"""Pairs that the host looks at together."""

Found = tuple[float, float]
"""The largest T / |A||B| of all pairs, and the largest of that over the pair's tolerance."""


def look(
    a: Operand,
    b: Operand,
    sides: tuple[Side, Side],
    depths: tuple[int, ...],
    engine: Engine,
    workspace: int,
) -> Callable[[], Found]:
    """Look at all pairs of scaled rows and columns; what has been found, when it is asked for.

    The last depth may be NONZERO: then the terms of each pair that are not 0 are counted, and no others
    are rounded.
    """
    scheme = Magnitudes(depths, len(a.parts), engine)
    found, message = namespace(a.matrix).zeros(3), Message(2) if is_cupy(a.matrix) else None
    raise_found = _raise_host if message is None else partial(_raise_device, message)

    def use(y: Array, rows: slice, columns: slice) -> None:
        raise_found(y, (sides[0][rows], sides[1][columns]), depths, a.length, found)

    in_panels(scheme, a, b, (sides[0].window, sides[1].window), engine, workspace, use)
    if message is None:
        return lambda: (float(found[0]), float(found[1]))
    message.send()

    def told() -> Found:
        error, ratio = message.wait()
        return error, ratio

    return told


def tolerance(terms: Array) -> Array:
    """What is tolerated of a pair's T / |A||B|, in units of u: at most half of a native routine's bound."""
    return np.minimum(4 * np.sqrt(terms), terms / 2)


def _raise_host(
    y: np.ndarray, sides: tuple[Side, Side], depths: tuple[int, ...], length: int, found: np.ndarray
) -> None:
    """Raise `found` to what these pairs show.

        T = (Σ|a'| + Σ|b'|)/2 + terms/4

    with sums over the terms of the pair where those are counted.
    """
    a, b = sides
    step = max(1, PAIRS_AT_ONCE // len(b.total))
    for i in range(0, len(a.total), step):
        rows = slice(i, min(i + step, len(a.total)))
        of_a, of_b, terms = a.total[rows, None], b.total[None], np.float64(length)
        real = (of_a > 0) & (of_b > 0)
        for image in y:
            sums = image[:, rows, : len(b.total)].astype(np.float64, copy=False)
            if depths[-1] == NONZERO:
                terms, sums = sums[-1] / LARGEST**2, sums[:-1]
                of_a = np.minimum(a.total[rows, None], np.ldexp(terms, a.height[rows, None]))
                of_b = np.minimum(b.total[None], np.ldexp(terms, b.height))
            lower = np.max([s * 4.0**-d for s, d in zip(sums, depths, strict=False)], axis=0)
            lower = np.ldexp(lower * SLACK, a.lift[rows, None] + b.lift)
            truncation = (of_a + of_b) / 2 + terms / 4
            relative = np.where(real & (terms > 0), truncation / lower, 0.0)
            found[0] = max(found[0], relative.max())
            found[1] = max(found[1], (relative / tolerance(np.maximum(terms, 1.0))).max())


ROWS = 16
"""Rows of pairs to a block."""

_CONSTANTS: dict[str, Any] = {"LARGEST": LARGEST, "ROWS": ROWS}

_PAIR_ERRORS = Kernel(
    "pair_errors",
    Path(__file__).with_name("pairwise.cu"),
    tuple(
        {**_CONSTANTS, "PRODUCT": t, "COUNTED": counted, "DEPTHS": depths, "COUNT": count}
        for t, counted, depths, count in (("int", 0, "0", 1), ("double", 1, "0,7,14,21", 4))
    ),
)


def _raise_device(
    message: Message, y: Array, sides: tuple[Side, Side], depths: tuple[int, ...], length: int, found: Array
) -> None:
    counted = depths[-1] == NONZERO
    depths = depths[: len(depths) - counted]
    constants = {
        **_CONSTANTS,
        "PRODUCT": "int" if y.dtype == np.int32 else "double",
        "COUNTED": int(counted),
        "DEPTHS": ",".join(map(str, depths)),
        "COUNT": len(depths),
    }
    m, n = (len(side.total) for side in sides)
    arrays = [x for side in sides for x in (side.total, side.height, side.lift)]
    sizes = np.int64(y.shape[3]), np.int64(y.shape[2] * y.shape[3]), np.int32(m), np.int32(n)
    for image in y:
        arguments = (image, *sizes, np.int64(length), *arrays, found, message.address)
        _PAIR_ERRORS((-(-n // 256) * -(-m // ROWS),), (256,), arguments, **constants)
