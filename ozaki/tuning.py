"""Constants that only tune: they change times, never bits. Each says what measured it.

What a proof needs stands beside the proof instead.
"""

# --- product and execution ---

SCALED_IN_TURN = 1 << 22
"""Numbers in both operands whose scales are taken one after the other: branches of a graph begin some 10 µs
apart (H200, notes-dgemm)."""

ELEMENT_WISE = {"cublas": (0.8, 5e-5)}
"""What element-wise steps make of the memory's bandwidth, and the seconds that any call takes (H200,
notes-dgemm): for predicted times."""

# --- certificate and scaling ---

# --- residues ---

RESIDUES_AT_ONCE = 1 << 10
"""Numbers, or a row, that compiled code splits or reconstructs for all moduli while they are in the first
cache (notes-dgemm)."""

# --- sums ---

# --- dask ---

# --- cupy ---

PENDING_TIMES = 256
"""Pairs of events that one kind of call may leave unread; not measured, it bounds memory."""
# --- linear algebra ---

LINALG_SUMMED_COLUMNS = 12
"""Columns up to which A·X is summed exactly column by column, which at n = 100 to 1000 costs less than a
product of matrices (CPU, AVX-512: 4.6 ms a column of 1000, 270 ms the exact product of 1000²)."""
