/* Real or complex numbers, each operation rounded once, and what the threads of a block do together with them. Of
   `panels.cu` and `two_sided.cu`; PARTS is 2 for complex numbers. */

#if PARTS == 2
struct alignas(16) Number {
    double re, im;
};
__device__ Number operator+(Number x, Number y) { return {x.re + y.re, x.im + y.im}; }
__device__ Number operator-(Number x, Number y) { return {x.re - y.re, x.im - y.im}; }
__device__ Number operator*(Number x, Number y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
__device__ Number operator/(Number x, double d) { return {x.re / d, x.im / d}; }
__device__ Number operator-(Number x) { return {-x.re, -x.im}; }
__device__ bool is_zero(Number x) { return x.re == 0 && x.im == 0; }
__device__ Number conjugate(Number x) { return {x.re, -x.im}; }
__device__ double real(Number x) { return x.re; }
__device__ double size(Number x) { return fabs(x.re) + fabs(x.im); }
__device__ double squared(Number x) { return x.re * x.re + x.im * x.im; }
__device__ Number number(double x) { return {x, 0}; }
/* The larger part's magnitude. */
__device__ double larger(Number x) { return fabs(x.re) > fabs(x.im) ? fabs(x.re) : fabs(x.im); }
__device__ Number scaled(Number x, int e) { return {ldexp(x.re, e), ldexp(x.im, e)}; }
/* The exponent of the larger part; 0 of Inf and NaN. */
__device__ int exponent_of(Number x) {
    int exponent;
    frexp(larger(x), &exponent);
    return isfinite(larger(x)) ? exponent : 0;
}
__device__ Number quotient(Number x, Number divisor) {
    const int e = exponent_of(divisor), f = exponent_of(x);
    const double c = ldexp(divisor.re, -e), d = ldexp(divisor.im, -e), norm = c * c + d * d;
    const double p = ldexp(x.re, -f), q = ldexp(x.im, -f);
    return {ldexp((p * c + q * d) / norm, f - e), ldexp((q * c - p * d) / norm, f - e)};
}
/* What another block has written: not from this multiprocessor's cache. */
__device__ Number fresh(const Number *x) { return {__ldcg(&x->re), __ldcg(&x->im)}; }
#else
typedef double Number;
__device__ bool is_zero(double x) { return x == 0; }
__device__ double conjugate(double x) { return x; }
__device__ double real(double x) { return x; }
__device__ double size(double x) { return fabs(x); }
__device__ double squared(double x) { return x * x; }
__device__ double number(double x) { return x; }
__device__ double larger(double x) { return fabs(x); }
__device__ double scaled(double x, int e) { return ldexp(x, e); }
__device__ double quotient(double x, double divisor) { return x / divisor; }
__device__ double fresh(const double *x) { return __ldcg(x); }
#endif

typedef long long i64;
#define LANE (threadIdx.x % 32)
#define WARP (threadIdx.x / 32)

/* All blocks of a cooperative launch wait for each other; `met` counts arrivals from zero, `round` these calls. */
__device__ void meet(unsigned *met, unsigned &round) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(met, 1);
        const unsigned all = ++round * gridDim.x;
        while (*(volatile unsigned *)met < all) {}
        __threadfence();
    }
    __syncthreads();
}

/* Threads that work together. */
struct Block {
    static __device__ int rank() { return threadIdx.x; }
    static __device__ int size() { return blockDim.x; }
    static __device__ void meet() { __syncthreads(); }
};
struct Warp {
    static __device__ int rank() { return LANE; }
    static __device__ int size() { return 32; }
    static __device__ void meet() { __syncwarp(); }
};

/* What an operation makes of n numbers by halves, in place; all of the threads get it. The last 64 are one warp's. */
template <class Threads, class T, class Operation> __device__ T halves(T *x, i64 n, Operation combined) {
    Threads::meet();
    while (n > 1) {
        const i64 half = n / 2;
        for (i64 i = Threads::rank(); i < half; i += Threads::size()) x[i] = combined(x[i], x[n - half + i]);
        n -= half;
        if (half > 32) Threads::meet();
        else __syncwarp();
    }
    Threads::meet();
    const T all = x[0];
    Threads::meet();
    return all;
}
template <class Threads, class T> __device__ T sum(T *x, i64 n) {
    return halves<Threads>(x, n, [](T a, T b) { return a + b; });
}
__device__ double largest(double *x, i64 n) {
    return halves<Block>(x, n, [](double a, double b) { return fmax(a, b); });
}

/* x becomes v of Householder's H = I - tau·v·vᴴ with Hᴴx = beta·e₁, as `arithmetic.reflector` defines; all of the block's
   threads get beta and tau. `squares` is scratch memory. */
__device__ double reflect(Number *x, i64 n, double *squares, Number &tau) {
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) squares[i] = larger(x[i]);
    const double top = largest(squares, n);
    int e = 0;
    if (isfinite(top)) frexp(top, &e);
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        x[i] = scaled(x[i], -e);
        squares[i] = squared(x[i]);
    }
    const double norm = sqrt(sum<Block>(squares, n));
    const Number alpha = x[0];
    const double beta = real(alpha) >= 0 ? -norm : norm;
    const Number shifted = alpha - number(beta);
    __syncthreads(); // alpha has been read
    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        x[i] = norm == 0 ? number(0) : i ? quotient(x[i], shifted) : number(1);
    __syncthreads();
    tau = norm == 0 ? number(0) : (number(beta) - alpha) / beta;
    return norm == 0 ? 0 : ldexp(beta, e);
}
