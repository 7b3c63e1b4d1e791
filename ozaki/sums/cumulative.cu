#include "ozaki/sums/exact/extraction.cuh"

/* Bring all digits but the last into [-2^31, 2^31): those of small numbers stay few, of either sign. */
__device__ void balance(i64 *digits, i64 stride) {
    i64 over = 0;
    for (int i = 0; i < DIGITS; i++) {
        const i64 v = digits[i * stride] + over;
        over = i < DIGITS - 1 ? (v + (1ll << 31)) >> 32 : 0;
        digits[i * stride] = v - (over << 32);
    }
}

/* Round the digits and leave them as they are; `copy` is room for as many. */
__device__ double round_kept(i64 *digits, i64 *copy, i64 stride, int precision, int smallest) {
    int first = DIGITS, last = 0;
    for (int i = 0; i < DIGITS; i++)
        if (digits[i * stride]) { first = min(first, i); last = i + 1; }
    if (!last) return 0;
    double value;
    if (round_few({digits, stride}, first, last, LOWEST, 1, 0, precision, &value)) return value;
    for (int i = -BELOW; i < DIGITS + ABOVE; i++) copy[i * stride] = i < 0 || i >= DIGITS ? 0 : digits[i * stride];
    return round_digits({copy, stride}, first, last, LOWEST, 1, false, precision, smallest);
}

/* Thread t has `length` terms of x from t·length on, or as many as there are left of a row's n; before
   them come the digits in column t of totals and flags[t]. There are `tiles` to a row. With `carry` alone
   it only balances its digits. */
struct RunningSums {
    const char *x;
    i64 n, count, *totals, *room;
    unsigned *flags;
    void *result; /* in the dtype of the format that it is rounded to */
    int length, tiles, precision, smallest, carry;
};

extern "C" __global__ void running_sums(const RunningSums r)
{
    const i64 t = blockIdx.x * (i64)blockDim.x + threadIdx.x, count = r.count;
    if (t >= count) return;
    i64 *digits = r.totals + BELOW * count + t, *copy = r.room + BELOW * count + t;
    balance(digits, count);
    if (r.carry) return;
    unsigned seen = r.flags[t];
    const i64 row = t / r.tiles, first = t % r.tiles * r.length, end = min(r.n, first + r.length);
    for (i64 i = first; i < end; i++) {
        const double term = widened(load(r.x + (row * r.n + i) * SIZE));
        seen |= __double2loint(term) | (__double2hiint(term) ^ 0x80000000) ? ORDINARY : MINUS_ZERO;
        seen |= add_number(digits, count, term);
        const double value = round_kept(digits, copy, count, r.precision, r.smallest);
        store(r.result, row * r.n + i, with_flags(value, seen), r.precision);
    }
    balance(digits, count);
    r.flags[t] = seen;
}
