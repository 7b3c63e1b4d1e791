"""The limits of quick sums of products (`sums_numba`)."""

LONGEST = 1 << 24
"""Terms up to which the bound of a quick sum holds, with the roundings of the bound itself."""

UNDERFLOW = 1e-290
"""More than so many products lose by underflow. A subnormal number here would make every row slow."""

SMALLEST = 1e-280
"""A sigma (`extract`) is larger: so it is where products underflow, too."""

LOSSLESS = 2.0**-50
"""A quick sum of n terms behind the first one, with a total T, loses nothing if a power of two divides all of
them that is larger than (n + 1)·2**-52·T times this, which is 16(n + 1)·u²·T. For what is rounded on the way
is a multiple of it, and at most 2**53 times as large: rests of sums and products, at most 8u·T each, and
their sums, at most 3nu·T."""
