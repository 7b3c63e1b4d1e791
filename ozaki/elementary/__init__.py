"""Elementary functions, element by element: the exact value, rounded once, the same bits everywhere.

A function is one text, straight-line arithmetic that runs on NumPy arrays, as a compiled loop
and as a CUDA kernel. It has a bound of its error; where that leaves two numbers to choose from (Ziv's test),
a longer text decides, and integers of as many bits as that takes what even this leaves.

    digits     numbers of many bits in Python's integers, which make all tables and decide every doubt
    tables     the tables; `equations`: erf and its tails, by their own
    values     what texts compute with: NumPy arrays, or entries of a trace (`tracing`)
    words      sums of two float64; `cores`: exp, log, sin, atan of these; `many`: the same in many digits
    exponentials, logarithms, angles, normal, two_arguments
               the functions: each a public one beside its text, with the range in which that holds and
               special values (`record`)
    parts, complex_numbers
               the parts of exp and log of complex numbers; abs, angle
    rounding   from a text's number to a float
    evaluate   on a CPU, by `loops_numba`; `cuda`: on a GPU; `api`: arguments and layouts
"""

from ozaki.elementary import (  # noqa: F401  # to fill the table
    angles,
    complex_numbers,
    exponentials,
    logarithms,
    normal,
    parts,
    two_arguments,
)
from ozaki.elementary.record import FUNCTIONS, PARTS  # noqa: F401
from ozaki.public import PUBLIC

NAMES = tuple(name for name in PUBLIC if name in FUNCTIONS)
"""The public functions of real numbers, each of which has a text."""
ALL = tuple(name for name, record in PUBLIC.items() if record.heading == "Elementary functions")
"""These, and abs and angle of complex numbers, which have no derivatives."""
