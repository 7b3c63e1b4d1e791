"""Softmax and its logarithms of float32 rows on a CPU: plain float64 with a bound of the error.

Where both ends of what a result may be are rounded to the same float32 number, that is it. Rows with other
results are left in doubt; of results, one in 2**19 or so is, for rows of 1000 numbers.
"""

import math

import numpy as np
from numba import float32, float64, int32, int64, types, uint8, void

from multiword.runtime.jit import inlined, jit
from ozaki.rowwise.bounds_numba import BLOCK, IN_ANY_ORDER, ROW, ROWS, U, additions_of, write_products

LOG2_E, LOG_2_HIGH, LOG_2_LOW = 1.4426950408889634, float.fromhex("0x1.62e42feep-1"), 1.9082149292705877e-10
"""1/log 2, and log 2 in two parts, of which the first, of 32 bits, times an integer of 9 bits is exact."""

INTEGER = 1.5 * 2.0**52
"""Sums with it are integers, which their last bits are."""

LEAST = -350.0
"""For differences below, e**d is taken to be e**LEAST: less than 2**-504, and 0 in softmax of float32."""

FINEST = 2.0**-438
"""Sums below which the logarithm of one more is only known to be between 0 and twice that."""

NOT_FINITE, LEAST_FINITE = 0x7F800000, -0x7F800000
"""The keys of Inf and of the least finite number (`largest_of`)."""


@jit(void(ROW, float64, float64[::1]), inner=True, fastmath={"contract"})
def write_powers(x, largest, powers):
    """Write e**(x - largest), with relative errors below 180 u where softmax is not 0, and below 444 u.

    e**d is 2**k·e**r with r = d - k·log 2, |r| < 0.34658. Errors in u = 2**-53: 80 for r**12/12! and so on,
    which the polynomial leaves out; 4 for its last operations and its coefficients; 1 for r, whose first
    difference is exact; for d, if it is rounded, 64 down to -110, with what of softmax is not 0, and 256 down
    to -350.
    """
    for j in range(len(x)):
        d = np.float64(x[j]) - largest
        d = d if d > LEAST else LEAST
        shifted = d * LOG2_E + INTEGER
        k = shifted - INTEGER
        r = (d - k * LOG_2_HIGH) - k * LOG_2_LOW
        p = 1 / 39916800
        p = p * r + 1 / 3628800
        p = p * r + 1 / 362880
        p = p * r + 1 / 40320
        p = p * r + 1 / 5040
        p = p * r + 1 / 720
        p = p * r + 1 / 120
        p = p * r + 1 / 24
        p = p * r + 1 / 6
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
        powers[j] = np.int64(bits).view(np.float64)


@jit(float64(float64[::1]), inner=True, fastmath=IN_ANY_ORDER)
def sum_of_block(powers):
    """Return a sum, in any order."""
    total = 0.0
    for j in range(len(powers)):
        total += powers[j]
    return total


@inlined
def sum_of(powers):
    """Return a sum of positive numbers."""
    total = 0.0
    for start in range(0, len(powers), BLOCK):
        total += sum_of_block(powers[start : start + BLOCK])
    return total


@jit(int32(float64), inner=True)
def bits(x):
    """Return the bits of a number rounded to float32."""
    return np.float32(x).view(np.int32)


@jit(float64(ROW), inner=True)
def largest_of(x):
    """Return the largest number; NaN if that is not finite, or a number is NaN.

    It is found among keys, integers that order as numbers do: compilers have vectors for them.
    """
    most, least = np.int32(-0x7FFFFFFF), np.int32(0x7FFFFFFF)
    for j in range(len(x)):
        key = bits(np.float64(x[j]))
        key = np.int32(key ^ ((key >> 31) & 0x7FFFFFFF))
        most, least = max(most, key), min(least, key)
    if not LEAST_FINITE <= most < NOT_FINITE or least < LEAST_FINITE - 1:
        return np.nan
    return np.float64(np.int32(most ^ ((most >> 31) & 0x7FFFFFFF)).view(np.float32))


@jit(float64(int64), inner=True)
def error_of(n):
    """Return how far the ends of what a result may be are from it, relatively.

    Of 512 u, and what additions lose, 444 are for the powers, 2 as the definition rounds these and their sum,
    16 for what stands for powers below `LEAST`, of up to 2**17 numbers beside `FINEST`, 8 for log1p, the rest
    for other operations. `enclosed.cu` has less, as its powers are nearer.
    """
    return (512 + additions_of(n)) * U


@jit(void(ROWS, float32[:, ::1], uint8[::1], float64[::1]))
def softmax(x, out, doubt, powers):
    """Write softmax of rows, and to `doubt` which are in doubt."""
    error = error_of(x.shape[1])
    for i in range(len(x)):
        largest = largest_of(x[i])
        doubt[i] = largest != largest
        if not doubt[i]:
            write_powers(x[i], largest, powers)
            inverse = 1 / sum_of(powers)
            doubt[i] = write_products(powers, inverse * (1 - error), inverse * (1 + error), out[i])


@jit(types.UniTuple(float64, 2)(ROW, float64, float64[::1]), inner=True)
def logarithm_of(x, largest, powers):
    """Return bounds of the logarithm of the sum of all powers, of which one of the largest is exactly 1."""
    write_powers(x, largest, powers)
    equal = 0
    for j in range(len(x)):
        same = x[j] == largest
        powers[j] = 0.0 if same else powers[j]
        equal += same
    total, error = sum_of(powers) + (equal - 1), error_of(len(x))
    if total < FINEST:
        return 0.0, 2 * FINEST
    logarithm = math.log1p(total)
    return logarithm * (1 - error), logarithm * (1 + error)


@jit(void(ROWS, float32[:, ::1], uint8[::1], float64[::1]))
def log_softmax(x, out, doubt, powers):
    """As `softmax`, for its logarithm."""
    for i in range(len(x)):
        largest = largest_of(x[i])
        doubt[i] = largest != largest
        if not doubt[i]:
            least, greatest = logarithm_of(x[i], largest, powers)
            unlike = False
            for j in range(x.shape[1]):
                d = np.float64(x[i, j]) - largest
                unlike |= bits(d - greatest) != bits(d - least)
                out[i, j] = np.float32(d - least)
            doubt[i] = unlike


@jit(void(ROWS, float32[:, ::1], uint8[::1], float64[::1]))
def logsumexp(x, out, doubt, powers):
    """As `softmax`, for the logarithm of the sum, one result a row."""
    for i in range(len(x)):
        largest = largest_of(x[i])
        doubt[i] = largest != largest
        if not doubt[i]:
            least, greatest = logarithm_of(x[i], largest, powers)
            out[i, 0] = np.float32(largest + least)
            doubt[i] = bits(largest + least) != bits(largest + greatest)
