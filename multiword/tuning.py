"""Constants that only tune: they change times, never bits. Each says what measured it.

What a proof needs stands beside the proof instead.
"""

# --- runtime ---

BLOCK_ELEMENTS = 1 << 17
"""Numbers of a block of rows: temporaries of a million bytes stay in the caches, and an operation on one
outlasts the switch between Python's threads. Two threads take 1.7 times one on 2**17 numbers, and 1.2 to 1.5
times on 2**16 (benchmarks/notes-dgemm.md)."""

COMPILED_ELEMENTS, MOST_COMPILED_ELEMENTS = 1 << 14, 1 << 17
"""The same for compiled code, at least and at most: it does not wait for the interpreter between operations,
and a block takes some 15 µs of its own (benchmarks/notes-dgemm.md, "Wide blocks")."""

ALONE_ELEMENTS = 1 << 19
"""Numbers that compiled code changes in less time than it takes to wake a thread and to join it, the more so
while the BLAS's threads spin (products of 512², in turn with NumPy's: a tenth less than with a quarter)."""

REUSED_BYTES = 1 << 19
"""Smaller scratch arrays are NumPy's: the C library hands memory of that size on without fresh pages, 2 µs
sooner than it is looked up here; fresh pages take ten times as long as an operation on them
(benchmarks/notes-dgemm.md)."""

LARGE_BYTES, CACHED_BYTES = 1 << 19, 1 << 30
"""Scratch memory of the former size is given back when another size is needed; the latter is the most that is
cached in all. Bounds of memory alone."""

# --- engines ---

WORTH_A_WORKER = 1 << 15
"""Results of the model from which another worker gains more than waiting for the interpreter costs."""

LONG_RUN = 4 << 30
"""Products of the model from which a run on a terminal shows its progress: about a minute on two cores."""

PRODUCTS_OF_A_STEP, SLAB_COLUMNS = 1 << 18, 512
"""Products that the tensor core's model handles at once, and the most columns of their slab: enough for
NumPy's calls to cost nothing, and in a core's cache. Slabs of 32 to 256 rows of 512 take the same time,
within 5 %."""

STRIP, WIDE, DEEP = 2048, 6144, 2048
"""Results of `WIDE` columns and more, with k >= `DEEP`, are computed in strips of so many rows: otherwise
cuBLAS reads its operands from memory too often (int8 on an H200: 8 % slower at 6144, 14 to 36 % at 16384)."""

TILE, FILLING_TILES = 128, 4
"""A product of so many tiles of that size to each multiprocessor is faster alone than in a batch: the int8
measurements on an H200 (faster in a batch at 2048, alone at 3072)."""

USUAL_MODULI = 14
"""Of ordinary products in double precision: estimates take so many products of residues."""

SHORTEST_SHARE, FEWEST_SHARES = 2048, 4
"""Numbers of a share of the inner dimension, at least, where int8 products of few tiles share it out on a GPU
(split-K), and how many shares there are at least (H200, notes-dgemm)."""

HANDLES_CACHED = 8
"""Handles of cuBLAS cached for each thread; beyond that the least recently used is freed."""

INT8_CPU_UNIT_BLOCKS = 16
"""Blocks of 16 x 64 numbers that a thread splits at a time: about 100 µs of work."""

INT8_CPU_PANELS = 256, 128, 64
"""Rows and columns of a panel of a product on int8 words, at most: both operands' residues modulo one modulus
stay in L2 up to k = 2048. 128 to 512 were tried on a Sapphire Rapids; smaller ones are for more threads."""

INT8_CPU_INNER = 512
"""Numbers of the inner dimension that AMX multiplies at a time: a tile of B, 16 KiB, then stays in L1. On a
Sapphire Rapids 1950 Gop/s instead of 1630 at k = 2048, 2260 instead of 940 at 8192; 256 to 1024 were tried.
AVX-512 VNNI and AVX-VNNI gain nothing."""

INT8_CPU_ALONE = 1.2e-3
"""Seconds by CPU_RATES (some 0.5 ms by a clock) for which one thread splits or multiplies sooner than two, of
which one has to be woken (n = 160 to 720 with AMX and AVX-512 VNNI, two cores of a Sapphire Rapids)."""

INT8_CPU_AT_ONCE = 35e-6, 48e-9, 2.5e-9, 3.1e-11
"""Seconds of a product all of whose steps are one call, of one core: for the call, for INNER numbers of an
operand's row, for a result, and for a multiplication, tiles filled up (AVX-512 VNNI, a Zen 5)."""

INT8_CPU_AT_ONCE_SINGLE = 0.65
"""What float32 products take of these seconds, but for the call: half as many moduli."""

INT8_CPU_AT_ONCE_ALONE = 1.4e-4
"""Such seconds for which one thread is faster than two: from 112 × 112 on they share such a product."""

CPU_RATES = {
    "fp64": (0.00013, 1.6e-08, 1.7e-08, 1.8e-10),
    "amx": (0.00038, 5.5e-09, 7.9e-09, 3.1e-11),
    "avx512vnni": (0.00034, 5.8e-09, 8e-09, 5.8e-11),
    "avxvnni": (0.00035, 6.3e-09, 9.4e-09, 7.2e-11),
}
CPU_RATES_SINGLE = {
    "fp64": (0.00052, 1.1e-08, 2.7e-08, 3.2e-10),
    "amx": (0.00037, 3.9e-09, 1.1e-08, 5.9e-11),
    "avx512vnni": (0.00029, 5.5e-09, 1.4e-08, 3.8e-11),
    "avxvnni": (0.00027, 5.7e-09, 1.4e-08, 6.8e-11),
}
"""Seconds of a core for each of `multiword.engines.int8_cpu.engine.terms`, of products rounded to float64 and
to float32: a Sapphire Rapids, OpenBLAS's AVX-512 kernels (python -m benchmarks.choice_cpu). Only their ratios
choose; Arm's kernels take the last."""

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
