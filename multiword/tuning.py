"""Constants that only tune: they change times, never bits. Each says what measured it.

What a proof needs stands beside the proof instead.
"""

# --- runtime ---

# --- engines ---

# --- fp32 ---

FP32_FLOPS, WORD_FLOPS_LONG, WORD_FLOPS_SHORT = 50e12, 700e12, 350e12
BYTES_A_SECOND, LAUNCH_SECONDS = 3e12, 180e-6
"""Rates of an H200 for fp32 and for words in long and short blocks, its memory, the launches of a product of
words: from which size on words pay (benchmarks/notes-multiword.md, "What limits it now")."""

RESULTS_OF_A_WAVE = 1 << 22
"""Results that occupy all multiprocessors of an H200 with tiles of 128 by 256: with fewer, k is split."""

# --- batched ---

LAUNCHES_CACHED = 4096
"""Launches of batched products that are cached; beyond that all are dropped. A bound of memory alone."""
