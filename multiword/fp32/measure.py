"""Statistics of a product's vectors, rows of A and columns of B: scales, centres, flags.

A vector's power of two and its centre are chosen from all or from some of its elements; splitting completes
the statistics. The CUDA form, in `measure.cu`, gives the same numbers as the NumPy form here. Kernels are
compiled with -ftz=true, which takes fp32's subnormal numbers as zero: arithmetic that must keep them is
written in PTX there, and comparisons are made between bit patterns.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from multiword.fp32.schemes import Scheme
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.memory import padded
from multiword.runtime.readback import Readback

VECTOR = np.dtype(
    [
        *(("total", "f8"), ("norm1", "f4"), ("norm2", "f4"), ("centre", "f4")),
        *(("shift", "i4"), ("bad", "i4"), ("unused", "i4")),
    ]
)
"""The record of a vector x, scaled and centred to y = (x - c)·2^s: Σx as k·c + Σy·2^-s, Σ|y|, the 2-norm
of y, c, s, and whether it has infinities or NaNs."""

GROUP = 32
"""Vectors that one block of the kernels takes."""

MEAN_THRESHOLD = 0.3
"""A vector can be centred if its mean is at least this much of its root mean square."""

RUNS, RUN = 32, 16
"""Scale and centre are guessed from so many runs of so many neighbours of each vector."""

COMMON = 2
"""Vectors whose largest elements are at most this many powers of two apart share one scale."""

PADDING = 16
"""Words of a vector begin at multiples of this."""

FIELDS = ("uncentred", "bits", "highest", "lowest", "bad", "small", "deficit", "top", "low", "spread")
"""Counts or maxima over all vectors of one operand: vectors whose mean does not stand out; bits of the
sampled elements as integers; 300 + E and 300 - E of the vectors' largest elements; then, of the scaled
elements y: whether any vector has infinities or NaNs; in one vector (fp16) nonzero |y| < `split.SMALL`, and
|y| < 2^(target - 7); 300 + E of the largest |y|; (tf32, bf16) 300 - E of the smallest nonzero one;
1000·(1 - (Σ|y|)²/(k·Σy²))."""

SIDE, FAILED, FLAGS = 16, 32, 34
"""The offsets of B's fields and of the product's two checks among the flags, and the number of flags.
On the device counters of the splitting kernel follow, one and then one for each group of vectors."""


SAMPLES = ("samples", "run", "step")
"""Samples of a vector, log2 of the neighbours in a run, and the distance of the runs."""


class Measuring(Struct):
    """The operands as vectors (their number, elements from one to the next and within one); how to sample."""

    _fields_ = (
        *members(ctypes.c_void_p, "a", "b"),
        *members(ctypes.c_longlong, "stride_a", "step_a", "stride_b", "step_b"),
        *members(ctypes.c_int, "vectors_a", "vectors_b", *SAMPLES),
        *members(ctypes.c_int, "target", "centred"),
        ("threshold", ctypes.c_float),
    )


MEASURE = Kernel(
    "multiword_measure",
    Path(__file__).with_name("measure.cu"),
    structs=(Measuring,),
    equals="multiword.fp32.measure._measure_on_host",
)


@dataclass(frozen=True)
class Flags:
    """Each operand's `FIELDS`, and which checks of the product failed."""

    a: dict[str, int]
    b: dict[str, int]
    failed: int

    @classmethod
    def of(cls, flags: list[int]) -> Flags:
        """Return the flags of an array of integers."""
        a, b = (dict(zip(FIELDS, side, strict=False)) for side in (flags, flags[SIDE:]))
        return cls(a, b, flags[FAILED] | flags[FAILED + 1])

    def integers(self, k: int) -> bool:
        """Return whether the elements are integers short enough for exact sums (`exact_bits`)."""
        return self.a["bits"] + self.b["bits"] <= exact_bits(k)

    def centring(self, k: int) -> bool:
        """Return whether the centres count: they do if none lies within the spread of its vector."""
        return not (self.a["uncentred"] or self.b["uncentred"] or self.integers(k))

    def common_shift(self, target: int) -> int | None:
        """Return the power of two that scales every product of two vectors; None if they differ."""
        shifts = [common_shift(side["highest"], side["lowest"], target) for side in (self.a, self.b)]
        return None if None in shifts else sum(s for s in shifts if s is not None)


class FlagsReadback:
    """The flags on their way to the host."""

    def __init__(self, flags: Array) -> None:
        self._flags = flags
        self._readback = Readback(FLAGS, np.int32) if is_cupy(flags) else None

    @property
    def address(self) -> int | None:
        """The address that kernels write them to."""
        return None if self._readback is None else int(self._readback.address)

    def send(self) -> FlagsReadback:
        """To be called when a kernel that writes has been launched."""
        if self._readback is not None:
            self._readback.send()
        return self

    def wait(self) -> Flags:
        """Wait for that kernel, and return the flags."""
        return Flags.of((self._flags if self._readback is None else self._readback.wait()).tolist())


@dataclass(frozen=True)
class Vectors:
    """The vectors of both operands, measured.

    a, bt : (m, k) and (n, k) float32, each with rows or columns contiguous.
    scheme : that of the product.
    target : the largest sampled element of each vector lies below 2^target after scaling.
    data : for A and for B, (vectors,) array of `VECTOR`; on the device its bytes, (32·vectors,).
    flags : int32, `Flags`; beyond `FLAGS`, the kernel's counters.
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
    def padded_k(self) -> int:
        """The length of a vector's words."""
        return padded(self.a.shape[1], PADDING)


def measure_operands(
    a: Array, bt: Array, scheme: Scheme, *, target: int, guess: bool, weights: Array | None = None
) -> Vectors:
    """Choose scales and centres for (m, k) and (n, k) float32 operands, if the scheme has them.

    guess : from some of the elements only.
    """
    a, bt = _rows_or_columns(a), _rows_or_columns(bt)
    xp, (m, k), n = namespace(a), a.shape, len(bt)
    groups = -(-m // GROUP) + -(-n // GROUP)
    flags = xp.zeros(FLAGS + 1 + groups, np.int32)
    sampled = guess and k >= 2 * RUNS * RUN
    samples = (RUNS * RUN, RUN.bit_length() - 1, k // RUNS) if sampled else (k, 30, 0)
    if is_cupy(a):
        data = tuple(xp.empty(VECTOR.itemsize * count, np.uint8) for count in (m, n))
        if scheme.scaled_lines and k:
            of_a = {"a": a, "stride_a": a.strides[0] // 4, "step_a": a.strides[1] // 4, "vectors_a": m}
            of_b = {"b": bt, "stride_b": bt.strides[0] // 4, "step_b": bt.strides[1] // 4, "vectors_b": n}
            options = {"target": target, "threshold": MEAN_THRESHOLD, "centred": scheme.centred}
            parameters = Measuring(**of_a, **of_b, **options, **dict(zip(SAMPLES, samples, strict=True)))
            MEASURE((groups,), (1024,), (parameters, *data, flags))
    else:
        data = np.zeros(m, VECTOR), np.zeros(n, VECTOR)
        for side, (x, of) in enumerate(zip((a, bt), data, strict=True)):
            if scheme.scaled_lines and x.size:
                _measure_on_host(x, samples, target, scheme.centred, of, flags[SIDE * side :])
    return Vectors(a, bt, scheme, target, (data[0], data[1]), flags, weights)


def _rows_or_columns(x: Array) -> Array:
    """Return `x`, (vectors, k), in a layout that one kernel reads: rows or columns contiguous."""
    if x.size == 0 or (x.itemsize in x.strides and min(x.strides) > 0):
        return x
    return namespace(x).ascontiguousarray(x)


def _measure_on_host(
    x: Array, samples: tuple[int, int, int], target: int, centred: bool, of: Array, side: Array
) -> None:
    """Choose each vector's power of two, and its centre (the kernel `MEASURE`)."""
    count, run, step = samples
    s = np.arange(count)
    sample = x[:, (s >> run) * step + (s & ((1 << run) - 1))].astype(np.float64)
    sample = np.where(np.isfinite(sample), sample, 0.0)
    largest = np.abs(sample).max(axis=1)
    top = np.frexp(largest)[1]
    of["shift"] = target - top
    digits, exponent = np.frexp(sample)
    integers = np.ldexp(digits, 24).astype(np.int64)
    lowest = np.frexp((integers & -integers).astype(np.float64))[1] - 25 + exponent
    length = top - np.where(integers == 0, 999, lowest).min(axis=1)
    side[1] = max(length.max(), 0)
    if largest.any():
        nonzero = top[largest > 0]
        side[2:4] = 300 + nonzero.max(), 300 - nonzero.min()
    if centred:
        mean = sample.mean(axis=1)
        bits = mean.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        of["centre"] = bits.view(np.float32)
        spread = np.float64(np.float32(MEAN_THRESHOLD)) * np.sqrt((sample * sample).mean(axis=1))
        side[0] = (np.abs(mean) < spread).sum()


def exact_bits(k: int) -> int:
    """Return the bits that integers of A and of B may have together for exact sums in fp32.

    The sums have k terms of random sign.
    """
    return 21 - (max(k, 1).bit_length() + 1) // 2


def common_shift(highest: int, lowest: int, target: int) -> int | None:
    """Return the shift of all vectors of an operand, from two of its `FIELDS`; None if each has its own."""
    return target - (highest - 300) if 0 < highest + lowest <= 600 + COMMON else None
