#include "ozaki/sums/exact/extraction.cuh"
#include "ozaki/sums/exact/moments.cuh"

/* result[o, i] = RN(x[o, 0] + … + x[o, i]), i < n.

   Element (o, i) of x lies where reduction.cu says, that of the result likewise. LANES threads share an output, and go
   through it side by side; integers as of moments.cuh are what they add up. Where `parts` blocks share an output there
   are three launches: one leaves what is known of each output's numbers in `known`, (KNOWN, outputs) zeros, the next the
   sum of each part in totals, (outputs, parts), and the last adds those that come before its own. *undecided becomes 1
   where numbers of an output are too far apart, or not finite. */
struct Prefixes {
    const char *x;
    i64 x_outer, x_inner, x_step, y_outer, y_inner, y_step, n, outputs;
    int *known;
    void *totals;
    int *undecided;
    void *result;
    int pair, precision, smallest, parts, phase;
};

enum Phase { ALONE, MEASURE, TOTALS, SUMS };

/* A running sum, and whether anything but -0 is in it. */
struct Running {
    u64 sum[2];
    unsigned ordinary;

    __device__ void add(const Running &other) {
        add_words<2>(sum, other.sum);
        ordinary |= other.ordinary;
    }
    __device__ Running from(int distance) const {
        return {{__shfl_up_sync(0xffffffff, sum[0], distance), __shfl_up_sync(0xffffffff, sum[1], distance)},
                __shfl_up_sync(0xffffffff, ordinary, distance)};
    }
};

/* A number as what it adds. */
__device__ Running running(double x, int lowest) {
    Running one = {{0, 0}, __double_as_longlong(x) != (i64)(1ull << 63)};
    u64 magnitude;
    if (x != 0) in_words(x, lowest, one.sum, &magnitude);
    return one;
}

extern "C" __global__ void __launch_bounds__(THREADS) prefix_sums(const Prefixes r)
{
    const int width = LANES < 32 ? LANES : 32; /* lanes of an output in a warp */
    __shared__ Known all_known[THREADS];
    __shared__ Running all_sums[THREADS], of_warps[THREADS / 32];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / 32, warps = LANES / width;
    const int part = blockIdx.x % r.parts;
    const i64 output = (i64)(blockIdx.x / r.parts) * (THREADS / LANES) + threadIdx.x / LANES;
    const bool there = output < r.outputs;
    const i64 share = (r.n + r.parts - 1) / r.parts, first = part * share;
    const i64 end = min(r.n, first + share), mine_to = there ? end : 0;
    const char *p = r.x + place_of(there ? output : 0, r.pair, r.x_outer, r.x_inner);
    const i64 to = (output >> r.pair) * r.y_outer + (output & r.pair) * r.y_inner;

    Known known = {};
    if (r.phase <= MEASURE) {
        for (i64 i = first + lane; i < mine_to; i += LANES) known.note({{widened(load(p + SIZE * i * r.x_step))}});
        known = together(all_known, known, lane, 1);
    } else if (there) {
        known = Known::of(r.known + output, r.outputs);
    }
    if (r.phase == MEASURE) {
        if (there && lane == 0) known.add_to(r.known + output, r.outputs);
        return;
    }
    const bool refused = !known.all_finite() || known.far();
    if (there && refused && lane == 0) *r.undecided = 1;
    const int lowest = known.x.lowest();

    Running before = {{0, 0}, 0}, *totals = (Running *)r.totals + output * r.parts;
    if (r.phase == TOTALS) {
        for (i64 i = first + lane; !refused && i < mine_to; i += LANES)
            before.add(running(widened(load(p + SIZE * i * r.x_step)), lowest));
        before = together(all_sums, before, lane, 1);
        if (there && lane == 0) totals[part] = before;
        return;
    }
    if (r.phase == SUMS) {
        for (int i = lane; there && i < part; i += LANES) before.add(totals[i]);
        before = together(all_sums, before, lane, 1);
    }
    for (i64 start = first; start < end; start += LANES) { /* all lanes: they wait for each other */
        const i64 i = start + lane;
        Running mine = {{0, 0}, 0};
        if (!refused && i < mine_to) mine = running(widened(load(p + SIZE * i * r.x_step)), lowest);
        for (int distance = 1; distance < width; distance *= 2) {
            const Running earlier = mine.from(distance);
            if (lane % width >= distance) mine.add(earlier);
        }
        const int own = warp - warp % warps; /* the output's first warp */
        if (warps > 1) {
            if (lane % 32 == 31) of_warps[warp] = mine;
            __syncthreads();
            for (int w = own; w < warp; w++) mine.add(of_warps[w]);
        }
        mine.add(before);
        if (i < mine_to) {
            u64 limb[2] = {mine.sum[0], mine.sum[1]};
            const double value = round_limbs<2>(limb, lowest - 1075, r.precision, r.smallest);
            store(r.result, to + i * r.y_step, mine.ordinary ? value : -0.0, r.precision);
        }
        if (warps > 1) {
            for (int w = own; w < own + warps; w++) before.add(of_warps[w]);
            __syncthreads();
        } else if (width > 1) {
            const int last = threadIdx.x % 32 / width * width + width - 1;
            before = {{__shfl_sync(0xffffffff, mine.sum[0], last), __shfl_sync(0xffffffff, mine.sum[1], last)},
                      __shfl_sync(0xffffffff, mine.ordinary, last)};
        } else {
            before = mine;
        }
    }
}
