/* TwoSum (Knuth): s becomes fl(s + x), and the error of that is returned. */
__device__ __forceinline__ double two_sum(double *s, double x) {
    const double t = *s + x, z = t - *s, e = (*s - (t - z)) + (x - z);
    *s = t;
    return e;
}
