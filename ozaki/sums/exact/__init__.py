"""Exact sums of arrays over axes, and the one rounding that ends them.

The numbers' bits are cut at powers of two by error-free extraction (`levels`) and the parts are added as
integers, so that no order can be seen; what an extraction does not hold goes to a superaccumulator (Kulisch's
complete register). An exact value is one of three: a `FixedPoint`, a few words a column in common units, as
windows, groups and registers have them; a `Superaccumulator`, to which these are added; an `Enclosure`, a
value with an error.

    levels                       the theorem of extraction, and an assertion for each of its users

    summands                     what is added: elements or products; `summands_cuda`: as kernels read them
    reduction                    the table of forms on a CPU, in the order in which they are tried:
    rows                         few terms, copied; rows or columns as they lie in memory, or copied part by
                                 part; all added up in enclosures (`enclosure_numba`)
    vectors                      one output of any length, in windows (`extraction_numba`) and, where these do
                                 not hold it, in bins (`bins_numba`)
    tiles                        everything, in blocks: windows where they hold them (`extraction`), and else
                                 number by number, in NumPy: the plain definition (`accumulator`)
    running_numba                running sums, as expansions that grow
    groups_enclosed              results for each label on a CPU, in enclosures to which numbers are added as
                                 they come; what these leave open takes
    groups                       a sum for each label, in windows (`levels`) of compiled loops or, in
                                 `groups_cuda`, of a GPU's threads
    loops_numba                  all compiled loops, and what compiles them
    reduction_cuda, .cu          CuPy arrays; `extraction.cuh` is the extraction's CUDA form
    accumulator, fixed_point     exact values in digits; their quotient, root and one rounding, for which
                                 an `enclosure` in float64 is enough but for a few values
"""
