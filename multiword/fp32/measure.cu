#include "multiword/fp32/fp32.cuh"

// From the first samples of each run of 2^run neighbours, the runs `step` apart, of each line of A
// and of B: the shift that brings the largest of them below 2^target, the mean, and for the flags
// whether it stands out of the spread, and how many bits the elements have as integers. A block
// takes 32 lines; lanes go along lines that are contiguous, and across the others.
extern "C" __global__ void __launch_bounds__(1024) multiword_measure(
        const float* xa, i64 line_stride_a, i64 inner_stride_a, int lines_a,
        const float* xb, i64 line_stride_b, i64 inner_stride_b, int lines_b,
        int samples, int run, int step, int target, float threshold, int centred,
        Line* data_a, Line* data_b, int* flags) {
    __shared__ double sums[32][33], squares[32][33];
    __shared__ u32 largest[32][33];
    __shared__ int lowest[32][33], seen[4];
    int groups_a = (lines_a + 31) / 32;
    bool second = blockIdx.x >= groups_a;
    const float* x = second ? xb : xa;
    i64 line_stride = second ? line_stride_b : line_stride_a;
    i64 inner_stride = second ? inner_stride_b : inner_stride_a;
    int lines = second ? lines_b : lines_a, first = 32 * (blockIdx.x - (second ? groups_a : 0));
    int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
    int along = inner_stride == 1 ? tx : ty, place = inner_stride == 1 ? ty : tx, line = first + place;
    u32 top = 0u;
    int low = 999;                                  // exponent of the lowest bit that is set
    double sum = 0.0, square = 0.0;
    if (line < lines)
#pragma unroll 8
        for (int s = along; s < samples; s += 32) {
            i64 h = (i64)(s >> run) * step + (s & ((1 << run) - 1));
            float v = x[line * line_stride + h * inner_stride];
            if (magnitude(v) >= 0x7F800000u) v = 0.0f;
            u32 bits = magnitude(v);
            top = max(top, bits);
            u32 digits = (bits & 0x7FFFFFu) | (bits >> 23 ? 0x800000u : 0u);
            if (bits) low = min(low, max((int)(bits >> 23), 1) - 151 + __ffs(digits));
            sum += widen(v);
            square += widen(v) * widen(v);
        }
    largest[along][place] = top; lowest[along][place] = low;
    sums[along][place] = sum; squares[along][place] = square;
    if (threadIdx.x < 4) seen[threadIdx.x] = 0;
    __syncthreads();
    top = largest[tx][ty]; low = lowest[tx][ty]; sum = sums[tx][ty]; square = squares[tx][ty];
    for (int half = 16; half > 0; half /= 2) {
        top = max(top, __shfl_xor_sync(~0u, top, half));
        low = min(low, __shfl_xor_sync(~0u, low, half));
        sum += __shfl_xor_sync(~0u, sum, half);
        square += __shfl_xor_sync(~0u, square, half);
    }
    line = first + ty;
    if (tx == 0 && line < lines) {
        Line* l = (second ? data_b : data_a) + line;
        double mean = sum / samples;
        int e = exponent(top);
        l->shift = target - e;
        l->centre = centred ? __uint_as_float(__float_as_uint(narrow(mean)) & 0xFFFFE000u) : 0.0f;
        if (centred && fabs(mean) < widen(threshold) * sqrt(square / samples)) atomicAdd(&seen[UNCENTRED], 1);
        if (top) {
            atomicMax(&seen[BITS], e - low);
            atomicMax(&seen[HIGHEST], 300 + e);
            atomicMax(&seen[LOWEST], 300 - e);
        }
    }
    __syncthreads();
    int* side = flags + (second ? SIDE : 0);
    if (threadIdx.x == UNCENTRED && seen[UNCENTRED]) atomicAdd(side, seen[UNCENTRED]);
    else if (threadIdx.x < 4) atomicMax(side + threadIdx.x, seen[threadIdx.x]);
}
