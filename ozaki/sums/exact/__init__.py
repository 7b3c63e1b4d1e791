"""Exact sums of arrays over axes, and the one rounding that ends them.

The numbers' bits are cut at powers of two by error-free extraction (Rump, Ogita and Oishi, Accurate
floating-point summation, part I, Algorithm 3.2) and the parts are added as integers, so that no order
can be seen; what an extraction does not hold goes to a superaccumulator (Kulisch's complete register).

    summands                     what is added: elements or products; `summands_cuda`: as kernels read them
    reduction                    blocks, extracted and added, then rounded: `rounded_sums` and `accumulate`
                                 choose the form: NumPy's here, compiled in `reduction_numba`, CUDA's in
                                 `reduction_cuda` and `reduction.cu`
    small, interval              sums of a few numbers: `math.fsum`, an interval around the exact value, and
                                 Python's integers
    extraction (.py, .cuh)       exact partial sums of a block in two vector passes; `extraction_numba`: the
                                 same in compiled loops, of which one level may be enough for an enclosure;
                                 `bins_numba`: numbers and products that these do not hold
    accumulator, fixed_point     exact values in digits; their quotient, root and one rounding, for which
                                 an `enclosure` in float64 is enough but for a few values; `enclosure_numba`:
                                 rows and columns that lie in memory, added up in enclosures from the start
"""
