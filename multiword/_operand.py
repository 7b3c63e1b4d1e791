"""The operands of a product: scaled, centred and split into words, stored with k contiguous.

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
from multiword._schemes import Scheme
from multiword.formats import FORMATS

LINE = np.dtype(
    [
        *(("total", "f8"), ("norm1", "f4"), ("norm2", "f4"), ("centre", "f4")),
        *(("shift", "i4"), ("bad", "i4"), ("unused", "i4")),
    ]
)
"""What is known of a line: Σx, Σ|y|, the 2-norm of y, c, s, the number of infinities and NaNs."""

MEAN_THRESHOLD = 0.3
"""A line can be centred if its mean is at least this much of its root mean square."""

RUNS, RUN = 64, 8
"""Where scale and centre are guessed: from so many runs of so many neighbours of each line."""

SMALL = 2.0**-12
"""fp16: y below this loses more than 2^-24 of itself in two words (it loses up to 2^-36)."""

PADDING = 16
"""Words of a line begin at multiples of this."""

_SIGNIFICAND = {"fp16": 16, "bf16": 8, "tf32": 19}


@dataclass(frozen=True)
class Operand:
    """An operand split into words, and what was seen on the way.

    x : the (lines, k) float32 operand itself, rows or columns contiguous.
    words : (lines, p·depth) array of the word dtype; word i, or p - i + 1 for B, in columns
        [(i - 1)·depth, i·depth).
    depth : k, padded with zeros.
    lines : (lines,) array of `LINE`; on the device its bytes, (lines, 32).
    """

    x: Array
    words: Array
    depth: int
    lines: Array


@dataclass(frozen=True)
class Pair:
    """Both operands in words.

    left, right : A, and B with its columns as lines.
    target : the largest element looked at in each line lies below 2^target after scaling.
    flags : (18,) int32. 0, 1: lines of A, of B whose mean does not stand out (centres count only
        if there is none on either side). 2 … 7 and 8 … 13, for A and for B, the largest over all
        lines of: infinities and NaNs; nonzero |y| < `SMALL`; |y| < 2^(target - 7);
        300 + E of the largest |y|; 300 - E of the smallest nonzero one;
        1000·(1 - (Σ|y|)²/(k·Σy²)). 14: for `finish`.
        16, 17: bits of the elements of A, of B as integers, as far as they were looked at.
    centred : whether centres may count.
    """

    left: Operand
    right: Operand
    target: int
    flags: Array
    centred: bool


def as_lines(x: Array) -> Array:
    """Return `x`, (lines, k), in a layout that one kernel reads: rows or columns contiguous."""
    if x.size == 0 or (x.itemsize in x.strides and min(x.strides) > 0):
        return x
    return namespace(x).ascontiguousarray(x)


def split_operands(
    a: Array, bt: Array, scheme: Scheme, *, target: int, guess: bool, weights: Array | None = None
) -> Pair:
    """Scale, centre and split (m, k) and (n, k) float32 operands as the scheme says.

    guess : take scales and centres from some of the elements only. weights : (k,) float32;
    w_h·y is added to what the second word of A takes up.
    """
    a, bt = as_lines(a), as_lines(bt)
    flags = namespace(a).zeros(18, np.int32)
    if is_cupy(a) and a.shape[1] and a.size and bt.size:
        return _split_on_device(a, bt, scheme, target, guess, weights, flags)
    samples = _samples(a.shape[1], guess)
    operands = []
    for side, x in enumerate((a, bt)):
        xp = namespace(x)
        lines = np.zeros(x.shape[0], LINE)
        if scheme.scaled_lines and x.size:
            _measure(x, samples, target, scheme.centred, lines, flags[side::16])
        operands.append((x, lines, xp))
    exact = scheme.scaled_lines and flags[16:].sum() <= exact_bits(a.shape[1])
    centred = scheme.centred and not exact and not flags[:2].any()
    weights = None if exact else weights
    pair = []
    for side, (x, lines, xp) in enumerate(operands):
        depth = _depth(x.shape[1])
        words = xp.zeros((x.shape[0], scheme.words, depth), FORMATS[scheme.word].dtype)
        if x.size:
            y = _measured(x, lines, centred, target, flags[2 + 6 * side : 8 + 6 * side])
            for i, value in enumerate(split_elements(y, scheme, weights if side == 0 else None)):
                words[:, scheme.words - 1 - i if side else i, : x.shape[1]] = value
        pair.append(Operand(x, words.reshape(x.shape[0], scheme.words * depth), depth, lines))
    return Pair(pair[0], pair[1], target, flags, scheme.centred)


def exact_bits(k: int) -> int:
    """Bits that integers of A and of B may have together for their sums to be exact in fp32.

    Sums of k terms of random sign, that is. Such data is neither centred nor compensated, so
    that its exact products stay exact.
    """
    return 21 - (max(k, 1).bit_length() + 1) // 2


def _depth(k: int) -> int:
    return -(-k // PADDING) * PADDING


def _samples(k: int, guess: bool) -> tuple[int, int, int]:
    """Samples of a line, neighbours in a run, and the distance of the runs."""
    if guess and k >= 2 * RUNS * RUN:
        return RUNS * RUN, RUN, k // RUNS
    return k, max(k, 1), max(k, 1)


def _measure(
    x: Array, samples: tuple[int, int, int], target: int, centred: bool, lines: Array, flags: Array
) -> None:
    """Choose each line's power of two, and its centre (the kernel `MEASURE`)."""
    count, run, step = samples
    s = np.arange(count)
    seen = x[:, s // run * step + s % run].astype(np.float64)
    seen = np.where(np.isfinite(seen), seen, 0.0)
    top = np.frexp(np.abs(seen).max(axis=1))[1]
    lines["shift"] = target - top
    digits, exponent = np.frexp(seen)
    whole = np.ldexp(digits, 24).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 25 + exponent
    length = top - np.where(whole == 0, 999, lowest).min(axis=1)
    flags[1] = max(length.max(), 0)
    if centred:
        mean = seen.mean(axis=1)
        bits = mean.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        lines["centre"] = bits.view(np.float32)
        spread = np.float64(np.float32(MEAN_THRESHOLD)) * np.sqrt((seen * seen).mean(axis=1))
        flags[0] = (np.abs(mean) < spread).sum()


def _measured(x: Array, lines: Array, centred: bool, target: int, summary: Array) -> Array:
    """y = (x - c)·2^s, and the line's record (the kernels' `measured` and `COLLECT`)."""
    finite = np.isfinite(x)
    x = np.where(finite, x, np.float32(0))
    if not centred:
        lines["centre"] = 0
    half = lines["shift"] >> 1
    first, second = (np.ldexp(np.float32(1), s)[:, None] for s in (half, lines["shift"] - half))
    with np.errstate(over="ignore", under="ignore"):
        y = ((x - lines["centre"][:, None]) * first) * second
        lines["norm2"] = np.sqrt((y * y).sum(axis=1, dtype=np.float32))
        lines["norm1"] = np.abs(y).sum(axis=1, dtype=np.float32)
    lines["total"] = x.sum(axis=1, dtype=np.float64)
    lines["bad"] = (~finite).sum(axis=1)
    magnitude = np.abs(y)
    summary[0] = lines["bad"].max()
    summary[1] = ((magnitude < SMALL) & (magnitude > 0)).sum(axis=1).max()
    summary[2] = (magnitude < 2.0 ** (target - 7)).sum(axis=1).max()
    exponents = (magnitude.view(np.uint32) >> np.uint32(23)).astype(np.int32)[magnitude > 0] - 126
    if exponents.size:
        summary[3:5] = 300 + exponents.max(), 300 - exponents.min()
        some = lines[lines["norm2"] > 0]
        with np.errstate(over="ignore", invalid="ignore"):
            share = (some["norm1"] / some["norm2"]) ** 2 / np.float32(x.shape[1])
        if share.size:
            summary[5] = 1000 - int(min(1000 * share.min(), 1000))
    return y


def split_elements(y: Array, scheme: Scheme, weights: Array | None = None) -> list[Array]:
    """The words of y: A_1 = fl(y), A_i = fl((what is left)·step), eq. (2.2) of Fasi et al."""
    fmt, rest, result = FORMATS[scheme.word], y, []
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for i in range(scheme.words):
            value = round_to(rest, fmt, scheme.rounding)
            result.append(value)
            rest = rest - value.astype(np.float32)
            if i == 0 and weights is not None:
                rest = rest + y * weights
            rest = rest * np.float32(scheme.step)
    return result


def _split_on_device(
    a: Array, bt: Array, scheme: Scheme, target: int, guess: bool, weights: Array | None, flags: Array
) -> Pair:
    """`split_operands` in four launches: measure, split A, split B, collect."""
    xp, (m, k), n = namespace(a), a.shape, bt.shape[0]
    chunks = [_chunks(x) for x in (a, bt)]
    held = kernels.RECORD_BYTES * (chunks[0] * m + chunks[1] * n)
    scratch = xp.empty(LINE.itemsize * (m + n) + held, np.uint8)
    lines = scratch[: LINE.itemsize * m], scratch[LINE.itemsize * m : LINE.itemsize * (m + n)]
    base = scratch.data.ptr + LINE.itemsize * (m + n)
    records = np.uint64(base), np.uint64(base + kernels.RECORD_BYTES * chunks[0] * m)
    sizes = np.int32(m), np.int32(n), np.int32(k)
    if scheme.scaled_lines:
        count, run, step = _samples(k, guess)
        blocks = sum(-(-x.shape[0] // (8 if x.strides[1] == 4 else 32)) for x in (a, bt))
        kernels.MEASURE(
            (blocks,),
            (32, 8),
            (
                *(a, np.int64(a.strides[0] // 4), np.int64(a.strides[1] // 4), sizes[0]),
                *(bt, np.int64(bt.strides[0] // 4), np.int64(bt.strides[1] // 4), sizes[1]),
                *(np.int32(count), np.int32(run), np.int32(step), np.int32(target)),
                *(np.float32(MEAN_THRESHOLD), np.int32(scheme.centred), *lines, flags),
            ),
        )
    data = lines if scheme.scaled_lines else (np.uint64(0),) * 2
    words = [
        launch_split(a, scheme, target, data[0], flags, weights, 0, records[0]),
        launch_split(bt, scheme, target, data[1], flags, None, 1, records[1]),
    ]
    kernels.COLLECT(
        (-(-m // 256) + -(-n // 256),),
        (256,),
        (
            *(records[0], np.int32(chunks[0]), sizes[0], records[1], np.int32(chunks[1]), sizes[1], sizes[2]),
            *(np.int32(scheme.scaled_lines), *lines, np.uint64(flags.data.ptr + 8)),
        ),
    )
    left, right = (Operand(x, w, _depth(k), one) for x, w, one in zip((a, bt), words, lines, strict=True))
    return Pair(left, right, target, flags, scheme.centred)


def _chunks(x: Array) -> int:
    """Parts of k that the splitting kernel takes apart from each other."""
    chunk = kernels.CHUNK_ROWS if x.strides[1] == 4 else kernels.CHUNK_COLUMNS
    return int(-(-_depth(x.shape[1]) // chunk))


def launch_split(
    x: Array,
    scheme: Scheme,
    target: int,
    lines: Any,
    flags: Any,
    weights: Array | None,
    reverse: int,
    records: Any,
) -> Array:
    """Split one operand on the device; return its words, (lines, p·depth)."""
    count, k = x.shape
    depth, rows = _depth(k), x.strides[1] == 4
    words = namespace(x).empty((count, scheme.words * depth), FORMATS[scheme.word].dtype)
    arguments = (
        *(x, np.int64(x.strides[0 if rows else 1] // 4), np.int32(count), np.int32(k), np.int32(depth)),
        *(
            lines,
            flags,
            np.int32(exact_bits(k)),
            np.uint64(0) if weights is None else weights,
            np.float32(scheme.step),
        ),
        *(np.float32(2.0 ** (target - 7)), np.float32(SMALL), np.int32(reverse)),
        *(np.uint64(words.data.ptr), records),
    )
    constants: dict[str, Any] = {
        "WORD": _SIGNIFICAND[scheme.word],
        "WORDS": scheme.words,
        "ROUNDING": ROUNDINGS.index(scheme.rounding),
    }
    if rows:
        kernels.SPLIT_ROWS(
            (-(-count // 8), _chunks(x)), (32, 8), arguments, CHUNK=kernels.CHUNK_ROWS, **constants
        )
    else:
        kernels.SPLIT_COLUMNS(
            (-(-count // 32), _chunks(x)), (32, 8), arguments, CHUNK=kernels.CHUNK_COLUMNS, **constants
        )
    return words
