#include "ozaki/sums/exact/extraction.cuh"

/* result[o] = RN(the sum over i < n of x[o, i], or of ±x[o, i]·y[o, i], and of more such products if there
   are `more`, divided by a number below 2^32, or the square root of that).

   Element (o, i) of x lies at (o >> pair)·x_outer + (o & pair)·x_inner + i·x_step, where `pair` is 1 if
   outputs come in pairs. A block takes `width` outputs side by side, and `parts` blocks share them.
   Digit l of output o lies at totals[(l + BELOW)·stride + o]; there is room for so many below, and ABOVE above.
   totals and flags (outputs,) are zeros or an earlier sum, tickets zeros. `resume` says that there is
   an earlier sum, `keep` that more is to come. */
struct Reduction {
    const char *x, *y, *more_x, *more_y; /* the others lie as x and y do */
    i64 x_outer, x_inner, x_step, y_outer, y_inner, y_step;
    i64 n, outputs;
    int pair, width, parts, negate, more, negate_more;
    i64 *totals, stride;
    unsigned *flags, *tickets;
    void *result; /* in the dtype of the format that it is rounded to */
    i64 divisor;
    int resume, keep, root, precision, smallest;
};

/* Each array of terms, or two arrays of products. Pass -1, where there are more, only looks at the first of these: levels
   that fit them, too, need not be raised, and so emptied into memory, where those begin. */
#if PRODUCT
#define EACH_PASS(first) for (int pass = r.more ? first : 0; pass <= r.more; pass++)
#else
#define EACH_PASS(first) const int pass = 0;
#endif

#if COLUMNS

/* The sum of an extraction's levels, rounded. */
__device__ __forceinline__ double rounded(const Extraction &extraction, i64 divisor, int root,
                                          int precision, int smallest)
{
    const int unit = extraction.place(LEVELS - 1), odd = unit & 1;
    if (extraction.count <= 1 << (54 - LEVEL_BITS)) { /* then the levels' sums are float64 numbers */
        const double weight = 1ll << LEVEL_BITS;
        Enclosure sum = {extraction.value(0) * (LEVELS == 3 ? weight * weight : weight), 0, 0, false};
#if LEVELS == 3
        sum.add(extraction.value(1) * weight);
#endif
        sum.add(extraction.value(LEVELS - 1));
        double result;
        if (sum.round(unit, divisor, root, precision, &result)) return result;
    }
    u64 limb[3] = {0, 0, 0};
#pragma unroll
    for (int level = 0; level < LEVELS; level++)
        add_shifted<3>(limb, extraction.value(level), (LEVELS - 1 - level) * LEVEL_BITS + odd);
    i64 room[BELOW + 6 + 2];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        room[BELOW + 2 * i] = limb[i] & MASK32;
        room[BELOW + 2 * i + 1] = i < 2 ? (i64)(limb[i] >> 32) : (i64)limb[i] >> 32;
    }
    return round_digits({room + BELOW, 1}, 0, 6, unit - odd, divisor, root, precision, smallest);
}

/* The digits of an output, rounded; those of it that are not zero from memory that is near, if few. */
__device__ __noinline__ double rounded(i64 *digits, i64 stride, i64 divisor, int root, int precision,
                                       int smallest)
{
    const int near = 12;
    int first = DIGITS, last = 0;
#pragma unroll 16
    for (int i = 0; i < DIGITS; i++)
        if (__ldcg(digits + i * stride)) { first = min(first, i); last = i + 1; }
    if (!last) return 0;
    if (last - first > near)
        return round_digits({digits, stride}, first, last, LOWEST, divisor, root, precision, smallest);
    i64 room[BELOW + near + 2];
#pragma unroll
    for (int i = 0; i < near; i++)
        room[BELOW + i] = first + i < last ? __ldcg(digits + (first + i) * stride) : 0;
    return round_sum({room + BELOW, 1}, 0, last - first, LOWEST + 32 * first, divisor, root, precision,
                     smallest);
}

#if TILE
/* Lanes of a warp read each other's terms, so that neighbours in memory are read together: the terms
   of an output are neighbours, and 32 outputs `outer` bytes apart; p is where the lane's first lies. */
__device__ __forceinline__ void read_tile(Value (&v)[BATCH], Value (&tile)[32][BATCH + 1], const char *p,
                                          i64 outer, i64 left, int outputs, Value beyond, bool negate) {
    const int lane = threadIdx.x % 32, term = lane % BATCH, first = lane / BATCH;
    if (term >= left) outputs = 0;
#pragma unroll
    for (int j = 0; j < BATCH; j++) {
        const int output = j * (32 / BATCH) + first;
        const Value element = output < outputs ? load(p + output * outer) : beyond;
        tile[output][term] = PAIRS && negate && output < outputs ? negated(element) : element;
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < BATCH; j++) v[j] = tile[lane][j];
    __syncwarp();
}
#endif

/* A thread for an output, and as many more as there are rows of `width` threads. Where one thread has
   all the terms of its output, totals are not zeros but room for every thread of the grid. */
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) exact_columns(const Reduction r)
{
#if TILE
    __shared__ Value x_tile[THREADS / 32][32][BATCH + 1];
#if PAIRS
    __shared__ Value y_tile[THREADS / 32][32][BATCH + 1];
#endif
#endif
    const int rows = THREADS / r.width, row = threadIdx.x / r.width, column = threadIdx.x % r.width;
    const bool alone = rows == 1 && r.parts == 1 && !r.resume && !r.keep;
    const unsigned pieces = (r.outputs + r.width - 1) / r.width * r.parts;
    for (unsigned piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        const unsigned part = r.parts == 1 ? 0 : piece % r.parts;
        const i64 group = (i64)(r.parts == 1 ? piece : piece / r.parts) * r.width, output = group + column;
        const bool there = output < r.outputs && row < rows;
        const i64 place = alone ? blockIdx.x * (i64)THREADS + threadIdx.x : output;
        Register to = {r.totals + BELOW * r.stride + place, r.stride, !alone, r.n > 0 ? MINUS_ZERO : 0u};
        Extraction extraction;
        const i64 block = (i64)rows * BATCH, skip = (i64)r.parts * block;
        EACH_PASS(-1) {
            const bool more = pass != 0;
            const char *x = more ? r.more_x : r.x, *y = more ? r.more_y : r.y;
            const bool negate = more ? r.negate_more : r.negate;
#if TILE
            const i64 lead = output - threadIdx.x % 32;
            const int led = (int)min(r.outputs - lead, (i64)32), term = threadIdx.x % BATCH;
            const char *x_lead = x + (lead * r.x_outer + term * r.x_step) * SIZE;
#if PAIRS
            const char *y_lead = y + (lead * r.y_outer + term * r.y_step) * SIZE;
#endif
            for (i64 base = part * block; base < r.n; base += skip) {
                Batch terms;
                read_tile(terms.a, x_tile[threadIdx.x / 32], x_lead + base * r.x_step * SIZE, r.x_outer * SIZE,
                          r.n - base, led, -0.0, negate);
#if PAIRS
                read_tile(terms.b, y_tile[threadIdx.x / 32], y_lead + base * r.y_step * SIZE, r.y_outer * SIZE,
                          r.n - base, led, 1.0, false);
#endif
                if (pass < 0) {
                    extraction.fit(terms, to);
                    break;
                }
                extraction.add(terms, to, 1);
            }
#else
            const i64 x_step = r.x_step, y_step = r.y_step;
            const char *x_mine = x + place_of(output, r.pair, r.x_outer, r.x_inner);
            const char *y_mine = y + place_of(output, r.pair, r.y_outer, r.y_inner);
            const i64 length = there ? r.n : 0;
            i64 mine = part * block + row; /* the first of the terms that are read next */
            const auto read_next = [&](Batch &terms) {
                read(terms.a, x_mine + mine * x_step * SIZE, x_step * SIZE, rows, length - mine, -0.0, negate);
#if PAIRS
                read(terms.b, y_mine + mine * y_step * SIZE, y_step * SIZE, rows, length - mine, 1.0, false);
#endif
                mine += skip;
            };
#if AHEAD
            Batch next;
            if (mine < length) read_next(next);
#endif
            for (i64 base = part * block + row; base < length; base += skip) {
#if AHEAD
                const Batch terms = next;
                if (mine < length) read_next(next);
#else
                Batch terms;
                read_next(terms);
#endif
                if (pass < 0) {
                    extraction.fit(terms, to);
                    break;
                }
                extraction.add(terms, to, 1);
            }
#endif
        }
        if (alone) {
            double value;
            if (to.open) {
                extraction.flush(to, 1);
                value = rounded(to.digits, r.stride, r.divisor, r.root, r.precision, r.smallest);
            } else {
                value = rounded(extraction, r.divisor, r.root, r.precision, r.smallest);
            }
            if (there) store(r.result, output, with_flags(value, to.seen), r.precision);
            continue;
        }
        if (there) {
            extraction.flush(to, 1);
            atomicOr(r.flags + output, to.seen);
        }
        if (r.keep) continue;
        if (!comes_last(r.tickets + group, r.parts)) continue;
        if (there && row == 0) {
            const double value = rounded(to.digits, r.stride, r.divisor, r.root, r.precision, r.smallest);
            store(r.result, output, with_flags(value, ((volatile unsigned *)r.flags)[output]), r.precision);
        }
    }
}

#else

#if PACKED
/* As `read`, where terms are neighbours in memory and words of 8 bytes aligned: p is the block's. */
#define PACK (8 / SIZE)
__device__ __forceinline__ void read_words(Value (&v)[BATCH], const char *p, i64 left, Value beyond,
                                           bool negate) {
    if (THREADS * BATCH <= left) {
        u64 words[BATCH / PACK];
#pragma unroll
        for (int j = 0; j < BATCH / PACK; j++) words[j] = ((const u64 *)p)[j * THREADS + threadIdx.x];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const Value element = value_of(words[j / PACK] >> j % PACK * 8 * SIZE);
            v[j] = PAIRS && negate ? negated(element) : element;
        }
    } else {
        read(v, p + threadIdx.x * SIZE, SIZE, THREADS, left - threadIdx.x, beyond, negate);
    }
}
#endif

/* A block for up to WIDEST outputs. Without `resume`, `keep` and parts it touches none of totals,
   flags and tickets. */
extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS) exact_sums(const Reduction r)
{
    __shared__ i64 room[WIDEST][BELOW + DIGITS + ABOVE];
    __shared__ unsigned seen[WIDEST];
    __shared__ int first[WIDEST], last[WIDEST];
    const int width = WIDEST == 1 ? 1 : r.width;
    const int rows = THREADS / width, row = threadIdx.x / width, column = threadIdx.x % width;
    const i64 group = (i64)(blockIdx.x / r.parts) * width, output = group + column;
    const int part = blockIdx.x % r.parts;
    for (int c = 0; c < width; c++)
        for (int i = threadIdx.x; i < BELOW + DIGITS + ABOVE; i += THREADS) room[c][i] = 0;
    if (threadIdx.x < width) {
        seen[threadIdx.x] = r.n > 0 ? MINUS_ZERO : 0;
        first[threadIdx.x] = DIGITS;
        last[threadIdx.x] = 0;
    }
    __syncthreads();

    Register to = {room[column] + BELOW, 1, true, 0};
    Extraction extraction;
    const i64 length = output < r.outputs && row < rows ? r.n : 0;
    const int lanes = width & (width - 1) ? 32 : width;
    const i64 block = (i64)rows * BATCH;
    EACH_PASS(0) {
        const bool more = pass != 0;
        const char *x = (more ? r.more_x : r.x) + place_of(output, r.pair, r.x_outer, r.x_inner);
        const char *y = (more ? r.more_y : r.y) + place_of(output, r.pair, r.y_outer, r.y_inner);
        const bool negate = more ? r.negate_more : r.negate;
        for (i64 base = part * block; base < r.n; base += r.parts * block) {
            Batch terms;
#if PACKED
            read_words(terms.a, x + base * SIZE, length - base, -0.0, negate);
#if PAIRS
            read_words(terms.b, y + base * SIZE, length - base, 1.0, false);
#endif
#else
            const i64 mine = base + row;
            read(terms.a, x + mine * r.x_step * SIZE, r.x_step * SIZE, rows, length - mine, -0.0, negate);
#if PAIRS
            read(terms.b, y + mine * r.y_step * SIZE, r.y_step * SIZE, rows, length - mine, 1.0, false);
#endif
#endif
            extraction.add(terms, to, lanes);
        }
    }
    extraction.flush(to, lanes);
    if (to.seen) atomicOr(&seen[column], to.seen);
    __syncthreads();

    /* Hand over to the outputs' totals, 32 bits at a time so that no digit overflows. */
    const int here = (int)min((i64)width, r.outputs - group);
    if (r.parts > 1 || r.keep) {
        for (int i = threadIdx.x; i < here * DIGITS; i += THREADS) {
            const int c = WIDEST == 1 ? 0 : i % here, l = WIDEST == 1 ? i : i / here;
            u64 *total = (u64 *)r.totals + (BELOW + l) * r.stride + group + c;
            const i64 v = room[c][BELOW + l];
            const i64 over = l < DIGITS - 1 ? v >> 32 : 0;
            if (v) atomicAdd(total, (u64)(v - (over << 32)));
            if (over) atomicAdd(total + r.stride, (u64)over);
        }
        if (threadIdx.x < here) atomicOr(r.flags + output, seen[column]);
        if (r.keep) return;
        if (!comes_last(r.tickets + group, r.parts)) return;
    }
    const bool together = r.parts > 1;
    for (int i = threadIdx.x; i < here * DIGITS; i += THREADS) {
        const int c = WIDEST == 1 ? 0 : i % here, l = WIDEST == 1 ? i : i / here;
        i64 v = together ? 0 : room[c][BELOW + l];
        if (together || r.resume) v += ((volatile i64 *)r.totals)[(BELOW + l) * r.stride + group + c];
        room[c][BELOW + l] = v;
        if (v) { atomicMin(&first[c], l); atomicMax(&last[c], l + 1); }
    }
    __syncthreads();
    if (threadIdx.x < here) {
        unsigned all = together ? 0 : seen[column];
        if (together || r.resume) all |= ((volatile unsigned *)r.flags)[output];
        double value = 0;
        if (last[column])
            value = round_sum({room[column] + BELOW, 1}, first[column], last[column], LOWEST, r.divisor,
                              r.root, r.precision, r.smallest);
        store(r.result, output, with_flags(value, all), r.precision);
    }
}

#endif
