"""What the results of `ozaki` are, in Python's integers: the definition that no form of it may change.

statistics    of a row: its largest exponent, and integer sums relative to it
scales        from them, or from an accuracy: which integers stand for a row
decision      how many bits more "fp64" and "fp32" take: counting bound, equilibration, pairwise bound
products      the rows split into integers, multiplied, and rounded once
remainders    the same products of integers by Chinese remainders (Ozaki scheme II)
rounding      one rounding of an exact number, of a quotient, of a root
sums          exact sums, with what Inf, NaN and −0 do to them

Every page is a formula and its source, without a thought of speed. Compiled loops, CUDA kernels, graphs and
clusters have other orders and other forms, and the bits of these pages: the tests compare with them. Nothing
here needs anything but NumPy's arrays to read from and to write to.
"""
