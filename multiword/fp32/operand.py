"""The operands of a product: scaled, centred and split into words, stored with k contiguous.

A line is a row of A or a column of B. Its element x becomes y = (x - c)·2^s, with c and s one
for each line, and y becomes words side by side: (line, [word 1 | word 2 | …]), in reverse order
for B, so that all the products of one level are one product of neighbouring words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multiword.formats import FORMATS
from multiword.fp32 import split_kernels as kernels
from multiword.fp32.schemes import Scheme
from multiword.fp32.vectors import (
    FIELDS,
    FLAGS,
    LINE,
    LINES,
    MEAN_THRESHOLD,
    MEASURE,
    SIDE,
    Report,
    Seen,
    common_shift,
    exact_bits,
    measure,
    samples_of,
)
from multiword.rounding import ROUNDINGS, round_to
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.memory import padded

SMALL = 2.0**-12
"""fp16: y below this loses more than 2^-24 of itself in two words (it loses up to 2^-36)."""

PADDING = 16
"""Words of a line begin at multiples of this."""

_SIGNIFICAND = {"fp16": 16, "bf16": 8, "tf32": 19}
_NONE = np.uint64(0)


@dataclass(frozen=True)
class Lines:
    """The lines of both operands, measured: where they are, their scales and centres.

    a, bt : (m, k) and (n, k) float32, each with rows or columns contiguous.
    scheme : what they are to be split for.
    target : the largest element looked at in each line lies below 2^target after scaling.
    data : for A and for B, (lines,) array of `LINE`; on the device its bytes, (32·lines,).
    flags : int32, what was seen of them (`Seen`); beyond `FLAGS`, counters of the kernel's.
    weights : (k,) float32; w_h·y is added to what the second word of A takes up. None: nothing.
    """

    a: Array
    bt: Array
    scheme: Scheme
    target: int
    data: tuple[Array, Array]
    flags: Array
    weights: Array | None

    @property
    def depth(self) -> int:
        """k, padded."""
        return padded(self.a.shape[1], PADDING)


@dataclass(frozen=True)
class Operand:
    """Lines of an operand split into words.

    x : the (lines, k) float32 lines themselves.
    words : (lines, p·depth) array of the word dtype; word i, or p - i + 1 for B, in columns
        [(i - 1)·depth, i·depth).
    depth : k, padded with zeros.
    lines : their part of `Lines.data`.
    """

    x: Array
    words: Array
    depth: int
    lines: Array


@dataclass(frozen=True)
class Pair:
    """Lines of both operands in words: A, and B with its columns as lines; and what was seen so far."""

    left: Operand
    right: Operand
    of: Lines
    report: Report | None

    @property
    def address(self) -> np.uint64:
        """Where kernels report."""
        return _NONE if self.report is None else self.report.address

    def sent(self) -> Report:
        """The report, once a kernel that adds to it has been launched."""
        assert self.report is not None
        return self.report.sent()

    def seen(self) -> Seen:
        """Wait for what was seen of these lines and all before them, and return it."""
        assert self.report is not None
        return self.report.read()


def as_lines(x: Array) -> Array:
    """Return `x`, (lines, k), in a layout that one kernel reads: rows or columns contiguous."""
    if x.size == 0 or (x.itemsize in x.strides and min(x.strides) > 0):
        return x
    return namespace(x).ascontiguousarray(x)


def measure_operands(
    a: Array, bt: Array, scheme: Scheme, *, target: int, guess: bool, weights: Array | None = None
) -> Lines:
    """Choose scales and centres for (m, k) and (n, k) float32 operands, if the scheme has them.

    guess : from some of the elements only.
    """
    a, bt = as_lines(a), as_lines(bt)
    xp, (m, k), n = namespace(a), a.shape, bt.shape[0]
    groups = -(-m // LINES) + -(-n // LINES)
    flags = xp.zeros(FLAGS + 1 + groups, np.int32)
    samples = samples_of(k, guess)
    data: tuple[Array, Array]
    if is_cupy(a):
        data = xp.empty(LINE.itemsize * m, np.uint8), xp.empty(LINE.itemsize * n, np.uint8)
        if scheme.scaled_lines and k:
            MEASURE(
                (groups,),
                (1024,),
                (
                    *(a, np.int64(a.strides[0] // 4), np.int64(a.strides[1] // 4), np.int32(m)),
                    *(bt, np.int64(bt.strides[0] // 4), np.int64(bt.strides[1] // 4), np.int32(n)),
                    *(np.int32(samples[0]), np.int32(samples[1]), np.int32(samples[2]), np.int32(target)),
                    *(np.float32(MEAN_THRESHOLD), np.int32(scheme.centred), *data, flags),
                ),
            )
    else:
        data = np.zeros(m, LINE), np.zeros(n, LINE)
        for side, (x, lines) in enumerate(zip((a, bt), data, strict=True)):
            if scheme.scaled_lines and x.size:
                measure(x, samples, target, scheme.centred, lines, flags[SIDE * side :])
    return Lines(a, bt, scheme, target, data, flags, weights)


def split_operands(
    of: Lines,
    rows: slice = slice(None),
    columns: slice = slice(None),
    right: Operand | None = None,
    *,
    reporting: bool = False,
) -> Pair:
    """Scale, centre and split these rows of A and columns of B.

    right : the columns, if they have been split already. reporting : whether the host is to know
    what is seen of them, and of their product.
    """
    xs = (of.a[rows], of.bt[columns] if right is None else None)
    report = Report(of.flags) if reporting else None
    if is_cupy(of.a):
        step = LINE.itemsize
        parts = [
            lines[step * (part.start or 0) : None if part.stop is None else step * part.stop]
            for lines, part in zip(of.data, (rows, columns), strict=True)
        ]
        split = _split_on_device(of, xs, parts, _NONE if report is None else report.address)
    else:
        parts = [of.data[0][rows], of.data[1][columns]]
        split = _split_on_host(of, xs, parts)
    left, other = (
        None if x is None or w is None else Operand(x, w, of.depth, lines)
        for x, w, lines in zip(xs, split, parts, strict=True)
    )
    assert left is not None
    chosen = right or other
    assert chosen is not None
    return Pair(left, chosen, of, report.sent() if report is not None else None)


def _split_on_host(of: Lines, xs: tuple[Array, Array | None], parts: list[Array]) -> list[Array | None]:
    scheme, k = of.scheme, of.a.shape[1]
    seen = Seen.of([int(x) for x in of.flags])
    exact = scheme.scaled_lines and seen.integers(k)
    centred = scheme.centred and seen.centring(k)
    result: list[Array | None] = []
    for side, (x, lines) in enumerate(zip(xs, parts, strict=True)):
        if x is None:
            result.append(None)
            continue
        words = np.zeros((x.shape[0], scheme.words, of.depth), FORMATS[scheme.word].dtype)
        if x.size:
            known = seen.b if side else seen.a
            shift = common_shift(known["highest"], known["lowest"], of.target)
            if scheme.scaled_lines and shift is not None:
                lines["shift"] = shift
            y = _measured(x, lines, centred, of.target, scheme.word, of.flags[SIDE * side :])
            weights = None if exact or side else of.weights
            for i, value in enumerate(split_elements(y, scheme, weights)):
                words[:, scheme.words - 1 - i if side else i, :k] = value
        result.append(words.reshape(x.shape[0], scheme.words * of.depth))
    return result


def _measured(x: Array, lines: Array, centred: bool, target: int, word: str, side: Array) -> Array:
    """y = (x - c)·2^s, and the line's record (the kernels' `split` and `COLLECT`)."""
    if not centred:
        lines["centre"] = 0
    part = np.clip(lines["shift"], -126, 127)  # two factors where one would leave fp32's range
    first, second = (np.ldexp(np.float32(1), s)[:, None] for s in (part, lines["shift"] - part))
    with np.errstate(all="ignore"):
        y = ((x - lines["centre"][:, None]) * first) * second
        magnitude = np.abs(y)
        lines["norm2"] = np.sqrt((y * y).sum(axis=1, dtype=np.float32))
        lines["norm1"] = magnitude.sum(axis=1, dtype=np.float32)
        sums = np.ldexp(y.sum(axis=1, dtype=np.float64), -lines["shift"])
        lines["total"] = x.shape[1] * lines["centre"].astype(np.float64) + sums
        lines["bad"] = ~np.isfinite(y).all(axis=1)
        share = (lines["norm1"] / lines["norm2"]) ** 2 / np.float32(x.shape[1])
        share = share[(magnitude > 0).any(axis=1) & ~np.isnan(share)]
    bits = magnitude.view(np.uint32)
    exponents = (bits >> np.uint32(23)).astype(np.int32)[bits > 0] - 126
    seen = {"bad": lines["bad"].max()}
    if word == "fp16":
        seen["small"] = ((magnitude < SMALL) & (magnitude > 0)).sum(axis=1).max()
        seen["deficit"] = (~(bits >= np.float32(2.0 ** (target - 7)).view(np.uint32))).sum(axis=1).max()
    elif exponents.size:
        seen["low"] = 300 - exponents.min()
    if exponents.size:
        seen["top"] = 300 + exponents.max()
    if share.size:
        seen["spread"] = 1000 - int(min(1000 * share.min(), 1000))
    for name, value in seen.items():
        place = FIELDS.index(name)
        side[place] = max(side[place], value)
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
    of: Lines, xs: tuple[Array, Array | None], parts: list[Array], report: np.uint64
) -> list[Array | None]:
    """In one launch."""
    scheme, xp, (_, k) = of.scheme, namespace(of.a), of.a.shape
    chunks = -(-of.depth // kernels.CHUNK)
    counts = [0 if x is None else x.shape[0] for x in xs]
    records = xp.empty(max(kernels.RECORD_BYTES * chunks * sum(counts), 1), np.uint8)
    place = records.data.ptr
    words: list[Array | None] = []
    arguments: list[Any] = []
    for x, lines in zip(xs, parts, strict=True):
        if x is None:
            words.append(None)
            arguments += [_NONE, np.int64(0), np.int32(0), np.int32(1), _NONE, _NONE, _NONE]
            continue
        rows = x.strides[1] == 4
        target = xp.empty((x.shape[0], scheme.words * of.depth), FORMATS[scheme.word].dtype)
        words.append(target)
        arguments += [x, np.int64(x.strides[0 if rows else 1] // 4), np.int32(x.shape[0]), np.int32(rows)]
        arguments += [lines, np.uint64(target.data.ptr), np.uint64(place)]
        place += kernels.RECORD_BYTES * chunks * x.shape[0]
    kernels.SPLIT(
        (sum(-(-count // LINES) for count in counts) * chunks,),
        (256,),
        (
            *(*arguments, np.int32(k), np.int32(of.depth), of.flags, report),
            *(np.int32(scheme.scaled_lines), np.int32(exact_bits(k)), np.int32(of.target)),
            *(_NONE if of.weights is None else of.weights, np.float32(scheme.step)),
        ),
        WORD=_SIGNIFICAND[scheme.word],
        WORDS=scheme.words,
        ROUNDING=ROUNDINGS.index(scheme.rounding),
        CHUNK=kernels.CHUNK,
    )
    return words
