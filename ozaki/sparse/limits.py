"""The limits of quick sums of products (`sums_numba`)."""

LONGEST = 1 << 24
"""Terms up to which the bound of a quick sum holds, with the roundings of the bound itself."""

UNDERFLOW = 1e-290
"""More than so many products lose by underflow. A subnormal number here would make every row slow."""

SMALLEST = 1e-280
"""A sigma (`extract`) is larger: so it is where products underflow, too."""
