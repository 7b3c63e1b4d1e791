"""Constants that only tune: they change times, never bits. Each says what measured it.

What a proof needs stands beside the proof instead.
"""

# --- product and execution ---

ELEMENT_WISE = {"cublas": (0.8, 2e-5)}
"""What element-wise steps make of the memory's bandwidth, and the seconds that any call takes (H200,
notes-dgemm): for predicted times."""

SHARE, SHARE_OF_ONE = 8, 16
"""Captured products may have one part in this many of a device's memory, and a single one one in this many:
larger ones keep a GPU busy for longer than their launches take."""

KINDS_CACHED = 256
"""Kinds of call whose graphs, or whose lack of one, are cached; not measured, it bounds memory."""

CALLS_WITHOUT_MEMORY = 16
"""Calls without a graph that had no memory, before it is tried again; then twice as many. Not measured:
a capture in vain takes milliseconds, a call without a graph tens of microseconds more."""

LIMB_PRODUCTS = 1 << 20, 150
"""Products of limbs up to which one kernel takes a GPU less time than residues: of a product that is no
stack, and of an element (H100, notes-dgemm)."""

FEW_OF_SHORT, SHORT_ROWS = 16, 128
"""Columns, or rows, of real numbers up to which a GPU multiplies in limbs, and the inner dimension up to
which it always does (H200, notes-dgemm)."""

FEW_PRODUCTS, MOST_PRODUCTS = 16, {2: 48, 3: 72}
"""Products of limbs for each number of the matrix up to which that takes less time where the inner dimension
is longer: than limbs of a byte on tensor cores; and, of two and three limbs, than residues (H200,
notes-dgemm)."""

NARROW = 32
"""Columns, or rows, of a product in whose tiles of int8 words most is padding: in limbs, where rows are short
enough for these (H200, notes-dgemm)."""

COLUMNS_IN_BYTES, LEAST_IN_BYTES = {4: 128, 5: 128, 6: 128, 7: 128, 8: 64}, 1 << 20
"""Columns, or rows, of real numbers up to which a Hopper GPU multiplies in so many limbs of a byte, and the
numbers of the other factor from which it does (H200, notes-dgemm)."""

STEPS_OF_A_BLOCK = 8
"""Steps of k that a block of these takes for what is no step; not measured."""

THIN_BLOCKS, THIN_SHARE = 4, 512
"""Blocks of such a product to each multiprocessor, and the numbers of k to one at least, where k is shared
out (H200, notes-dgemm)."""

SMALL_FACTORS = 1 << 17
"""Numbers of both factors up to which a GPU takes their scales and bounds by one launch: of two 256 × 256."""

MOST_BY_NORMS = 1 << 22
"""Numbers of both factors up to which a GPU measures and splits them by one launch: larger ones fill it with
one kernel after the other (H200, notes-dgemm)."""

LAYOUTS_KNOWN = 1 << 12
"""Layouts of calls whose captured product is known at once; not measured, it bounds memory."""

LARGEST_IN_A_STACK, LARGEST_IN_A_STACK_ON_DEVICE = 1 << 24, 1 << 27
"""Multiplications in a product of a stack: larger ones keep a CPU, or a GPU, busy one by one."""

SMALLEST_GROUP, FEWEST_HARD = 4, 32
"""Products of a stack that a GPU computes together, kernel by kernel; and those of a replayed stack that ask
for wider integers: one by one, fewer take less time (H100, notes-dgemm)."""

BITS_OF_A_GROUP = 24
"""Products of given scales go together if their widths agree to so many bits, an fp64 modulus."""

LARGEST_IN_FLOATS, LONGEST_IN_FLOATS, FEW_RESULTS = 1 << 18, 128, 64
"""Real multiplications, and numbers of a row, up to which sums in two floats are faster on a CPU than
residues; of so few results rows may be longer, since residues of each would take a kernel's whole tile."""

FLOATS = 8e-6, 0.25e-9, 8e-9
"""Seconds of a product in two floats, of one core: for the call, a real multiplication and a result. Bytes
take less from about 50 × 50 on (AVX-512 VNNI)."""

LEAST_ROW_BY_ROW = 1 << 8
"""Numbers of the larger factor from which products row by row are thought of at all."""

FEWEST_ROWS, FEWEST_RESULTS, LONGEST_SHORT_ROW = 256, 1 << 14, 16
"""Rows, or else results, from which, and numbers of a row up to which, a CPU computes products row by row: in
a third of the time for 4096 rows of 8 numbers, in a tenth for 10⁶ of 3, in a fourth for 2000 × 4 × 2000, in a
half for 2000 × 16 × 2000 (AVX-512, two cores)."""

FEWEST_NUMBERS = 1 << 10
"""Products of two numbers each from which NumPy multiplies them: 64 × 1 × 64 in 17 µs instead of 26, 1024 × 1
× 1024 in a fifth of the time; at 16 × 1 × 16 its calls would take 1 µs more."""

MOST_THIN_COLUMNS, LEAST_THIN = {False: 8, True: 4}, 1 << 9
"""Columns of real numbers, of float64 and of float32, up to which a CPU does so for long rows, too, and the
numbers of the matrix for each of them from which it does, of complex ones a fourth: with one in a fourth to a
half of the time at orders 100 to 2000, with eight in nine tenths to a half (AVX-512, two cores)."""

LARGEST_TO_DECIDE = 1 << 15
"""Multiplications of such a product up to which small products' compiled call decides what counts do not."""

LARGEST_IN_ONE_CALL = 1 << 22
"""Numbers of a matrix up to which all steps in one call are faster than one after the other: a tenth at 512 ×
512, a twentieth at 1024 × 1024, nothing at 2048 × 2048 (AVX-512 VNNI, two cores)."""

FEWEST_SIDE_BY_SIDE, LARGEST_SIDE_BY_SIDE = 8, 1 << 11
"""Products of a stack from which a CPU computes them side by side, and the most numbers of both factors of
one: 4 × 4 in a sixth of the time that one after the other takes, 32 × 32 in two thirds (AVX-512)."""

FEW_NUMBERS = 1 << 10
"""Numbers of a matrix up to which copying its columns takes longer than it saves: 2 of 18 µs at 16 × 16."""

OVERHEAD_ELEMENTS = 64
"""What a small product takes besides its elements, in elements."""

MIRRORED_NUMBERS = 1 << 14
"""Numbers of a symmetric product that are copied across the diagonal together: they stay in the cache."""

COPIED_NUMBERS = 7 << 13
"""Numbers of a Gram matrix's factor that are copied by columns together: scratch for more of them would
take the words' place (`multiword.tuning.LARGE_BYTES`). 2048 × 2048: 78 to 68 ms, 4096 × 4096: 450 to 370."""

COPY_SHARE = 16
"""A Gram matrix's factor is copied if it takes at most one part in this many of the workspace; words take as
many bytes as eight copies or so."""

SYMMETRIC_PANELS, SYMMETRIC_COLUMNS = 8, 256
"""Panels of a symmetric product, which take 9/16 of the products of all, and columns of one, at least: of
fewer the products are no faster."""

# --- certificate and scaling ---

SHORT_NUMBERS = 64
"""Numbers of a row up to which a GPU's threads take rows side by side, wherever these lie: a warp for each
would be idle (H200, notes-dgemm)."""

FILLED_NUMBERS = 1 << 22
"""Numbers of an operand from which on the tiles of a GPU are as long as its rows take: 200,704 rows of 576 in
242 µs, not 358 (H200, notes-reductions)."""

MANY_CHUNKS = 16
"""Chunks of 32 rows to a multiprocessor from which a warp bounds a chunk by itself (H200, notes-dgemm)."""

SHORT_RUN_NUMBERS = 1 << 22
"""Numbers of a matrix up to which threads that read 64 rows each would not fill a GPU."""

SAMPLED_ROWS = 16
"""Rows of each factor that are asked first whether the inner dimension may be graded: nearly always they
prove that it is not, in a tenth of the time that all take (n = 512)."""

PAIRS_AT_ONCE = 1 << 18
"""Pairs of a row and a column that the host compares together: their float64 temporaries take 2 MiB each."""

COUNTS_AT_ONCE = 64
"""Products of a stack whose counts the host compares together: 64·44² pairs of octaves stay in the cache."""

# --- residues ---

RESIDUES_AT_ONCE = 1 << 10
"""Numbers, or a row, that compiled code splits or reconstructs for all moduli while they are in the first
cache (notes-dgemm)."""

# --- sums ---

COPIED_TERMS, FEW_TERMS = 1 << 14, 1 << 11
"""Terms of up to NARROWEST_COLUMNS sums, and of more, that are copied side by side and enclosed by a bare
loop: what else is called takes longer."""

LONG_ROW = {False: 512, True: 64}
"""Numbers, or products, of a row that outlast the adding up of its lanes."""

NARROWEST_COLUMNS = 8
"""Columns side by side that make a loop; of fewer the rows are taken."""

REPEATED_SHARE = 8
"""One of so many sums may be added up again by itself; beyond that all are."""

VECTOR_BLOCK = 1 << 18
"""Terms of a vector that are copied at a time, where they cannot be read as they lie."""

BLOCK_TERMS = 1 << 18
"""Terms of a block that compiled loops go through more than once."""

PLAIN_TERMS = 1 << 15
"""Terms that NumPy adds number by number at a time: its temporaries stay in the caches."""

TILE_COLUMNS = 1 << 12
"""Columns of a block, where these are neighbours in memory."""

SHORT_LOOP = 32
"""Rows or columns that make too short a loop."""

SIGNS_AT_FIRST, SIGNS_AT_MOST = 1 << 8, 1 << 17
"""Terms whose signs are looked at together, to tell a sum of −0 alone: growing from the first to the most."""

OUTPUTS_ON_HOST = 1 << 12
"""Outputs whose exact sums are on the host at one time."""

INTEGER_RATIOS = 4
"""Results that Python's integers round sooner than arrays."""

SHORT_POWERS = 32
"""Numbers whose products of three and more are enclosed one by one sooner than added up exactly."""

VARIANCE_TERMS = 1 << 12
"""Numbers whose variance is enclosed one by one, in two passes, sooner than from exact sums."""

WEIGHTED_TERMS = 1 << 13
"""Numbers whose weighted mean or variance is enclosed sooner than from exact sums, of several outputs side by
side: variances of 1,000 × 1,000 numbers take 5.4 ms instead of 21 (AVX-512, two cores)."""

AVERAGED_TERMS, SHORT_WEIGHTED = 1 << 17, 64
"""Numbers in all whose weighted means are enclosed so, unless each has as few as the second: more are read
where they lie, in the same time on an idle machine and in half of it on a busy one. 100 × 600 take 0.11 ms
instead of 0.72."""

GROUPS_PER_NUMBER = 4
"""With more groups than that, those that have no number are left out: 10,000 numbers of all sizes in 10⁶
groups took 0.9 GB."""

ENCLOSED_GROUPS = 1 << 26
"""Numbers that are enclosed by group sooner than added exactly (10⁶ in 10⁵ groups on a Xeon: variances take
10 ms instead of 36). Of groups of 10⁷ numbers more and more variances would be undecided."""

ENCLOSED_LANES, TERMS_OF_A_LANE = 1 << 10, 16
"""Lanes of all groups together, and numbers for each at least: with one lane, sorted numbers wait for the one
before (2**16 in 100 groups on a Xeon: sums take 178 µs instead of 252)."""

LARGE_TABLE = 1 << 14
"""Numbers of a table of enclosures whose rows are kept from lying in two lines of the cache each."""

GROUP_REST = 1 << 12
"""Terms outside of a window of groups that are added number by number; another window is for more."""

GROUP_SAMPLE = 1 << 11
"""Terms of which the largest tells which window is for all that come with them."""

GROUP_LANES = 1 << 13
"""Lanes of all groups together: with fewer a number waits for one before it that went to the same words (10
to 1,000 groups on a Xeon: 2.8 ns a number instead of 5)."""

GROUP_LANES_ON_DEVICE = 1 << 16
"""And of a GPU's: threads of a warp add to different ones of the same group."""

GROUP_TERMS_OF_A_THREAD = 1 << 17
"""Terms that are worth a thread of their own."""

GROUP_TERMS_OF_A_WORD = 16
"""And terms for each group: the words of every thread are cleared and brought together."""

GROUPS_AHEAD = 32
"""Numbers between one that is added and one whose words are fetched (10⁶ groups on a Xeon: 10 ns a number
instead of 26)."""

# --- dask ---

SHORT_FORM_OUTPUTS = 256
"""Outputs from which on a chunk's sums have their short form: loops over less are too short. With it, a sum
of a field along an axis takes half to a quarter of the time (benchmarks.dask_arrays)."""

PARTIAL_SUMS = 3
"""Partial sums of an output in that form, of 16 bytes each."""

EXTRACTED_TERMS = 1 << 21
"""Terms that are extracted together (benchmarks.dask_arrays)."""

# --- cupy ---

PENDING_TIMES = 256
"""Pairs of events that one kind of call may leave unread; not measured, it bounds memory."""
# --- linear algebra ---

LINALG_SUMMED_COLUMNS = 12
"""Columns up to which A·X is summed exactly column by column, which at n = 100 to 1000 costs less than a
product of matrices (CPU, AVX-512: 4.5 ms a column of 1000, 270 ms the exact product of 1000²)."""

# --- elementary functions ---

DECIDED_BY_INTEGERS = 32
"""Arguments of a function that integers decide, in some 0.1 ms each, before its longer text is loaded or
compiled, which takes from 0.03 to 0.5 s."""

VERY_FEW_ARGUMENTS = 1024
"""Numbers that are evaluated a second time where one is undecided, as one in some thousand is: to note every
time which ones are takes half a microsecond, for memory."""

# --- functions of rows ---

ROW_BLOCK = 1 << 17
"""Numbers of rows that go through all steps of softmax and its like together. Those of (16384, 768) take a
third to two thirds of the time of 2**15, which do not pay for what Python does for a block (two cores)."""

COLUMNS_OF_A_BLOCK = 64
"""Rows of a block from which those that lie in memory as columns stay so: softmax and its like of (300, 3000)
along the first axis take 0.7 to 0.85 of the time, harmonic means 0.65 (AVX-512, one core)."""

DERIVATIVE_BLOCK = 1 << 15
"""Arguments that go through a derivative's formula together: 2.8 to 1.8 ms for 98,304 of gelu (one core)."""

LONGEST_ALONE = 4096
"""Numbers of one row that the compiled softmax of float64 takes: the steps of a longer one are shared out."""

SHORT_ROW = 32
"""Rows of fewer numbers are transposed first: NumPy reduces the first axis of many columns faster."""

MOST_ENCLOSED = 1 << 17
"""Numbers of a float32 row up to which a CPU encloses the results: in a seventh of the time at 8192 numbers,
in less than half at 65,536. Of longer rows, many are in doubt."""

# --- sparse matrices ---

SPARSE_COLUMNS = 32
"""Real columns to which entries are added together: their sums, of 24 bytes each, are all that grows."""

SPARSE_COLUMNS_BY_ROWS = 4
"""Real columns that are multiplied one by one, row by row; more are faster together."""

SPARSE_VECTORS = 1 << 16
"""Numbers of vectors that one loop of Krylov methods takes, some 30 µs; more are for several threads."""

SPARSE_ENTRIES_OF_A_THREAD = 1 << 16
"""Entries that take about as long (some 0.07 ms) as it does to wake a thread."""
