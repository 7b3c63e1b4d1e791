"""Executor "floats": products on a CPU whose sums are added up in two floats.

They take the integers of all other products, and so have the same bits: integers of norm scales are float64
numbers, at most 53 bits and a power of two. Those with an Inf or NaN, with numbers of extreme size, or with a
sum that two floats do not decide, are left to others.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.runtime.arrays import put_one_nan
from multiword.runtime.cached import cached_property
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import compiled_block, over_rows, scratch
from multiword.tuning import ALONE_ELEMENTS
from ozaki.definition.decision import EVERYTHING, WIDENED_IN_ALL
from ozaki.execution.contract import (
    DONE,
    EXTREME,
    NO_ROOM,
    UNLEVEL,
    UNROUNDED,
    Declined,
    Executor,
    Outcome,
    beyond,
    goes_together,
    is_extreme,
    no_compiled_code,
)
from ozaki.execution.short_rows import ShortRows, as_doubles, as_real
from ozaki.execution.small_products import SmallProducts, put_pairs
from ozaki.execution.thin import ThinProducts, start_of
from ozaki.product import steps
from ozaki.product.pair import Pair, Signature
from ozaki.product.request import TARGETS
from ozaki.product.scale import bits_of_level_factors, counted_bits
from ozaki.rounding.conversion import to_half
from ozaki.tuning import (
    FEW_RESULTS,
    FEWEST_NUMBERS,
    FEWEST_RESULTS,
    FEWEST_ROWS,
    FLOATS,
    LARGEST_IN_FLOATS,
    LEAST_ROW_BY_ROW,
    LEAST_THIN,
    LONGEST_IN_FLOATS,
    LONGEST_SHORT_ROW,
    MOST_THIN_COLUMNS,
)

ACROSS = "ozaki.execution.across_numba"

ROWS, TERMS = 64, 64
"""Rows side by side, a sum in each lane, and the numbers of them that are loaded at a time."""

WIDEST = 100
"""Bits of integers of a requested width, at most: with exponents as far apart, scales are normal numbers."""

SMALLEST = 2.0**-300
"""Scaled numbers that are not rounded to integers are at least this: products are exact then."""

LEAST, LEAST_SINGLE = 2.0**-1000, 2.0**-126
"""Results are at least these: no subnormal numbers of float64 or float32, which would be rounded twice."""


class Floats(Executor):
    """Products of one signature in two floats."""

    name = "floats"
    about = "small products and stacks, few columns, few rows, many short rows: sums in two floats (CPU)"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        if (why := no_compiled_code(signature)) is not None:
            return why
        (m, k, n), parts, request = signature.shape, signature.parts, signature.request
        if not (request.of_norms or request.accuracy == "exact") and int(request.accuracy) > WIDEST:
            return "the integers are too wide"
        if not _is_by_rows(signature) and 16 * parts**2 * (k + 8) * (m + n + 8) > request.workspace:
            return NO_ROOM
        too_large = signature.prepared and parts**2 * m * k * n > LARGEST_IN_FLOATS
        return "the words of prepared operands are used again" if too_large else None

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        self._by_rows = _is_by_rows(signature)
        self._side_by_side = self._by_rows and _is_short(signature)
        self._of_numbers = _is_of_numbers(signature)
        # Compiled code takes and leaves float64 numbers: only single precision is converted by NumPy.
        self.silent = signature.dtype.char in "dD" and not (self._side_by_side or self._of_numbers)

    @cached_property
    def _small(self) -> SmallProducts:
        return SmallProducts(self.signature)

    @cached_property
    def _thin(self) -> ThinProducts:
        return ThinProducts(self.signature)

    @property
    def cost(self) -> float:
        (m, k, n), parts = self.signature.shape, self.signature.parts
        if self._of_numbers or (self._by_rows and _pays_by_rows(self.signature)):
            return 0.0
        k, n = parts * k, parts * n
        short = k <= LONGEST_IN_FLOATS or m * n <= FEW_RESULTS
        small = short and m * k * n <= LARGEST_IN_FLOATS and goes_together(self.signature)
        return FLOATS[0] + FLOATS[1] * m * k * n + FLOATS[2] * m * n if small else math.inf

    def declines(self, pair: Pair) -> str | None:
        if self._of_numbers:
            return None
        if (why := beyond(pair, WIDENED_IN_ALL)) is not None and pair.bits != EVERYTHING:
            return why
        return EXTREME if is_extreme(pair) else None

    def run(self, pair: Pair, out: np.ndarray) -> Outcome:
        if self._of_numbers:
            return _multiply_numbers(pair.a.matrix, pair.b.matrix, out)
        if not self._by_rows:
            return self._small.multiply(pair, out)
        return self._run_short(pair, out) if self._side_by_side else self._thin.multiply(pair, out)

    def _run_short(self, pair: Pair, out: np.ndarray) -> Outcome:
        data = ShortRows(pair)
        if not data.moderate:
            return Declined(pair, EXTREME)
        bits = _bits(pair, data)
        if not (0 <= bits <= WIDENED_IN_ALL or bits == EVERYTHING):
            return Declined(pair._replace(bits=bits), UNLEVEL)
        whole = bits != EVERYTHING
        scales = data.scales(bits if whole else 0)
        turned, k, dtype = pair.a.rows < pair.b.rows, pair.length, pair.a.matrix.dtype
        (rows, columns), (scale, column_scale) = (
            (y[::-1] if turned else y) for y in ((pair.a.matrix, pair.b.matrix.T), scales)
        )
        rows, columns, parts = as_real(rows), _real_columns(columns), pair.signature.parts
        form, column_scale = compiled(ACROSS), np.repeat(column_scale, parts)
        _, log2_product = steps.norm_widths(steps.row_limit(pair), k, bits if whole else 0)
        numbers = _scaled(columns, column_scale, whole, form.padded(k))
        if numbers is None:
            return Declined(pair, EXTREME)
        target, undecided = out.T if turned else out, list[int]()
        of_target, start = pair.request.target_of(dtype), start_of(log2_product)

        def work(groups: slice) -> None:
            block = slice(ROWS * groups.start, ROWS * groups.stop)
            x = as_doubles(rows[block])
            memory = np.empty(form.needed(k, len(x), len(columns)))
            y = target[block] if dtype == np.float64 else scratch((len(x), len(columns)))
            given = x, scale[block], whole, numbers, column_scale, start, of_target.precision == 24
            undecided.append(form.multiply(*given, y, memory))
            if dtype != np.float64:
                with np.errstate(over="ignore"):  # of another thread
                    target[block] = y.view(np.complex128) if parts == 2 else to_half(y, of_target)

        count, elements = -(-len(target) // ROWS), ROWS * k * (1 + len(columns))
        over_rows(work, count, elements, compiled_block(count * elements), ALONE_ELEMENTS)
        return Declined(pair._replace(bits=bits), UNROUNDED) if any(undecided) else DONE


def takes_no_widening(pair: Pair) -> bool:
    """Return whether counts prove that integers of norm scales are wide enough."""
    if not _is_short(pair.signature):
        return counted_bits(pair) == 0
    data = ShortRows(pair)
    return data.moderate and data.counted_bits() == 0


def _is_of_numbers(signature: Signature) -> bool:
    """Return whether rows are single numbers, and integers as wide as these: nothing is lost of them."""
    request, dtype, (m, k, n) = signature.request, signature.dtype, signature.shape
    if k > 1 or signature.parts > 1 or request.target is not None:
        return False
    if signature.stack * m * n < FEWEST_NUMBERS:
        return False
    of_norms = request.of_norms and request.norm_format(dtype).precision >= TARGETS[dtype].precision
    return of_norms or request.accuracy == "exact"


def _multiply_numbers(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Outcome:
    """Write the products of single numbers, each rounded once."""
    np.multiply(a, b, out=out)
    put_one_nan(out)
    if not (a.all() and b.all()):  # a product with 0 is +0; what underflows keeps its sign
        np.add(out, 0, out=out, where=(a == 0) | (b == 0))
    return DONE


def _is_short(signature: Signature) -> bool:
    """Return whether rows are so short that they are measured side by side."""
    return signature.parts * signature.shape[1] <= LONGEST_SHORT_ROW


def _is_by_rows(signature: Signature) -> bool:
    """Return whether rows are multiplied where they lie; else all of them are copied first."""
    (m, k, n), request = signature.shape, signature.request
    if signature.stack > 1 or not (request.of_norms or request.accuracy == "exact"):
        return False
    return _pays_by_rows(signature) or signature.parts**2 * m * k * n > LARGEST_IN_FLOATS


def _pays_by_rows(signature: Signature) -> bool:
    """Return whether there are many short rows, or few columns, or the same of columns and rows."""
    (m, k, n), parts = signature.shape, signature.parts
    many, few, k = max(m, n), parts * min(m, n), parts * k
    if k <= LONGEST_SHORT_ROW:
        if parts > 1 and many * k * few <= LARGEST_IN_FLOATS:
            return False  # all of them in one call take less than statistics of their own
        return (many >= FEWEST_ROWS and many * k >= LEAST_ROW_BY_ROW) or many * few >= FEWEST_RESULTS
    return few <= MOST_THIN_COLUMNS[signature.dtype.char in "fF"] and parts**2 * many * k >= LEAST_THIN * few


def _bits(pair: Pair, data: ShortRows) -> int:
    """Return the bits by which norm scales grow; `EVERYTHING` where numbers are not rounded to integers.

    -1 if there is an Inf or NaN, or the inner dimension may be graded.
    """
    if pair.request.accuracy == "exact":
        return EVERYTHING
    if not pair.request.certified:
        return 0
    bits = data.counted_bits()
    if bits >= 0:
        return bits
    return bits_of_level_factors(pair, data if len(pair.a.parts) == 1 else None)


def _real_columns(columns: np.ndarray) -> np.ndarray:
    """Return the columns of a real product with rows that are `as_real`; complex ones as pairs."""
    if columns.dtype.kind != "c":
        return columns
    n, k = columns.shape
    pairs = np.empty((n, 2, k, 2), columns.real.dtype)
    put_pairs(columns, pairs)
    return pairs.reshape(2 * n, 2 * k)


def _scaled(columns: np.ndarray, scale: np.ndarray, whole: bool, length: int) -> np.ndarray | None:
    """Return (n, k) columns in their scales, rounded to integers if `whole`, with zeros up to a length.

    None if some are too small not to be rounded.
    """
    scaled = np.zeros((len(columns), length))
    inner = scaled[:, : columns.shape[1]]
    np.ldexp(columns, scale[:, None], out=inner, dtype=np.float64)
    if whole:
        np.rint(inner, out=inner)
    elif (np.abs(inner[columns != 0]) < SMALLEST).any():
        return None
    return scaled
