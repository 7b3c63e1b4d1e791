"""An operand of a product: scaled, centred and split into words, stored with k contiguous.

A line is a row of A or a column of B. Its element x becomes y = (x - c)·2^s, with c and s one
for each line, and y becomes words side by side: (line, [word 1 | word 2 | …]), in reverse order
for B, so that all the products of one level are one product of neighbouring words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword import _split_kernels as kernels
from multiword._arrays import Array, is_cupy, namespace
from multiword._rounding import ROUNDINGS, round_to
from multiword.formats import FORMATS

MEAN_THRESHOLD = 0.3
"""A line is centred if its mean is at least this much of its root mean square."""

_SIGNIFICAND = {"fp16": 16, "bf16": 8, "tf32": 19}


@dataclass(frozen=True)
class Scaling:
    """What is done to the elements of each line before splitting.

    shift : (lines,) int32, the s of y = (x - c)·2^s.
    centre : (lines,) float32, the c; None for zero.
    uncentred : (2,) int32, how many lines of A and of B do not stand out from zero: the centres
        count only if both are 0 (known on the device alone, without waiting).
    target : the largest sampled element of a line lies below 2^target after scaling.
    """

    shift: Array
    centre: Array | None
    uncentred: Array | None
    target: int

    def centres(self) -> Array | None:
        """The centres in force, on the host engine's arrays."""
        active = self.centre is not None and not self.uncentred.any()  # type: ignore[union-attr]
        return self.centre if active else None


@dataclass(frozen=True)
class Words:
    """An operand split into words, and what was seen on the way.

    words : (lines, p·depth) array of the word dtype; word i in columns [i·depth, (i+1)·depth).
    depth : the inner dimension, padded with zeros.
    total, norm1, norm2 : for each line Σx, Σ|x| and Σ(y·2^-target)².
    bad : for each line the number of infinities and NaNs (split as zeros).
    summary : (5,) int32, extremes over all lines: bad; nonzero |y| too small for words of full
        accuracy; elements not near the largest; 300 + E and 300 - E of the largest and the
        smallest nonzero |y|.
    """

    words: Array
    depth: int
    scaling: Scaling
    total: Array
    norm1: Array
    norm2: Array
    bad: Array
    summary: Array


def as_lines(x: Array) -> Array:
    """Return `x`, (lines, k), in a layout that one kernel reads: rows or columns contiguous."""
    if x.size == 0 or (x.itemsize in x.strides and min(x.strides) > 0):
        return x
    return namespace(x).ascontiguousarray(x)


def _rows_contiguous(x: Array) -> bool:
    return bool(x.strides[1] == x.itemsize)


def measure(
    x: Array, target: int, *, samples: int | None = None, uncentred: Array | None = None, side: int = 0
) -> Scaling:
    """Choose each line's power of two, and its centre if asked to, from some of its elements.

    x : (lines, k) float32. samples : elements looked at in each line; None for all.
    uncentred : (2,) int32; to its entry `side` (0 for A, 1 for B) the lines that do not stand
        out are added. None: no centring.
    """
    xp, (lines, k) = namespace(x), x.shape
    step = max(1, k // samples) if samples else 1
    if x.size == 0:
        return no_scaling(x)
    shift = xp.empty(lines, np.int32)
    centre = xp.empty(lines, np.float32) if uncentred is not None else None
    counter = uncentred[side : side + 1] if uncentred is not None else np.uint64(0)
    if is_cupy(x):
        item, rows = x.itemsize, _rows_contiguous(x)
        grid = ((lines + 7) // 8,) if rows else ((lines + 31) // 32,)
        strides = (np.int64(x.strides[0] // item), np.int64(x.strides[1] // item))
        sizes = (np.int32(lines), np.int32(k), np.int32(step), np.int32(target), np.float32(MEAN_THRESHOLD))
        outputs = (shift, np.uint64(0) if centre is None else centre, counter)
        kernels.MEASURE(grid, (32, 8), (x, *strides, *sizes, *outputs), CONTIGUOUS=int(rows))
        return Scaling(shift, centre, uncentred, target)
    seen = x[:, ::step].astype(np.float64)
    seen = np.where(np.isfinite(seen), seen, 0.0)
    shift[:] = target - np.frexp(np.abs(seen).max(axis=1))[1]
    if centre is not None:
        mean = seen.mean(axis=1)
        centre[:] = (mean.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        spread = MEAN_THRESHOLD * np.sqrt((seen * seen).mean(axis=1))
        counter += np.int32((np.abs(mean) < spread).sum())
    return Scaling(shift, centre, uncentred, target)


def no_scaling(x: Array) -> Scaling:
    """Leave the elements as they are."""
    return Scaling(namespace(x).zeros(x.shape[0], np.int32), None, None, 0)


def split_lines(
    x: Array,
    scaling: Scaling,
    *,
    word: str,
    words: int,
    step: float = 1.0,
    rounding: str = "RN",
    reverse: bool = False,
    padding: int = 16,
    weights: Array | None = None,
    summary: Array | None = None,
) -> Words:
    """Split a (lines, k) float32 operand into words, in one reading.

    step : each word after the first is stored times `step`, `step`², …
    reverse : word p first, as B's words are stored.
    weights : (k,) float32; w_h·y is added to what the second word takes up.
    summary : (5,) int32 of zeros to write the summary to; a new one if None.
    """
    xp, (lines, k) = namespace(x), x.shape
    depth = -(-k // padding) * padding
    out = xp.empty((lines, words * depth), FORMATS[word].dtype)
    limits = (np.float32(2.0 ** (scaling.target - 7)), np.float32(2.0**-12))
    if not is_cupy(x):
        y, record = _measured(x, scaling, limits, summary)
        out = out.reshape(lines, words, depth)
        out[:, :, k:] = 0
        for i, value in enumerate(_split(y, word, words, step, rounding, weights)):
            out[:, words - 1 - i if reverse else i, :k] = value
        return Words(out.reshape(lines, words * depth), depth, scaling, *record)
    dtypes = (np.float64, np.float32, np.float32, np.int32)
    record = (
        *((xp.empty if out.size else xp.zeros)(lines, dtype) for dtype in dtypes),
        xp.zeros(5, np.int32) if summary is None else summary,
    )
    if out.size == 0:
        return Words(out, depth, scaling, *record)
    rows = _rows_contiguous(x)
    chunks = 1 if rows else -(-depth // kernels.CHUNK)
    partial = xp.empty((chunks, lines, kernels.RECORD_BYTES), np.uint8)
    none = np.uint64(0)
    has_centre = scaling.centre is not None
    constants: dict[str, Any] = {
        "WORD": _SIGNIFICAND[word],
        "WORDS": words,
        "ROUNDING": ROUNDINGS.index(rounding),
    }
    arguments = (
        *(x, np.int64(x.strides[0 if rows else 1] // x.itemsize), np.int32(lines), np.int32(k)),
        *(np.int32(depth), scaling.shift, scaling.centre if has_centre else none),
        *(scaling.uncentred if has_centre else none, weights if weights is not None else none),
        *(
            np.float32(step),
            np.int32(scaling.target),
            *limits,
            np.int32(reverse),
            out.view(np.uint8),
            partial,
        ),
    )
    if rows:
        kernels.SPLIT_ROWS((lines,), (256,), arguments, **constants)
    else:
        grid = (-(-lines // 32), chunks)
        kernels.SPLIT_COLUMNS(grid, (32, 8), arguments, CHUNK=kernels.CHUNK, **constants)
    kernels.COLLECT(
        (-(-lines // 256),), (256,), (partial, np.int32(chunks), np.int32(lines), np.int32(k), *record)
    )
    return Words(out, depth, scaling, *record)


def _measured(
    x: Array, scaling: Scaling, limits: tuple[np.float32, np.float32], summary: Array | None
) -> tuple[Array, tuple]:
    """The NumPy form of the kernel's `measured`, and of the records collected."""
    finite = np.isfinite(x)
    x = np.where(finite, x, np.float32(0))
    shift, centre = scaling.shift, scaling.centres()
    half = shift >> 1
    first, second = (np.ldexp(np.float32(1), s)[:, None] for s in (half, shift - half))
    with np.errstate(over="ignore", under="ignore"):
        y = ((x - (centre[:, None] if centre is not None else np.float32(0))) * first) * second
        norm2 = ((y * np.float32(2.0**-scaling.target)) ** 2).sum(axis=1, dtype=np.float32)
        norm1 = np.abs(x).sum(axis=1, dtype=np.float32)
    magnitude = np.abs(y)
    big, small = limits
    bad = (~finite).sum(axis=1).astype(np.int32)
    summary = np.zeros(5, np.int32) if summary is None else summary
    if x.size:
        summary[0] = bad.max()
        summary[1] = ((magnitude < small) & (magnitude > 0)).sum(axis=1).max()
        summary[2] = (x.shape[1] - (magnitude >= big).sum(axis=1)).max()
        exponents = (magnitude.view(np.uint32) >> np.uint32(23)).astype(np.int32)[magnitude > 0] - 126
        if exponents.size:
            summary[3:] = 300 + exponents.max(), 300 - exponents.min()
    return y, (x.sum(axis=1, dtype=np.float64), norm1, norm2, bad, summary)


def _split(y: Array, word: str, words: int, step: float, rounding: str, weights: Array | None) -> list[Array]:
    """The words of y: A_1 = fl(y), A_i = fl((what is left)·step), eq. (2.2) of Fasi et al."""
    fmt, rest, result = FORMATS[word], y, []
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(words):
            value = round_to(rest, fmt, rounding)
            result.append(value)
            rest = rest - value.astype(np.float32)
            if i == 0 and weights is not None:
                rest = rest + y * weights
            rest = rest * np.float32(step)
    return result
