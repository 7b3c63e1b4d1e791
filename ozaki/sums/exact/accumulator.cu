typedef long long i64;

/* digits[l·stride + at(j)] += the digits, of base 2**32, of Σ_i values[i·columns + j]·2**(position + bits·i), i < count,
   and flags[at(j)] |= more[j], for j < columns. Positions count from the range's last one, below which no number has
   bits; digit 0 has those from `first` on. at(j) is where[j], each once, or start + j. */
extern "C" __global__ void add_fixed_point(const i64 *values, int count, int bits, i64 position, i64 first,
                                           const unsigned char *more, const i64 *where, i64 start, i64 columns,
                                           i64 *digits, i64 stride, unsigned char *flags)
{
    const i64 low = 0xffffffffll;
    for (i64 j = blockIdx.x * (i64)blockDim.x + threadIdx.x; j < columns; j += gridDim.x * (i64)blockDim.x) {
        const i64 at = where ? where[j] : start + j;
        for (int i = 0; i < count; i++) {
            const i64 place = position + (i64)bits * i, below = place < 0 ? -place : 0;
            const i64 value = values[i * columns + j] >> (below < 63 ? below : 63), from = place < 0 ? 0 : place - first;
            const int shift = from & 31;
            i64 *digit = digits + (from >> 5) * stride + at;
            const i64 lower = (value & low) << shift, upper = (value >> 32) << shift;
            digit[0] += lower & low;
            digit[stride] += (lower >> 32) + (upper & low);
            digit[2 * stride] += upper >> 32;
        }
        flags[at] |= more[j];
    }
}
