"""Constants that only tune: they change times, never bits. Each says what measured it.

What a proof needs stands beside the proof instead.
"""

# --- runtime ---

# --- engines ---

# --- fp32 ---

# --- batched ---
