"""Constants that only tune: they change times, never bits. Each says what measured it.

What a proof needs stands beside the proof instead.
"""

# --- product and execution ---

# --- certificate and scaling ---

# --- residues ---

# --- sums ---

# --- dask ---
