// What texts are made of (`printing.py`), in CUDA. Where a text has loops over `across`, the threads of a block share
// their iterations, one of them writes what stands outside of such loops, and all read what is there.
struct Complex {
  double re, im;
  Complex() = default;
  __device__ Complex(double re, double im = 0.0) : re(re), im(im) {}
};

// As numba's: real numbers take part as complex ones, and nothing is contracted.
__device__ Complex operator+(Complex x, Complex y) { return {x.re + y.re, x.im + y.im}; }
__device__ Complex operator-(Complex x, Complex y) { return {x.re - y.re, x.im - y.im}; }
__device__ Complex operator*(Complex x, Complex y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
__device__ Complex operator-(Complex x) { return {-x.re, -x.im}; }
__device__ bool operator==(Complex x, Complex y) { return x.re == y.re && x.im == y.im; }
__device__ bool operator!=(Complex x, Complex y) { return !(x == y); }

__device__ double real(double x) { return x; }
__device__ double imag(double) { return 0.0; }
__device__ double conj(double x) { return x; }
__device__ double real(Complex x) { return x.re; }
__device__ double imag(Complex x) { return x.im; }
__device__ Complex conj(Complex x) { return {x.re, -x.im}; }

template <class T>
__device__ T minimum(T x, T y) {
  return y < x ? y : x;
}
template <class T>
__device__ T maximum(T x, T y) {
  return y > x ? y : x;
}

template <class T>
__device__ float float32(T x) {
  return (float)x;
}
template <class T>
__device__ double float64(T x) {
  return (double)x;
}
template <class T>
__device__ long long int64(T x) {
  return (long long)x;
}
template <class T>
__device__ unsigned long long uint64(T x) {
  return (unsigned long long)x;
}

// Where an iteration of a loop across has scratch memory of its own.
__device__ long long place(long long i) { return i; }

__device__ long long exponent(double x) {
  int e;
  frexp(x, &e);
  return e;
}
__device__ long long bits(double x) { return __double_as_longlong(x); }
__device__ double from_bits(long long x) { return __longlong_as_double(x); }

__device__ double times_powers(double x, long long e) { return ldexp(x, (int)e); }
__device__ Complex times_powers(Complex x, long long e) {
  return {ldexp(x.re, (int)e), ldexp(x.im, (int)e)};
}
__device__ double quotient(double x, double divisor) { return x / divisor; }
__device__ double real_quotient(double x, double divisor) { return x / divisor; }
__device__ Complex real_quotient(Complex x, double divisor) { return {x.re / divisor, x.im / divisor}; }

// C-contiguous arrays.
template <class T>
struct Line {
  T* p;
  long long n;
};
template <class T>
struct Rows {
  T* p;
  long long m, n;
};
template <class T>
struct Cube {
  T* p;
  long long l, m, n;
};

template <class T>
__device__ T& at(Line<T> x, long long i) {
  return x.p[i];
}
template <class T>
__device__ Line<T> at(Rows<T> x, long long i) {
  return {x.p + i * x.n, x.n};
}
template <class T>
__device__ T& at(Rows<T> x, long long i, long long j) {
  return x.p[i * x.n + j];
}
template <class T>
__device__ Rows<T> at(Cube<T> x, long long i) {
  return {x.p + i * x.m * x.n, x.m, x.n};
}
template <class T>
__device__ T& at(Cube<T> x, long long i, long long j, long long k) {
  return x.p[(i * x.m + j) * x.n + k];
}
template <class T>
__device__ Line<T> cut(Line<T> x, long long start, long long stop) {
  return {x.p + start, stop - start};
}
template <class T>
__device__ Rows<T> cut(Rows<T> x, long long start, long long stop) {
  return {x.p + start * x.n, stop - start, x.n};
}
template <class T>
__device__ Line<T> cut(Line<T> x, long long start) {
  return cut(x, start, x.n);
}
template <class T>
__device__ Rows<T> cut(Rows<T> x, long long start) {
  return cut(x, start, x.m);
}
template <class T>
__device__ Rows<T> reshape(Line<T> x, long long m, long long n) {
  return {x.p, m, n};
}
template <class T>
__device__ Rows<T> reshape(Rows<T> x, long long m, long long n) {
  return {x.p, m, n};
}
template <class T>
__device__ Cube<T> reshape(Line<T> x, long long l, long long m, long long n) {
  return {x.p, l, m, n};
}
template <class T>
__device__ long long size_0(Line<T> x) {
  return x.n;
}
template <class T>
__device__ long long size_0(Rows<T> x) {
  return x.m;
}
template <class T>
__device__ long long size_1(Rows<T> x) {
  return x.n;
}

// Real numbers in a number of an array, and a number of its kind.
__device__ constexpr long long parts_of(Rows<double>) { return 1; }
__device__ constexpr long long parts_of(Rows<Complex>) { return 2; }
__device__ double number(Rows<double>, double re, double) { return re; }
__device__ Complex number(Rows<Complex>, double re, double im) { return {re, im}; }

// Results of a text that returns several.
template <class A, class B>
struct Two {
  A _0;
  B _1;
};
template <class A, class B, class C>
struct Three {
  A _0;
  B _1;
  C _2;
};
template <class A, class B, class C, class D>
struct Four {
  A _0;
  B _1;
  C _2;
  D _3;
};
struct Five {
  double _0, _1, _2, _3, _4;
};
template <class A, class B>
__device__ Two<A, B> together(A a, B b) {
  return {a, b};
}
template <class A, class B, class C>
__device__ Three<A, B, C> together(A a, B b, C c) {
  return {a, b, c};
}
template <class A, class B, class C, class D>
__device__ Four<A, B, C, D> together(A a, B b, C c, D d) {
  return {a, b, c, d};
}
__device__ Five together(double a, double b, double c, double d, double e) { return {a, b, c, d, e}; }

// All threads of the block have read what is there, or see what has been written.
__device__ void meet() {
  if (blockDim.x == 32)
    __syncwarp();
  else
    __syncthreads();
}

// What a text returns that one thread runs from end to end.
template <class F>
__device__ auto by_one(F text) {
  __shared__ decltype(text()) result;
  meet();
  if (threadIdx.x == 0) result = text();
  meet();
  return result;
}
