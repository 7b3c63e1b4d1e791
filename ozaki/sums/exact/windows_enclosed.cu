typedef unsigned long long u64;

// Windows along the rows of x, (rows, n), as `windows_enclosed_numba` has them: each number is two integers, of levels
// k and k - bits, so that sums over windows are differences of running sums, exact since integers wrap around. They are
// enclosed, divided and rounded by texts that are printed before this: two_sum, divided_by, root_of and rounded.
#define MOST_WARPS 8
#define BLOCKS 3 /* to a multiprocessor, at least: what registers are for */
#define SUMS 5 /* of levels of numbers, of levels of squares, and how many NaN there are */
#define MISSING 4
#define CUT 12
#define LOWEST -600 /* exponents between which no product here, nor its error, leaves its range */
#define HIGHEST 900
#define INFINITE 0x7ff0000000000000ll
#define MAGNITUDE 0x7fffffffffffffffll
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000ll)
#define WIDER 0x1.00001p0 /* makes up for the roundings of an error bound */

/* What is asked of windows: see `windows_numba.rolled`. */
struct Asked {
    i64 window, ahead, min_count, divided, spread, root, ddof, single;
};

__device__ double sigma_of(i64 k) { return __longlong_as_double((k + 1023) << 52 | 1ll << 51); }

/* The numbers of a part: magnitudes, of which a NaN has none, and which signs, -0 and NaN there are. */
#define NEGATIVE 1
#define POSITIVE 2
#define MINUS_ZERO 4
struct Seen {
    i64 least, largest;
    int flags;

    __device__ void note(double x) {
        const i64 pattern = __double_as_longlong(x), magnitude = pattern & MAGNITUDE;
        if (magnitude > INFINITE) return;
        least = minimum(least, magnitude);
        largest = maximum(largest, magnitude);
        flags |= pattern >= 0 ? POSITIVE : magnitude ? NEGATIVE : NEGATIVE | MINUS_ZERO;
    }
    __device__ void add(i64 low, i64 high, int other) {
        least = minimum(least, low);
        largest = maximum(largest, high);
        flags |= other;
    }
};

/* What the threads of a block have seen, together. */
__device__ Seen together(Seen mine) {
    __shared__ Seen of_warps[MOST_WARPS];
    for (int d = 16; d > 0; d /= 2)
        mine.add(__shfl_xor_sync(0xffffffff, mine.least, d), __shfl_xor_sync(0xffffffff, mine.largest, d),
                 __shfl_xor_sync(0xffffffff, mine.flags, d));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; w++) mine.add(of_warps[w].least, of_warps[w].largest, of_warps[w].flags);
    return mine;
}

/* The levels of numbers x - c, |x - c| < 2^exponent, and of their squares. */
struct Levels {
    double c, sigma, tau, square_sigma, square_tau;
    i64 k, of_squares;
    bool held;

    __device__ Levels(const Seen &seen, const Asked &asked, int bits) {
        const double low = __longlong_as_double(seen.least), high = __longlong_as_double(seen.largest);
        double most = high;
        const int signs = seen.flags & (NEGATIVE | POSITIVE);
        c = 0;
        if (asked.spread && (signs == NEGATIVE || signs == POSITIVE) && high <= 3 * low) { /* x - c is exact: Sterbenz */
            c = low / 2 + high / 2;
            most = fmax(high - c, c - low);
            if (signs == NEGATIVE) c = -c;
        }
        const i64 exponent = most > 0 ? (__double_as_longlong(most) >> 52) - 1022 : 0;
        k = exponent + 53 - bits;
        of_squares = (asked.spread ? 2 * exponent : exponent) + 53 - bits;
        sigma = sigma_of(k), tau = sigma_of(k - bits);
        square_sigma = sigma_of(of_squares), square_tau = sigma_of(of_squares - bits);
        held = seen.largest < INFINITE && minimum(k, of_squares) - 52 - bits >= LOWEST && maximum(k, of_squares) <= HIGHEST;
    }
};

/* Units of a level that x has; x becomes what they leave. */
__device__ u64 taken(double *x, double sigma) {
    const double shifted = *x + sigma;
    *x -= shifted - sigma;
    return __double_as_longlong(shifted) - __double_as_longlong(sigma);
}

/* Running sums, and whether levels have left something of numbers, or of their squares. */
struct Running {
    u64 sum[SUMS];
    bool left, below;

    /* sign : 1, or as many ones as there are bits, by which units are taken away. */
    __device__ void move(double x, u64 sign, const Levels &levels, bool spread) {
        if (x != x) {
            sum[MISSING] += sign;
            return;
        }
        double d = x - levels.c, p = d * d, e = fma(d, d, -p);
        sum[0] += sign * taken(&d, levels.sigma);
        sum[1] += sign * taken(&d, levels.tau);
        left |= d != 0;
        if (!spread) return;
        sum[2] += sign * taken(&p, levels.square_sigma);
        sum[3] += sign * (taken(&p, levels.square_tau) + taken(&e, levels.square_tau));
        below |= p != 0 || e != 0;
    }
};

/* Add to the sums of each thread those of all before it, and `carry`, which becomes the sums of all. */
__device__ void scan(u64 *sum, u64 *carry) {
    __shared__ u64 of_warps[MOST_WARPS][SUMS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int s = 0; s < SUMS; s++) {
        u64 total = sum[s];
        for (int d = 1; d < 32; d *= 2) {
            const u64 other = __shfl_up_sync(0xffffffff, total, d);
            if (lane >= d) total += other;
        }
        sum[s] = total;
        if (lane == 31) of_warps[warp][s] = total;
    }
    __syncthreads();
    for (int s = 0; s < SUMS; s++) {
        sum[s] += carry[s];
        for (int w = 0; w < warp; w++) sum[s] += of_warps[w][s];
    }
    __syncthreads();
    if (threadIdx.x == 0)
        for (int s = 0; s < SUMS; s++)
            for (int w = 0; w < warps; w++) carry[s] += of_warps[w][s];
    __syncthreads();
}

struct Enclosed {
    double high, low, error;

    /* Two levels, in units of 2^exponent of the lower one, of whose numbers each has left `lost` at most. */
    __device__ Enclosed(i64 upper, i64 lower, int bits, i64 exponent, double lost, double count) {
        const double unit = power_of_two(exponent), step = power_of_two(exponent + bits);
        const i64 above = upper + (lower >> bits);
        const auto rest = text::two_sum((above & ((1 << CUT) - 1)) * step, (lower & ((1ll << bits) - 1)) * unit);
        const auto first = text::two_sum((above >> CUT) * power_of_two(exponent + bits + CUT), rest._0);
        const auto second = text::two_sum(first._1, rest._1);
        high = first._0, low = second._0, error = fabs(second._1) + count * lost;
    }

    /* n·squares - (this)². */
    __device__ void spread(const Enclosed &squares, double n) {
        const double q = squares.high, r = squares.low, s = high, t = low;
        const double a = n * q, p = s * s, c = n * r, f = 2 * s * t;
        double lost = n * squares.error + 2 * error * (fabs(s) + fabs(t) + error);
        lost += fabs(fma(n, r, -c)) + fabs(fma(2 * s, t, -f)) + t * t;
        const auto upper = text::two_sum(a, -p);
        const auto first = text::two_sum(upper._1, fma(n, q, -a));
        const auto second = text::two_sum(first._0, -fma(s, s, -p));
        const auto third = text::two_sum(second._0, c);
        const auto fourth = text::two_sum(third._0, -f);
        lost += fabs(first._1) + fabs(second._1) + fabs(third._1) + fabs(fourth._1);
        const auto result = text::two_sum(upper._0, fourth._0);
        high = result._0, low = result._1, error = lost * WIDER;
    }

    __device__ double rounded(const Asked &asked, double divisor) {
        if (asked.divided) {
            const auto quotient = text::divided_by(high, low, error, divisor);
            high = quotient._0, low = quotient._1, error = quotient._2 / divisor * WIDER;
        }
        if (asked.root) {
            const auto root = text::root_of(high, low, error);
            high = root._0, low = root._1, error = root._2;
        }
        const double value = text::rounded(high, low, error, asked.single != 0);
        /* Instructions for float32 may flush subnormal numbers. */
        return asked.single && value != 0 && !(fabs(value) >= 0x1p-125 && fabs(value) < 0x1p127) ? NOT_A_NUMBER : value;
    }
};

/* Write result[row, i], and whether it is certain, to certain[row, i]; *undecided = 1 where it is not. A block takes
   `part` elements of a row. */
extern "C" __global__ void __launch_bounds__(32 * MOST_WARPS, BLOCKS)
windows_enclosed(const double *x, i64 rows, i64 n, i64 part, i64 bits, i64 window, i64 ahead, i64 min_count, i64 divided,
                 i64 spread, i64 root, i64 ddof, i64 single, double *result, bool *certain, int *undecided)
{
    const Asked asked = {window, ahead, min_count, divided, spread, root, ddof, single};
    const i64 parts = (n + part - 1) / part, row = blockIdx.x / parts, start = blockIdx.x % parts * part;
    const i64 stop = minimum(n, start + part), first = maximum(0ll, start + ahead + 1 - window);
    const i64 begin = minimum(n, start + ahead), end = minimum(n, stop + ahead);
    const double *numbers = x + row * n;
    result += row * n, certain += row * n;

    Seen seen = {MAGNITUDE, 0, 0};
#pragma unroll 1
    for (i64 i = first + threadIdx.x; i < end; i += blockDim.x) seen.note(numbers[i]);
    seen = together(seen);
    const Levels levels(seen, asked, bits);
    if (!levels.held) {
        for (i64 i = start + threadIdx.x; i < stop; i += blockDim.x) certain[i] = false;
        if (threadIdx.x == 0) *undecided = 1;
        return;
    }
    __shared__ u64 carry[SUMS];
    if (threadIdx.x < SUMS) carry[threadIdx.x] = 0;
    Running running = {};
#pragma unroll 1
    for (i64 i = first + threadIdx.x; i < begin; i += blockDim.x) running.move(numbers[i], 1, levels, spread);
    __syncthreads();
    scan(running.sum, carry);

    const i64 fewest = maximum(min_count, maximum(divided, spread ? ddof + 1 : 0));
    const i64 unit = levels.k - 52 - bits, of_squares = levels.of_squares - 52 - bits;
    const double zero = seen.flags & MINUS_ZERO && !spread ? NOT_A_NUMBER : 0.0; /* whose sign is left to others */
    bool some = false;
#pragma unroll 1
    for (i64 tile = start; tile < stop; tile += blockDim.x) {
        const i64 i = tile + threadIdx.x, entering = i + ahead, leaving = entering - window;
        for (int s = 0; s < SUMS; s++) running.sum[s] = 0;
        if (i < stop && entering < n) running.move(numbers[entering], 1, levels, spread);
        if (i < stop && leaving >= first) running.move(numbers[leaving], -1ull, levels, spread);
        running.left = __syncthreads_or(running.left);
        running.below = __syncthreads_or(running.below);
        scan(running.sum, carry);
        if (i >= stop) continue;
        const double lost = running.left ? power_of_two(unit) : 0, below = running.below ? power_of_two(of_squares + 1) : 0;
        const i64 count = minimum(entering + 1, n) - maximum(0ll, leaving + 1) - (i64)running.sum[MISSING];
        double value = NOT_A_NUMBER;
        if (count >= fewest) {
            Enclosed sum(running.sum[0], running.sum[1], bits, unit, lost, count);
            if (spread) sum.spread(Enclosed(running.sum[2], running.sum[3], bits, of_squares, below, count), count);
            value = sum.rounded(asked, spread ? (double)count * (count - ddof) : count);
            if (value == 0) value = zero;
        }
        result[i] = value;
        certain[i] = count < fewest || value == value;
        some |= !certain[i];
    }
    if (__syncthreads_or(some) && threadIdx.x == 0) *undecided = 1;
}
