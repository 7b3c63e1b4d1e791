#include "ozaki/sums/exact/extraction.cuh"
#include "ozaki/sums/exact/central.cuh"

/* result[o] = RN of the variance of x[o, i], i < n, or of its root; of complex numbers if PARTS is 2. Or, if GROUPED,
   of the numbers x[index[i]], starts[o] <= i < starts[o + 1]; and if MEAN, of real numbers, their mean. Or, if ORDER
   is 3 or 4, of real numbers what `central` makes of scale, less and over; open[o], of zeros, becomes 1 where that is
   undecided.

   Element (o, i) lies where reduction.cu says. A block takes THREADS / LANES outputs, LANES threads each, neighbouring
   ones along terms if ALONG, and `parts` blocks share outputs. If they are more than one, a first launch (`measure`)
   leaves what is known of each output's numbers in `known`, (4, outputs) zeros. partial has room for the sums of all
   parts, tickets are zeros. NaN is left out if SKIP_NAN. *undecided becomes 1 where numbers of an output are too far
   apart, or of a mean not finite, or a result of a higher order is undecided. */
struct Variances {
    const char *x;
    const i64 *index, *starts;
    i64 x_outer, x_inner, x_step, n, outputs, ddof, scale, less, over;
    int *known;
    void *partial;
    unsigned *tickets;
    int *undecided;
    unsigned char *open;
    void *result;
    int pair, parts, measure, root, precision, smallest;
};

#define OUTPUTS (THREADS / LANES)

__device__ __forceinline__ bool left_out(const double *x) {
    bool missing = false;
    for (int part = 0; part < PARTS; part++) missing = missing || x[part] != x[part];
    return SKIP_NAN && missing;
}

/* Where the i-th number of an output lies, of which the first lies at p, or has its index at `start`. */
__device__ __forceinline__ const char *number_at(const Variances &r, const char *p, i64 start, i64 i) {
    return GROUPED ? r.x + SIZE * (r.index[start + i] * r.x_step) : p + SIZE * (i * r.x_step);
}

extern "C" __global__ void __launch_bounds__(THREADS) variances(const Variances r)
{
    __shared__ Known all_known[THREADS];
    __shared__ Sums all_sums[THREADS];
    __shared__ bool last_block;
    const int lane = ALONG ? threadIdx.x % LANES : threadIdx.x / OUTPUTS;
    const int place = ALONG ? threadIdx.x / LANES : threadIdx.x % OUTPUTS, stride = ALONG ? 1 : OUTPUTS;
    const i64 group = blockIdx.x / r.parts, output = group * OUTPUTS + place;
    const int part = blockIdx.x % r.parts;
    const bool there = output < r.outputs;
    const i64 start = GROUPED && there ? r.starts[output] : 0;
    const i64 n = GROUPED ? (there ? r.starts[output + 1] - start : 0) : r.n;
    const i64 share = (n + r.parts - 1) / r.parts, end = there ? min(n, (part + 1) * share) : 0;
    const char *p = r.x + place_of(there ? output : 0, r.pair, r.x_outer, r.x_inner);

    Known known = {};
    if (r.parts == 1 || r.measure) {
        for (i64 i = part * share + lane; i < end; i += LANES) {
            double x[PARTS];
            for (int c = 0; c < PARTS; c++) x[c] = widened(load(number_at(r, p, start, i) + SIZE * c));
            if (left_out(x)) continue;
            known.count++;
            for (int c = 0; c < PARTS; c++) known.note(x[c]);
        }
        known = together(all_known, known, lane, stride);
    } else if (there) {
        known = {r.known[output], r.known[r.outputs + output], r.known[2 * r.outputs + output],
                 r.known[3 * r.outputs + output]};
    }
    if (r.measure) {
        if (there && lane == 0) {
            atomicMax(r.known + output, known.below);
            atomicMax(r.known + r.outputs + output, known.above);
            atomicOr(r.known + 2 * r.outputs + output, known.bad);
            atomicAdd(r.known + 3 * r.outputs + output, known.count);
        }
        return;
    }

    const int lowest = known.lowest();
    const bool far = known.far();
    Sums sums;
    sums.clear();
    if (!far && !known.bad && known.below) {
        for (i64 i = part * share + lane; i < end; i += LANES) {
            double x[PARTS];
            for (int c = 0; c < PARTS; c++) x[c] = widened(load(number_at(r, p, start, i) + SIZE * c));
            if (left_out(x)) continue;
            for (int c = 0; c < PARTS; c++)
                if (x[c] != 0) sums.add_number(c, x[c], lowest);
        }
    }
    sums = together(all_sums, sums, lane, stride);
    if (r.parts > 1) {
        Sums *partial = (Sums *)r.partial;
        if (there && lane == 0) partial[output * r.parts + part] = sums;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last_block = atomicAdd(r.tickets + group, 1u) == r.parts - 1;
        __syncthreads();
        if (!last_block) return;
        __threadfence();
        sums.clear();
        for (int i = lane; there && i < r.parts; i += LANES) {
            const volatile u64 *words = (const volatile u64 *)(partial + output * r.parts + i);
            Sums other;
            for (int w = 0; w < sizeof(Sums) / sizeof(u64); w++) ((u64 *)&other)[w] = words[w];
            sums.add(other);
        }
        sums = together(all_sums, sums, lane, stride);
    }
    if (!there || lane) return;
    double value = __longlong_as_double(0x7ff8000000000000ll);
#if MEAN
    if (far || known.bad) *r.undecided = 1;
    if (known.count) value = mean(sums.sum[0], known.count, known.below ? lowest : 1, r.precision, r.smallest);
    store(r.result, output, known.count && !known.ordinary ? -0.0 : value, r.precision);
    return;
#endif
#if ORDER > 2
    if (!known.bad && known.count) {
        if (far || !central(sums, known.count, known.below ? lowest : 1, r.scale, r.less, r.over, r.precision,
                            r.smallest, &value)) {
            *r.undecided = 1;
            r.open[output] = 1;
        }
    }
    store(r.result, output, value, r.precision);
    return;
#endif
    if (!known.bad && known.count) {
        if (far) *r.undecided = 1;
        value = variance(sums, known.count, r.ddof, known.below ? lowest : 1, r.root, SKIP_NAN,
                         r.precision, r.smallest);
    }
    store(r.result, output, value, r.precision);
}
