"""Splitting into words: scaled, centred, stored with k contiguous.

An element x of a vector, a row of A or a column of B, becomes y = (x - c)·2^s, and y becomes words side by
side: (vector, [word 1 | word 2 | …]), in reverse order for B, so that all the products of one level i + j are
one product of neighbouring words. The CUDA form, in `split.cu`, gives the same bits as the NumPy form here,
and completes the statistics, in one reading.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multiword.formats import FORMATS
from multiword.fp32.measure import (
    FIELDS,
    GROUP,
    SIDE,
    VECTOR,
    Flags,
    FlagsReadback,
    Vectors,
    common_shift,
    exact_bits,
)
from multiword.fp32.schemes import Scheme
from multiword.rounding import ROUNDINGS, round_to
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel, Struct, members, pointers

SMALL = 2.0**-12
"""fp16: y below this loses more than 2^-24 of itself in two words (it loses up to 2^-36)."""

CHUNK = 512
"""Inner indices that one block of the kernel reads, of `GROUP` vectors."""

RECORD_BYTES = 32
"""sizeof(Record), a block's statistics of its part of a vector."""

_SIGNIFICAND = {"fp16": 16, "bf16": 8, "tf32": 19}


class Splitting(Struct):
    """The vectors of both operands, their records and strides, and the scheme's numbers."""

    _fields_ = (
        *members(ctypes.c_void_p, "of_a", "of_b", "records_a", "records_b", "flags", "report"),
        *members(ctypes.c_longlong, "stride_a", "stride_b"),
        *members(ctypes.c_int, "vectors_a", "vectors_b", "rows_a", "rows_b", "k", "padded_k"),
        *members(ctypes.c_int, "scaled", "exact_bits", "target"),
        ("step", ctypes.c_float),
    )


SPLIT = Kernel(
    "multiword_split",
    Path(__file__).with_name("split.cu"),
    tuple(
        {"WORD": w, "WORDS": p, "ROUNDING": r, "CHUNK": CHUNK}
        for w, p, r in ((16, 2, 0), (16, 2, 1), (16, 3, 2), (8, 3, 1), (19, 2, 2))
    ),
    (Splitting,),
    equals="multiword.fp32.split._split_on_host",
)


@dataclass(frozen=True)
class Words:
    """Vectors of one operand, split.

    x : (vectors, k) float32, before splitting.
    words : (vectors, p·padded_k) array of the word dtype; word i, or p - i + 1 for B, in columns
        [(i - 1)·padded_k, i·padded_k); zeros beyond k.
    padded_k : the length of one word's part.
    of : their part of `Vectors.data`.
    """

    x: Array
    words: Array
    padded_k: int
    of: Array


@dataclass(frozen=True)
class SplitOperands:
    """Rows of A and columns of B in words, the vectors that they belong to, and the flags' readback."""

    left: Words
    right: Words
    vectors: Vectors
    readback: FlagsReadback | None

    @property
    def report(self) -> int | None:
        """The address at which kernels write the flags for the host."""
        return None if self.readback is None else self.readback.address

    @property
    def k(self) -> int:
        """The inner dimension."""
        return int(self.left.x.shape[1])

    def flags(self) -> Flags:
        """Wait for the flags of these vectors and all before them."""
        assert self.readback is not None
        return self.readback.wait()

    def send(self) -> FlagsReadback:
        """Return the readback, once a kernel that checks the product has been launched."""
        assert self.readback is not None
        return self.readback.send()


def split_operands(
    vectors: Vectors,
    rows: slice = slice(None),
    columns: slice = slice(None),
    right: Words | None = None,
    *,
    readback: bool = False,
) -> SplitOperands:
    """Scale, centre and split these rows of A and columns of B.

    right : the columns, if they have been split already. readback : whether the host reads the flags
    of these vectors and of their product.
    """
    xs = (vectors.a[rows], vectors.bt[columns] if right is None else None)
    flags = FlagsReadback(vectors.flags) if readback else None
    size = VECTOR.itemsize if is_cupy(vectors.a) else 1
    parts = [
        data[size * (part.start or 0) : None if part.stop is None else size * part.stop]
        for data, part in zip(vectors.data, (rows, columns), strict=True)
    ]
    if is_cupy(vectors.a):
        split = _split_on_device(vectors, xs, parts, flags.address if flags is not None else None)
    else:
        split = _split_on_host(vectors, xs, parts)
    left = Words(xs[0], split[0], vectors.padded_k, parts[0])
    if right is None:
        right = Words(xs[1], split[1], vectors.padded_k, parts[1])
    return SplitOperands(left, right, vectors, flags.send() if flags is not None else None)


def _split_on_host(vectors: Vectors, xs: tuple[Array, Array | None], parts: list[Array]) -> list[Array]:
    scheme, k = vectors.scheme, vectors.a.shape[1]
    exact = scheme.scaled_lines and Flags.of(vectors.flags.tolist()).integers(k)
    result: list[Array] = []
    for side, (x, of) in enumerate(zip(xs, parts, strict=True)):
        if x is None:
            continue
        words = np.zeros((len(x), scheme.words, vectors.padded_k), FORMATS[scheme.word].dtype)
        if x.size:
            y = scaled_on_host(vectors, side, x, of)
            _complete(y, of, vectors.target, scheme.word, vectors.flags[SIDE * side :])
            weights = None if exact or side else vectors.weights
            for i, value in enumerate(split_elements(y, scheme, weights)):
                words[:, scheme.words - 1 - i if side else i, :k] = value
        result.append(words.reshape(len(x), scheme.words * vectors.padded_k))
    return result


def scaled_on_host(vectors: Vectors, side: int, x: Array, of: Array) -> Array:
    """Return y = (x - c)·2^s for vectors x of A (side 0) or B (1); complete their records with c and s."""
    scheme, flags = vectors.scheme, Flags.of(vectors.flags.tolist())
    fields = flags.b if side else flags.a
    shift = common_shift(fields["highest"], fields["lowest"], vectors.target)
    if scheme.scaled_lines and shift is not None:
        of["shift"] = shift
    if not (scheme.centred and flags.centring(x.shape[1])):
        of["centre"] = 0
    part = np.clip(of["shift"], -126, 127)  # two factors where one would leave fp32's range
    first, second = (np.ldexp(np.float32(1), s)[:, None] for s in (part, of["shift"] - part))
    with np.errstate(all="ignore"):
        return ((x - of["centre"][:, None]) * first) * second


def _complete(y: Array, of: Array, target: int, word: str, side: Array) -> None:
    """Complete the record of each vector, and the flags."""
    magnitude, k = np.abs(y), y.shape[1]
    with np.errstate(all="ignore"):
        of["norm2"] = np.sqrt((y * y).sum(axis=1, dtype=np.float32))
        of["norm1"] = magnitude.sum(axis=1, dtype=np.float32)
        of["total"] = k * of["centre"].astype(np.float64) + np.ldexp(
            y.sum(axis=1, dtype=np.float64), -of["shift"]
        )
        of["bad"] = ~np.isfinite(y).all(axis=1)
        share = (of["norm1"] / of["norm2"]) ** 2 / np.float32(k)
        share = share[(magnitude > 0).any(axis=1) & ~np.isnan(share)]
    bits = magnitude.view(np.uint32)
    exponents = (bits >> np.uint32(23)).astype(np.int32)[bits > 0] - 126
    fields = {"bad": of["bad"].max()}
    if word == "fp16":
        fields["small"] = ((magnitude < SMALL) & (magnitude > 0)).sum(axis=1).max()
        fields["deficit"] = (~(bits >= np.float32(2.0 ** (target - 7)).view(np.uint32))).sum(axis=1).max()
    elif exponents.size:
        fields["low"] = 300 - exponents.min()
    if exponents.size:
        fields["top"] = 300 + exponents.max()
    if share.size:
        fields["spread"] = 1000 - int(min(1000 * share.min(), 1000))
    for name, value in fields.items():
        index = FIELDS.index(name)
        side[index] = max(side[index], value)


def split_elements(y: Array, scheme: Scheme, weights: Array | None = None) -> list[Array]:
    """Return the words of y: A_1 = fl(y), A_i = fl(remainder·step), eq. (2.2) of Fasi et al."""
    fmt, rest, result = FORMATS[scheme.word], y, []
    with np.errstate(all="ignore"):
        for i in range(scheme.words):
            value = round_to(rest, fmt, scheme.rounding)
            result.append(value)
            rest = rest - value.astype(np.float32)
            if i == 0 and weights is not None:
                rest = rest + y * weights
            rest = rest * np.float32(scheme.step)
    return result


def _split_on_device(
    vectors: Vectors, xs: tuple[Array, Array | None], parts: list[Array], report: int | None
) -> list[Array]:
    """Split both operands in one launch of `SPLIT`."""
    scheme, xp, (_, k), width = vectors.scheme, namespace(vectors.a), vectors.a.shape, vectors.padded_k
    chunks = -(-width // CHUNK)
    counts = [0 if x is None else len(x) for x in xs]
    records = xp.empty(max(RECORD_BYTES * chunks * sum(counts), 1), np.uint8)
    words = [xp.empty((c, scheme.words * width), FORMATS[scheme.word].dtype) for c in counts]
    rows = [x is None or x.strides[1] == 4 for x in xs]
    strides = [0 if x is None else x.strides[1 - r] // 4 for x, r in zip(xs, rows, strict=True)]
    start = records.data.ptr
    constants: dict[str, Any] = {"WORD": _SIGNIFICAND[scheme.word], "WORDS": scheme.words}
    constants |= {"ROUNDING": ROUNDINGS.index(scheme.rounding), "CHUNK": CHUNK}
    operands = {"of": parts, "records": (start, start + RECORD_BYTES * chunks * counts[0])}
    operands |= {"stride": strides, "vectors": counts, "rows": rows}
    pairs = {f"{name}_{'ab'[i]}": x[i] for name, x in operands.items() for i in (0, 1)}
    sizes = {"k": k, "padded_k": width, "exact_bits": exact_bits(k), "target": vectors.target}
    options = {"step": scheme.step, "scaled": scheme.scaled_lines}
    parameters = Splitting(flags=vectors.flags, report=report, **pairs, **sizes, **options)
    blocks = sum(-(-count // GROUP) for count in counts) * chunks
    optional = pointers(xs[1], vectors.weights)
    SPLIT((blocks,), (256,), (xs[0], optional[0], *words, optional[1], parameters), **constants)
    return words
