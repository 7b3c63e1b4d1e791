"""The CUDA form of splitting: one reading of the operands writes all their words and statistics.

The NumPy form, formula by formula the same, is in `multiword.fp32.operand`.
"""

from __future__ import annotations

from pathlib import Path

from multiword.runtime.kernels import Kernel

RECORD_BYTES = 32
"""sizeof(Record) below."""

CHUNK = 512
"""Inner indices that one block of the splitting kernel reads, of `LINES` lines."""


_INSTANCES = ((16, 2, 0), (16, 2, 1), (16, 3, 2), (8, 3, 1), (19, 2, 2))

SPLIT = Kernel(
    "multiword_split",
    Path(__file__).with_name("split.cu"),
    tuple({"WORD": w, "WORDS": p, "ROUNDING": r, "CHUNK": CHUNK} for w, p, r in _INSTANCES),
)
