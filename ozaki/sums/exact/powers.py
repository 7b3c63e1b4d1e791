"""Exact sums of products of three or four arrays, from words of products of two.

x·y is the sum of two float64 numbers wherever its last bits are within their range; so x·y·z is two products
of two numbers, and x·y·z·t four. The few arrays that leave the range have their sums in Python's integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import nan, prod
from typing import Any

import numpy as np

from multiword.formats import Format
from multiword.rounding import product_error
from multiword.runtime.arrays import Array, is_cupy, namespace, on_host, where_lies
from multiword.runtime.compiled import compiled
from multiword.runtime.readback import everywhere
from ozaki.sums.exact.enclosure import Enclosure
from ozaki.sums.exact.extraction import LOOPS
from ozaki.sums.exact.fixed_point import NAN, ORDINARY, FixedPoint
from ozaki.sums.exact.reduction import exact_sums
from ozaki.sums.exact.summands import Summands
from ozaki.tuning import INTEGER_RATIOS, OUTPUTS_ON_HOST, SHORT_POWERS

Factors = tuple[Array, ...]
Exact = Callable[[Any], float]
Enclosed = Callable[[list[Enclosure]], Enclosure]

_SMALLEST, _LARGEST = 2.0**-960, 2.0**990  # between which a product's error is a number


def product_sums(*factors: Array) -> FixedPoint:
    """Return the exact sums over the first axis of products of float64 arrays of one shape, (n, m).

    NaN where an Inf or a NaN is multiplied.

    >>> x = np.array([[1e100], [3.0], [-1e100]])
    >>> product_sums(x, x, x).round(), product_sums(x, x, x, x, x).round()
    (array([27.]), array([243.]))
    """
    if factors[0].shape[1] == 1:  # sums of vectors are quicker
        vectors = {id(x): x.reshape(-1) for x in factors}
        factors = tuple(vectors[id(x)] for x in factors)
    if len(factors) <= 2:
        return exact_sums([Summands(factors)], 1)
    left = product_words(*factors[:2]) if len(factors) <= 4 else None
    right: list[Array] | None = [factors[-1]]
    if len(factors) == 4:
        squares = factors[2] is factors[0] and factors[3] is factors[1]
        right = left if squares else product_words(*factors[2:])
    if left is None or right is None:
        return _integer_sums(factors)
    return exact_sums([Summands((a, b)) for a in left for b in right], 1)


def rounded_of_sums(
    terms: Sequence[Factors], target: Format, exact: Exact, enclosed: Enclosed | None = None
) -> np.ndarray:
    """Return what is made of the exact sums of several products, rounded, as float64; NaN for Inf and NaN.

    Outputs are computed some at a time, on the host.

    Parameters
    ----------
    terms : of each sum the factors, of one shape (n, m); n > 0.
    exact : exact(sums) rounds what integers, each with the exponent of its unit, make of one output.
    enclosed : enclosed(sums) encloses it, of many outputs; None where only integers are quick.
    """
    arrays = {id(x): x for factors in terms for x in factors}
    results = [np.empty(0)]
    for first in range(0, terms[0][0].shape[1], OUTPUTS_ON_HOST):
        some = {key: x[:, first : first + OUTPUTS_ON_HOST] for key, x in arrays.items()}
        part = [tuple(some[id(x)] for x in factors) for factors in terms]
        results.append(_some_rounded(part, target, exact, enclosed))
    return np.concatenate(results)


def _some_rounded(
    terms: Sequence[Factors], target: Format, exact: Exact, enclosed: Enclosed | None
) -> np.ndarray:
    """The same, of all outputs at once."""
    arrays = {id(x): x for factors in terms for x in factors}.values()
    (n, m), xp = terms[0][0].shape, namespace(terms[0][0])
    finite = on_host(reduce(xp.logical_and, [xp.isfinite(x).all(axis=0) for x in arrays]))
    values, certain, sums = np.full(m, nan), np.zeros(m, bool), None
    if enclosed is not None and m > INTEGER_RATIOS:
        with np.errstate(all="ignore"):
            if n <= SHORT_POWERS:
                enclosures = _enclosed_sums(terms)
            else:
                sums = [product_sums(*factors).on_host() for factors in terms]
                enclosures = [s.enclosure().normalized() for s in sums]
            values, certain = enclosed(enclosures).rounded(target)
            certain &= np.isfinite(values)
    hard = np.flatnonzero(finite & ~certain)
    if sums is None:
        some = {id(x): x[:, where_lies(x, hard)] for x in arrays} if len(hard) else {}
        kept = [[some[id(x)] for x in factors] for factors in terms] if some else []
        columns = [product_sums(*factors).on_host() for factors in kept]
    else:
        columns = [s.columns(hard) for s in sums]
    values[hard] = [exact(found) for found in zip(*[s.integers() for s in columns], strict=True)]
    return np.where(finite, values, nan)


def _enclosed_sums(terms: Sequence[Factors]) -> list[Enclosure]:
    """Enclosures of the sums over the first axis of products; what begins several is computed once."""
    numbers = {id(x): np.ascontiguousarray(on_host(x)) for f in terms for x in f}
    products: dict[tuple[int, ...], Enclosure] = {}
    for names in [tuple(map(id, factors)) for factors in terms]:
        for count in range(1, len(names) + 1):
            if (begun := names[:count]) not in products:
                x = numbers[names[count - 1]]
                products[begun] = products[begun[:-1]].times_numbers(x) if count > 1 else Enclosure.exactly(x)
    return [products[tuple(map(id, factors))].total().normalized() for factors in terms]


def product_words(x: Array, y: Array) -> list[Array] | None:
    """Return x·y as a sum of two arrays, exactly; None where a word is out of range."""
    if not is_cupy(x) and (loops := compiled(LOOPS)) is not None:
        turned = x.T.flags.c_contiguous
        a, b = (np.ascontiguousarray(z.T if turned else z) for z in (x, y))
        words = np.empty((2, *a.shape))
        if loops.loop(loops.products, a.dtype)(a.reshape(-1), b.reshape(-1), *words.reshape(2, -1)):
            return [w.T for w in words] if turned else list(words)
    with np.errstate(all="ignore"):
        product = x * y
        size = abs(product)
        within = (size >= _SMALLEST) & (size < _LARGEST) & (abs(x) < _LARGEST) & (abs(y) < _LARGEST)
        finite = namespace(x).isfinite(x) & namespace(x).isfinite(y)
        if not everywhere(within | (x == 0) | (y == 0) | ~finite):
            return None
        return [product, product_error(x, y, product)]


def _integer_sums(factors: tuple[Array, ...]) -> FixedPoint:
    """The same sums, in Python's integers."""
    hosts = [on_host(x).reshape(len(x), -1) for x in factors]
    finite = np.logical_and.reduce([np.isfinite(x).all(axis=0) for x in hosts])
    integers, units = zip(*map(_integers, hosts), strict=True)
    columns = zip(*[x.T.tolist() for x in integers], strict=True)
    values = [sum(map(prod, zip(*column, strict=True))) for column in columns]
    return FixedPoint.of([(v, sum(units)) for v in values], np.where(finite, ORDINARY, NAN))


def _integers(x: np.ndarray) -> tuple[np.ndarray, int]:
    """Python's integers, and the exponent of their unit; 0 for what is not finite."""
    significand, exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))
    unit = int(exponent.min(where=significand != 0, initial=1024)) - 53
    shift = np.where(significand == 0, 0, exponent - 53 - unit)
    return np.ldexp(significand, 53).astype(np.int64).astype(object) << shift.astype(object), unit
