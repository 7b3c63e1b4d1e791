"""Constants that only tune: they change times, never bits. Each says what measured it.

What a proof needs stands beside the proof instead.
"""

# --- runtime ---

# --- engines ---

# --- fp32 ---

# --- batched ---

LAUNCHES_CACHED = 4096
"""Launches of batched products that are cached; beyond that all are dropped. A bound of memory alone."""
