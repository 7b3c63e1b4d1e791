/* Of a rounded sum, what its flags, those of `fixed_point.py`, make of it. */
__device__ double with_flags(double value, unsigned flags) {
    const unsigned infinite = flags & (PLUS_INFINITY | MINUS_INFINITY);
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    if (flags & NOT_A_NUMBER || infinite == (PLUS_INFINITY | MINUS_INFINITY))
        return __longlong_as_double(0x7ff8000000000000ll);
    if (infinite) return infinite == PLUS_INFINITY ? infinity : -infinity;
    return (flags & (MINUS_ZERO | ORDINARY)) == MINUS_ZERO ? -0.0 : value;
}
