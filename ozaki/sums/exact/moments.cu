#include "ozaki/sums/exact/extraction.cuh"
#include "ozaki/sums/exact/central.cuh"
#include "ozaki/sums/exact/weighted.cuh"

/* result[o] = RN of the variance of x[o, i], i < n, or of its root; of complex numbers if PARTS is 2. Or, if GROUPED,
   of the numbers x[index[i]], starts[o] <= i < starts[o + 1]; and if MEAN, of real numbers, their mean. Or, if ORDER
   is 3 or 4, of real numbers what `central` makes of scale, less and over. If WEIGHTED, each x counts as its w says:
   of frequencies, or of reliabilities if `reliable`; if TOTAL the result is Σw·x, if COVARIANCE, with w for another
   variable, the covariance of both. open[o], of zeros, becomes 1 where a result is undecided, and *undecided with it:
   where numbers of an output are too far apart, or of a mean without weights not finite.

   Element (o, i) lies where reduction.cu says. A block takes THREADS / LANES outputs, LANES threads each, neighbouring
   ones along terms if ALONG, and `parts` blocks share outputs. If they are more than one, a first launch (`measure`)
   leaves what is known of each output's numbers in `known`, (KNOWN, outputs) zeros. partial has room for the sums of
   all parts, tickets are zeros. NaN is left out if SKIP_NAN. `seen` are flags of every output: of integers, none of
   whose products are -0. */
struct Variances {
    const char *x, *w;
    const i64 *index, *starts;
    i64 x_outer, x_inner, x_step, w_outer, w_inner, w_step, n, outputs, ddof, scale, less, over;
    int *known;
    void *partial;
    unsigned *tickets;
    int *undecided;
    unsigned char *open;
    void *result;
    int pair, parts, measure, reliable, seen, root, precision, smallest;
};

#define OUTPUTS (THREADS / LANES)

__device__ __forceinline__ bool left_out(const Term &term) {
    bool missing = false;
    for (int part = 0; part < PARTS; part++) missing = missing || term.x[part] != term.x[part];
    return SKIP_NAN && missing;
}

/* An output's terms, of which the first lies at x and w, or has its index at `start`. */
struct Terms {
    const char *x, *w;
    i64 start;

    __device__ __forceinline__ Terms(const Variances &r, i64 output, i64 start)
        : x(r.x + place_of(output, r.pair, r.x_outer, r.x_inner)),
          w(WEIGHTED ? r.w + place_of(output, r.pair, r.w_outer, r.w_inner) : nullptr), start(start) {}

    __device__ __forceinline__ Term read(const Variances &r, i64 i) const {
        const i64 place = GROUPED ? r.index[start + i] : i;
        const char *p = GROUPED ? r.x : x;
        Term term;
        for (int c = 0; c < PARTS; c++) term.x[c] = widened(load(p + SIZE * (place * r.x_step + c)));
#if WEIGHTED
        term.w = widened(load((GROUPED ? r.w : w) + SIZE * (place * r.w_step)));
#endif
        return term;
    }
};

/* The result of an output's sums; false if that is undecided. */
__device__ bool finished(Sums &sums, const Known &known, const Variances &r, double *value) {
#if WEIGHTED && TOTAL
    *value = total(sums, known, r.precision, r.smallest);
    return true;
#elif WEIGHTED && MEAN
    return weighted_mean(sums, known, r.precision, r.smallest, value);
#elif WEIGHTED && COVARIANCE
    if (known.all_finite() && known.count) *value = covariance(sums, known, r.ddof, r.precision, r.smallest);
    return true;
#elif WEIGHTED
    return weighted_variance(sums, known, r.ddof, r.reliable, r.root, r.precision, r.smallest, value);
#elif MEAN
    if (!known.all_finite()) return false;
    if (known.count) *value = mean(sums.sum[0], known.count, known.x.lowest(), r.precision, r.smallest);
    if (known.count && !(known.flags & ORDINARY)) *value = -0.0;
    return true;
#else
    if (!known.all_finite() || !known.count) return true;
#if ORDER > 2
    return central(sums, known.count, known.x.lowest(), r.scale, r.less, r.over, r.precision, r.smallest, value);
#else
    *value = variance(sums, known.count, r.ddof, known.x.lowest(), r.root, SKIP_NAN, r.precision, r.smallest);
    return true;
#endif
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) variances(const Variances r)
{
    __shared__ Known all_known[THREADS];
    __shared__ Sums all_sums[THREADS];
    const int lane = ALONG ? threadIdx.x % LANES : threadIdx.x / OUTPUTS;
    const int place = ALONG ? threadIdx.x / LANES : threadIdx.x % OUTPUTS, stride = ALONG ? 1 : OUTPUTS;
    const i64 group = blockIdx.x / r.parts, output = group * OUTPUTS + place;
    const int part = blockIdx.x % r.parts;
    const bool there = output < r.outputs;
    const i64 start = GROUPED && there ? r.starts[output] : 0;
    const i64 n = GROUPED ? (there ? r.starts[output + 1] - start : 0) : r.n;
    const i64 share = (n + r.parts - 1) / r.parts, end = there ? min(n, (part + 1) * share) : 0;
    const Terms terms(r, there ? output : 0, start);

    Known known = {};
    known.flags = r.seen;
    if (r.parts == 1 || r.measure) {
        for (i64 i = part * share + lane; i < end; i += LANES) {
            const Term term = terms.read(r, i);
            if (left_out(term)) continue;
            known.count++;
            known.note(term);
        }
        known = together(all_known, known, lane, stride);
    } else if (there) {
        known = Known::of(r.known + output, r.outputs);
    }
    if (r.measure) {
        if (there && lane == 0) known.add_to(r.known + output, r.outputs);
        return;
    }

    Sums sums;
    sums.clear();
    if (!known.far() && (WEIGHTED || known.all_finite()))
        for (i64 i = part * share + lane; i < end; i += LANES) {
            const Term term = terms.read(r, i);
            if (!left_out(term)) sums.add_term(term, known);
        }
    sums = together(all_sums, sums, lane, stride);
    if (r.parts > 1) {
        Sums *partial = (Sums *)r.partial;
        if (there && lane == 0) partial[output * r.parts + part] = sums;
        if (!comes_last(r.tickets + group, r.parts)) return;
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
    if ((known.far() && known.all_finite()) || !finished(sums, known, r, &value)) {
        *r.undecided = 1;
        if (r.open) r.open[output] = 1;
    }
    store(r.result, output, value, r.precision);
}
