#include "multiword/runtime/language.cuh"

// What the texts of `windows_numba` are made of beside that.
typedef long long i64;

// A thread's numbers, interleaved with those of others.
template <class T>
struct Interleaved {
    T *p;
    i64 n, step;
};
template <class T>
__device__ T &at(Interleaved<T> x, i64 i) {
    return x.p[i * x.step];
}
template <class T>
__device__ Interleaved<T> cut(Interleaved<T> x, i64 start, i64 stop) {
    return {x.p + start * x.step, stop - start, x.step};
}
template <class T>
__device__ Interleaved<T> cut(Interleaved<T> x, i64 start) {
    return cut(x, start, x.n);
}
template <class T>
__device__ i64 size_0(Interleaved<T> x) {
    return x.n;
}

__device__ double power_of_two(i64 exponent) { return __longlong_as_double((exponent + 1023) << 52); }
