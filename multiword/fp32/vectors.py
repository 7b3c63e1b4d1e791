"""The lines of a product, rows of A and columns of B: a power of two and a centre for each.

CuPy compiles with -ftz=true, which would take fp32's subnormal numbers away. Arithmetic that
must keep them is therefore written in PTX (`FP32`), where no .ftz stands, and comparisons are
made between bit patterns.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, is_cupy
from multiword.runtime.kernels import Kernel

LINE = np.dtype(
    [
        *(("total", "f8"), ("norm1", "f4"), ("norm2", "f4"), ("centre", "f4")),
        *(("shift", "i4"), ("bad", "i4"), ("unused", "i4")),
    ]
)
"""What is known of a line: Σx as k·c + Σy·2^-s, Σ|y|, the 2-norm of y, c, s, whether it has
infinities or NaNs."""

LINES = 32
"""Lines that one block of the kernels takes."""

MEAN_THRESHOLD = 0.3
"""A line can be centred if its mean is at least this much of its root mean square."""

RUNS, RUN = 32, 16
"""Where scale and centre are guessed: from so many runs of so many neighbours of each line."""

COMMON = 2
"""Lines whose largest elements are at most this many powers of two apart share one scale."""

FIELDS = ("uncentred", "bits", "highest", "lowest", "bad", "small", "deficit", "top", "low", "spread")
"""What is counted or maximised over all lines of one operand: lines whose mean does not stand
out; bits of the elements as integers, as far as they were looked at; 300 + E and 300 - E of the
lines' largest elements; then, of the scaled elements y: whether any line has infinities or NaNs;
in one line (fp16) nonzero |y| < `SMALL`, and |y| < 2^(target - 7); 300 + E of the largest |y|;
(tf32, bf16) 300 - E of the smallest nonzero one; 1000·(1 - (Σ|y|)²/(k·Σy²))."""

SIDE, FAILED, FLAGS = 16, 32, 34
"""Where B's fields begin among the flags, the two places of `inspect`'s and `finish`'s verdict, their
number. On the device counters of the splitting kernel follow, one and then one for each group of lines."""


MEASURE = Kernel(
    "multiword_measure",
    Path(__file__).with_name("measure.cu"),
)


def samples_of(k: int, guess: bool) -> tuple[int, int, int]:
    """Samples of a line, log2 of the neighbours in a run, and the distance of the runs."""
    if guess and k >= 2 * RUNS * RUN:
        return RUNS * RUN, RUN.bit_length() - 1, k // RUNS
    return k, 30, 0


def measure(
    x: Array, samples: tuple[int, int, int], target: int, centred: bool, lines: Array, side: Array
) -> None:
    """Choose each line's power of two, and its centre (the kernel `MEASURE`)."""
    count, run, step = samples
    s = np.arange(count)
    seen = x[:, (s >> run) * step + (s & ((1 << run) - 1))].astype(np.float64)
    seen = np.where(np.isfinite(seen), seen, 0.0)
    largest = np.abs(seen).max(axis=1)
    top = np.frexp(largest)[1]
    lines["shift"] = target - top
    digits, exponent = np.frexp(seen)
    whole = np.ldexp(digits, 24).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 25 + exponent
    length = top - np.where(whole == 0, 999, lowest).min(axis=1)
    side[1] = max(length.max(), 0)
    if largest.any():
        nonzero = top[largest > 0]
        side[2:4] = 300 + nonzero.max(), 300 - nonzero.min()
    if centred:
        mean = seen.mean(axis=1)
        bits = mean.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        lines["centre"] = bits.view(np.float32)
        spread = np.float64(np.float32(MEAN_THRESHOLD)) * np.sqrt((seen * seen).mean(axis=1))
        side[0] = (np.abs(mean) < spread).sum()


def exact_bits(k: int) -> int:
    """Bits that integers of A and of B may have together for their sums to be exact in fp32.

    Sums of k terms of random sign, that is.
    """
    return 21 - (max(k, 1).bit_length() + 1) // 2


@dataclass(frozen=True)
class Seen:
    """The flags, read: each operand's `FIELDS`, and the verdict on the product."""

    a: dict[str, int]
    b: dict[str, int]
    failed: int

    @classmethod
    def of(cls, flags: list[int]) -> Seen:
        """From the array of flags, as integers."""
        a, b = (dict(zip(FIELDS, side, strict=False)) for side in (flags, flags[SIDE:]))
        return cls(a, b, flags[FAILED] | flags[FAILED + 1])

    def integers(self, k: int) -> bool:
        """Whether the elements are integers short enough for exact sums (`exact_bits`)."""
        return self.a["bits"] + self.b["bits"] <= exact_bits(k)

    def centring(self, k: int) -> bool:
        """Whether the centres count: they do if none lies within the spread of its line."""
        return not (self.a["uncentred"] or self.b["uncentred"] or self.integers(k))

    def common_shift(self, target: int) -> int | None:
        """The power of two by which every product of lines is scaled; None if there is no one such."""
        shifts = [common_shift(side["highest"], side["lowest"], target) for side in (self.a, self.b)]
        return None if None in shifts else sum(s for s in shifts if s is not None)


class Report:
    """The flags on their way to the host, into whose memory kernels write them."""

    def __init__(self, flags: Array) -> None:
        self._host, self.address = flags, np.uint64(0)
        self._event: Any = None
        if is_cupy(flags):
            memory = import_cupy().cuda.alloc_pinned_memory(4 * FLAGS)
            self._host = np.frombuffer(memory, np.int32, FLAGS)
            self._host[:] = 0
            self.address = np.uint64(memory.ptr)

    def sent(self) -> Report:
        """To be called when the kernel has been launched."""
        if self.address:
            self._event = import_cupy().cuda.Event(disable_timing=True)
            self._event.record()
        return self

    def read(self) -> Seen:
        """Wait for the kernel, and return what it saw."""
        if self._event is not None:
            self._event.synchronize()
        return Seen.of(self._host.tolist())

    def __del__(self) -> None:
        # The memory may become another report's: not before the kernel has written to it.
        if self._event is not None:
            self._event.synchronize()


def common_shift(highest: int, lowest: int, target: int) -> int | None:
    """The shift of all lines of an operand, from two of its `FIELDS`; None if each has its own."""
    return target - (highest - 300) if 0 < highest + lowest <= 600 + COMMON else None
