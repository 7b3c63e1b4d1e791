#include "multiword/fp32/fp32.cuh"

// A and B as vectors of length k: their number, from one to the next, and from element to element.
struct Measuring {
    const float *a, *b; i64 stride_a, step_a, stride_b, step_b;
    int vectors_a, vectors_b, samples, run, step, target, centred; float threshold;
};

// From the first samples of each run of 2^run neighbours, the runs `step` apart, of each vector of A
// and of B: the shift that brings the largest of them below 2^target, the mean, and for the flags
// whether it stands out of the spread, and how many bits the elements have as integers. A block
// takes 32 vectors; lanes go along vectors that are contiguous, and across the others.
extern "C" __global__ void __launch_bounds__(1024, 2) multiword_measure(
        Measuring m, Vector* of_a, Vector* of_b, int* flags) {
    __shared__ double sums[32][33], squares[32][33];
    __shared__ u32 largest[32][33];
    __shared__ int lowest[32][33], counts[4];
    int groups_a = (m.vectors_a + 31) / 32;
    bool second = blockIdx.x >= groups_a;
    const float* x = second ? m.b : m.a;
    i64 stride = second ? m.stride_b : m.stride_a, inner_stride = second ? m.step_b : m.step_a;
    int vectors = second ? m.vectors_b : m.vectors_a, first = 32 * (blockIdx.x - (second ? groups_a : 0));
    int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    int along = inner_stride == 1 ? tx : ty, across = inner_stride == 1 ? ty : tx, vector = first + across;
    u32 top = 0u;
    int low = 999;                                  // exponent of the lowest bit that is set
    double sum = 0.0, square = 0.0;
    if (vector < vectors)
#pragma unroll 8
        for (int s = along; s < m.samples; s += 32) {
            i64 h = (i64)(s >> m.run) * m.step + (s & ((1 << m.run) - 1));
            float v = x[vector * stride + h * inner_stride];
            if (magnitude(v) >= 0x7F800000u) v = 0.0f;
            u32 bits = magnitude(v);
            top = max(top, bits);
            u32 digits = (bits & 0x7FFFFFu) | (bits >> 23 ? 0x800000u : 0u);
            if (bits) low = min(low, max((int)(bits >> 23), 1) - 151 + __ffs(digits));
            sum += widened(v);
            square += widened(v) * widened(v);
        }
    largest[along][across] = top; lowest[along][across] = low;
    sums[along][across] = sum; squares[along][across] = square;
    if (threadIdx.x < 4) counts[threadIdx.x] = 0;
    __syncthreads();
    top = largest[tx][ty]; low = lowest[tx][ty]; sum = sums[tx][ty]; square = squares[tx][ty];
    for (int half = 16; half > 0; half /= 2) {
        top = max(top, __shfl_xor_sync(~0u, top, half));
        low = min(low, __shfl_xor_sync(~0u, low, half));
        sum += __shfl_xor_sync(~0u, sum, half);
        square += __shfl_xor_sync(~0u, square, half);
    }
    vector = first + ty;
    if (tx == 0 && vector < vectors) {
        Vector* v = (second ? of_b : of_a) + vector;
        double mean = sum / m.samples;
        int e = exponent(top);
        v->shift = m.target - e;
        v->centre = m.centred ? __uint_as_float(__float_as_uint(narrowed(mean)) & 0xFFFFE000u) : 0.0f;
        if (m.centred && fabs(mean) < widened(m.threshold) * sqrt(square / m.samples))
            atomicAdd(&counts[UNCENTRED], 1);
        if (top) {
            atomicMax(&counts[BITS], e - low);
            atomicMax(&counts[HIGHEST], 300 + e);
            atomicMax(&counts[LOWEST], 300 - e);
        }
    }
    __syncthreads();
    int* side = flags + (second ? SIDE : 0);
    if (threadIdx.x == UNCENTRED && counts[UNCENTRED]) atomicAdd(side, counts[UNCENTRED]);
    else if (threadIdx.x < 4) atomicMax(side + threadIdx.x, counts[threadIdx.x]);
}
