"""All functions, by name: each of these modules has some."""

# ruff: noqa: F401  # to import them is to fill the table

from ozaki.elementary import angles, exponentials, logarithms, normal, two_arguments
from ozaki.elementary.record import FUNCTIONS, Function
