// Windows along the rows of x, (rows, n), by the texts of `windows_numba`, printed before this. What is known of a
// window are COUNTS counts, `digits` digits of its sum, and `squares` of that of its squares, or none.
#define THREADS 128

/* known[row, w, c + 1] = word w of what is known of the numbers of a row from c·chunk on, of which there are so many;
   `known` has `chunks` + 1 columns, of zeros. */
extern "C" __global__ void __launch_bounds__(THREADS)
windows_of_chunks(const double *x, i64 rows, i64 n, i64 chunk, i64 chunks, i64 unit, i64 digits, i64 squares, i64 *known)
{
    const i64 words = COUNTS + digits + squares, step = chunks + 1;
    for (i64 i = blockIdx.x * (i64)THREADS + threadIdx.x; i < rows * chunks; i += gridDim.x * (i64)THREADS) {
        const i64 row = i / chunks, c = i % chunks;
        const Interleaved<i64> state = {known + row * words * step + c + 1, words, step};
        text::enter(Line<const double>{x + row * n, n}, c * chunk, (c + 1) * chunk, unit, cut(state, 0, COUNTS),
                    cut(state, COUNTS, COUNTS + digits), cut(state, COUNTS + digits));
    }
}

/* Write result[row, i] where certain[row, i] is false, or is so of a neighbour, and what certain[row, i] is then;
   *undecided = 1 where one is false still. A thread takes `part` elements of a row, and then
   others: it begins with the sums of chunks, of `sums` added up along its columns, or with none if `chunks` is 0.
   Words that are no more than LOCAL are a thread's own, others in `scratch`, of the room of all threads. */
extern "C" __global__ void __launch_bounds__(THREADS)
windows_of_parts(const double *x, i64 rows, i64 n, i64 part, i64 chunk, i64 chunks, i64 unit, i64 digits, i64 squares,
                 const i64 *sums, i64 window, i64 ahead, i64 min_count, i64 divided, i64 spread, i64 root, i64 ddof,
                 i64 single, i64 *scratch, double *result, bool *certain, int *undecided)
{
    const i64 words = COUNTS + digits + squares, room = digits + squares + 2, parts = (n + part - 1) / part;
    const i64 thread = blockIdx.x * (i64)THREADS + threadIdx.x, threads = gridDim.x * (i64)THREADS, step = chunks + 1;
#if LOCAL
    i64 own[LOCAL];
    const Line<i64> all = {own, words + room};
#else
    const Interleaved<i64> all = {scratch + thread, words + room, threads};
#endif
    for (i64 i = thread; i < rows * parts; i += threads) {
        const i64 row = i / parts, start = i % parts * part, stop = minimum(n, start + part);
        bool *known = certain + row * n, some = false;
        for (i64 j = start; j < stop; j++) some |= !known[j];
        if (!some) continue;
        for (i64 j = start; j < stop; j++) known[j] = true;
        i64 first = maximum(0ll, start + ahead + 1 - window), end = first;
        for (i64 w = 0; w < words; w++) at(all, w) = 0;
        if (chunks) {
            const i64 from = first / chunk, to = minimum(n, start + ahead + 1) / chunk;
            for (i64 w = 0; w < words; w++) {
                const i64 *of_word = sums + (row * words + w) * step;
                at(all, w) = of_word[to] - of_word[from];
            }
            first = from * chunk;
            end = to * chunk;
        }
        if (text::roll(Line<const double>{x + row * n, n}, start, stop, first, end, window, ahead, min_count, unit,
                       divided, spread, root, ddof, single, cut(all, 0, COUNTS), cut(all, COUNTS, COUNTS + digits),
                       cut(all, COUNTS + digits, words), cut(all, words), Line<double>{result + row * n, n},
                       Line<bool>{known, n}))
            *undecided = 1;
    }
}
