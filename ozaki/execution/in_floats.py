"""Which numbers products row by row in two floats are of: what products of others are left to other steps."""

FURTHEST = 400
"""Exponents of rows, at most: nothing overflows, and nothing underflows that counts."""

SMALLEST = 2.0**-300
"""Scaled numbers that are not rounded to integers are at least this: products are exact then."""

LEAST, LEAST_SINGLE = 2.0**-1000, 2.0**-126
"""Results are at least these: no subnormal numbers of float64 or float32, which would be rounded twice."""
