"""Sums over windows that move along a row, compiled with numba: digits to which numbers are added, and taken.

A number is an integer of 53 bits in units of the row, three digits of 32 bits; its square has five. Digits
are not carried: what leaves a window takes exactly what it brought, so that they stay below 2**33 times the
numbers of a window. A sum is read from carried copies, its leading digits as high + low.

What `TEXTS` has is printed in CUDA, too (`windows_cuda.py`).
"""

from __future__ import annotations

import numpy as np

from multiword.runtime.compiled import BIAS, POWERS
from multiword.runtime.jit import inlined, pasted
from ozaki.sums.exact.enclosure_numba import divided_by, root_of, rounded, two_sum
from ozaki.sums.exact.extraction_numba import MAGNITUDE, bits_of, fma  # noqa: F401  which texts call

EQUALS = {
    "rolled": "sums.rounded_variance",
}
"""The function of `ozaki.definition` that each form, or the sum it is a step of, has the bits of."""

ALL, ORDINARY, ABOVE, BELOW = range(4)
"""What is counted in a window: numbers but NaN, finite ones but −0, Inf and −Inf."""

_MASK = (1 << 32) - 1
_FRACTION = (1 << 52) - 1
_MINUS_ZERO = ~MAGNITUDE
_LARGEST = 2.0**53  # divisors are float64 numbers below
_WIDER = 1 + 2.0**-20


@pasted
def _add(x, sign, unit, sums, squares):
    """Add a finite number to digits, and its square to others unless there are none."""
    pattern = bits_of(x)
    exponent = (pattern >> 52) & 2047
    m = (pattern & _FRACTION) | (1 << 52) if exponent else pattern & _FRACTION
    place = max(exponent, 1) - unit
    low, high = m & _MASK, m >> 32
    k, shift = np.uint64(place >> 5), place & 31  # unsigned ones need not be looked at for a sign
    above, more = (high << shift), low << shift
    signum = sign if pattern >= 0 else -sign
    sums[k] += signum * (more & _MASK)
    above += (more >> 32) & _MASK
    sums[k + np.uint64(1)] += signum * (above & _MASK)
    sums[k + np.uint64(2)] += signum * (above >> 32)
    if len(squares) == 0:
        return
    k, shift = np.uint64(2 * place >> 5), (2 * place) & 31
    square = np.uint64(low) * np.uint64(low)
    first = np.int64(square & np.uint64(_MASK))
    middle = np.int64(square >> np.uint64(32)) + 2 * low * high
    last = (middle >> 32) + high * high
    carry = 0
    for j in range(4):
        digit = first if j == 0 else middle & _MASK if j == 1 else last & _MASK if j == 2 else last >> 32
        shifted = (digit << shift) + carry
        squares[k] += sign * (shifted & _MASK)
        carry = shifted >> 32
        k += np.uint64(1)
    squares[k] += sign * carry


@pasted
def _carried(digits, room):
    """Write the magnitude of a number in digits that are not carried to room; return its sign."""
    more = 0
    for k in range(len(digits)):
        more = (digits[k] + more) >> 32
    sign, more = 1 | more >> 63, 0
    for k in range(len(digits)):
        value = sign * digits[k] + more
        room[k], more = value & _MASK, value >> 32
    return sign


@pasted
def _spread(count, squares, room, product):
    """Write count·Σx² − (Σx)² to `product`; room has the digits of the magnitude of Σx."""
    more = 0
    for k in range(len(squares)):
        value = squares[k] + more
        product[k], more = value & _MASK, value >> 32
    product[len(squares)], product[len(squares) + 1], more = more, 0, 0
    for k in range(len(squares) + 1):
        value = product[k] * count + more
        product[k], more = value & _MASK, value >> 32
    top = len(room)
    while top > 0 and room[top - 1] == 0:
        top -= 1
    for i in range(top):
        if room[i] == 0:
            continue
        more, k = 0, i
        while k - i < top or more != 0:
            value, above = product[k] + more, np.int64(0)
            if k - i < top:
                part = np.uint64(room[i]) * np.uint64(room[k - i])
                value, above = value - np.int64(part & np.uint64(_MASK)), np.int64(part >> np.uint64(32))
            product[k], more = value & _MASK, (value >> 32) - above
            k += 1


@pasted
def _leading(digits):
    """Carried digits as high + low with an error, in units of the first that is not 0, and which that is.

    Three parts have 53 bits each, the first with leading zeros, so that high + low has 106 bits.
    """
    top = len(digits) - 1
    while top > 0 and digits[top] == 0:
        top -= 1
    second = digits[top - 1] if top > 0 else 0
    third = digits[top - 2] if top > 1 else 0
    fourth = digits[top - 3] if top > 2 else 0
    fifth = digits[top - 4] if top > 3 else 0
    high = ((digits[top] << 21) | (second >> 11)) * 2.0**-21
    middle = (((second & 2047) << 42) | (third << 10) | (fourth >> 22)) * 2.0**-74
    last = (((fourth & 4194303) << 31) | (fifth >> 1)) * 2.0**-127
    more = fifth & 1
    for k in range(top - 4):
        more = more | digits[k]
    high, low = two_sum(high, middle)
    low, error = two_sum(low, last)
    return high, low, abs(error) + (2.0**-127 if more != 0 else 0.0), top


@pasted
def power_of_two(exponent):
    """2**exponent, a normal number."""
    return POWERS[exponent + BIAS]


@pasted
def _value(digits, exponent, divisor, root, single):
    """What carried digits in units of 2**exponent round to, divided, or their root; NaN if undecided."""
    high, low, error, top = _leading(digits)
    if high == 0:
        return 0.0
    if divisor != 1:
        high, low, error = divided_by(high, low, error, divisor)
        error = error / divisor * _WIDER
    exponent += 32 * top
    if root:
        high, low, error = root_of(high, low, error)
        exponent //= 2
    value = rounded(high, low, error, single)
    place = ((bits_of(value) >> 52) & 2047) - BIAS + exponent  # of its first bit
    within = -125 < place < 128 if single else -1021 < place < 1024
    return value * power_of_two(exponent) if within and -BIAS < exponent < BIAS else np.nan


@pasted
def _ordinary(digits, room, exponent, count, squares, divisor, spread, root, single):
    """The result of a window of finite numbers."""
    total, product = room[: len(digits)], room[len(digits) :]
    sign = _carried(digits, total)
    if not spread:
        return sign * _value(total, exponent, divisor, root, single)
    _spread(count, squares, total, product)
    return _value(product, 2 * exponent, divisor, root, single)


@pasted
def _move(v, sign, unit, counts, sums, squares):
    """Add a number to what is known of a window, or take it away."""
    if v != v:
        return
    counts[ALL] += sign
    if abs(v) == np.inf:
        counts[ABOVE if v > 0 else BELOW] += sign
        return
    if bits_of(v) != _MINUS_ZERO:
        counts[ORDINARY] += sign
    if v != 0:
        _add(v, sign, unit, sums, squares)


@pasted
def _result(length, min_count, exponent, divided, spread, root, ddof, single, counts, sums, squares, room):
    """The result of a window of so many numbers, and whether it is certain."""
    count, above, below = counts[ALL], counts[ABOVE], counts[BELOW]
    few = count < min_count or (count == 0 and divided) or (spread and count <= ddof)
    if few or (above > 0 and below > 0) or (spread and above + below > 0):
        return np.nan, True
    if above + below > 0:
        return np.inf if above > 0 else -np.inf, True
    if not spread and counts[ORDINARY] == 0:  # −0 alone, or nothing
        return -0.0 if count > 0 and (divided or count == length) else 0.0, True
    divisor = 1.0 if not divided else np.float64(count)
    if spread:
        divisor *= np.float64(count - ddof)
    value = _ordinary(sums, room, exponent, count, squares, divisor, spread, root, single)
    return value, value == value and divisor < _LARGEST


@pasted
def enter(x, first, end, unit, counts, sums, squares):
    """Add the numbers of a row from `first` to `end` to what is known of a window."""
    for i in range(first, end):
        _move(x[i], 1, unit, counts, sums, squares)


@pasted
def roll(
    x, start, stop, first, end, window, ahead, min_count, unit, divided, spread, root, ddof, single, counts,
    sums, squares, room, result, certain,
):  # fmt: skip
    """Write the results of elements of a row from `start` to `stop`, and which of them are not certain.

    Return whether some are not.

    first, end : the numbers between them have been added to counts, sums and squares.
    """
    n, undecided = len(x), False
    for i in range(start, stop):
        while (end < n and end <= i + ahead) or (first < end and first <= i + ahead - window):
            entering = end < n and end <= i + ahead
            _move(x[end] if entering else x[first], 1 if entering else -1, unit, counts, sums, squares)
            if entering:
                end += 1
            else:
                first += 1
        result[i], known = _result(
            end - first, min_count, unit - 1075, divided, spread, root, ddof, single, counts, sums, squares,
            room,
        )  # fmt: skip
        if not known:
            certain[i], undecided = False, True
    return undecided


TEXTS = (
    *(two_sum, divided_by, root_of, rounded),
    *(_add, _carried, _spread, _leading, _value, _ordinary, _move, _result, enter, roll),
)
"""What is printed in CUDA: `enter` and `roll`, and what they call."""


@inlined
def _end_of_run(certain, start, window):
    """Return where windows end that are not certain, or closer to the next of these than a window is long."""
    stop = start + 1
    for i in range(stop, len(certain)):
        if i - stop > window:
            break
        stop = stop if certain[i] else i + 1
    return stop


def rolled(
    x,
    window,
    ahead,
    min_count,
    unit,
    divided,
    spread,
    root,
    ddof,
    single,
    counts,
    sums,
    squares,
    room,
    result,
    certain,
):
    """Write sums, means, variances or deviations of windows that are not certain, and which still are not.

    window, ahead : the window of element i are so many numbers up to i + ahead. NaN are left out.
    min_count : of how many numbers there is a result; NaN of fewer.
    unit : of digits, a biased exponent.
    divided, spread, root, ddof : whether sums are divided by counts, are variances, or their roots.
    counts, sums, squares, room : scratch; squares are empty unless spread.
    """
    for row in range(len(x)):
        start = 0
        while start < x.shape[1]:
            if certain[row, start]:
                start += 1
                continue
            stop = _end_of_run(certain[row], start, window)
            counts[:], sums[:], squares[:], certain[row, start:stop] = 0, 0, 0, True
            first = max(0, start + ahead + 1 - window)
            roll(
                x[row], start, stop, first, first, window, ahead, min_count, unit, divided, spread, root,
                ddof, single, counts, sums, squares, room, result[row], certain[row],
            )  # fmt: skip
            start = stop
