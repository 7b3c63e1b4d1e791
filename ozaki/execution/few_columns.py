"""Executor "few_columns": long rows with few columns on a CPU, or few rows with long columns, row by row.

They take the integers of all other products, and so have the same bits. Those with an Inf or NaN, with
numbers of extreme size, or that are not decided in two floats, are left to the steps of all others.
"""

from __future__ import annotations

import math

import numpy as np

from multiword.runtime.compiled import compiled
from multiword.runtime.memory import padded
from multiword.runtime.parallel import as_rows, compiled_block, over_rows, scratch
from multiword.tuning import ALONE_ELEMENTS
from ozaki.definition.decision import EVERYTHING
from ozaki.execution.contract import DONE, EXTREME, UNLEVEL, UNROUNDED, Declined, Executor, Outcome
from ozaki.execution.in_floats import (
    FURTHEST,
    bits_in_floats,
    declines_floats,
    no_floats,
    scaled_columns,
    takes_bits,
    written_to,
)
from ozaki.product import steps
from ozaki.product.factor import Factor, by_columns
from ozaki.product.pair import Pair, Signature
from ozaki.product.scale import counted_bits
from ozaki.scaling.statistics import ZERO
from ozaki.tuning import LEAST_BY_COLUMNS, LONGEST_SHORT_ROW

FORM = "ozaki.execution.few_columns_numba"

LANES = 32
"""Sums that a row is added up into, before these are added to one another."""


class FewColumns(Executor):
    """Each long row added up in lanes, in two floats."""

    name = "few_columns"
    about = "long rows with up to four columns, in two floats (CPU)"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        return no_floats(signature)

    @property
    def cost(self) -> float:
        m, k, n = self.signature.shape
        least = LEAST_BY_COLUMNS.get(min(m, n), math.inf)
        return 0.0 if k > LONGEST_SHORT_ROW and max(m, n) * k >= least else math.inf

    def declines(self, pair: Pair) -> str | None:
        return declines_floats(pair)

    def run(self, pair: Pair, out: np.ndarray) -> Outcome:
        pair, form = _with_contiguous_rows(pair), compiled(FORM)
        a, b = pair.a, pair.b
        if not (_is_moderate(a) and _is_moderate(b)):
            return Declined(pair, EXTREME)
        bits = bits_in_floats(pair, lambda: counted_bits(pair))
        if not takes_bits(bits):
            return Declined(pair._replace(bits=bits), UNLEVEL)
        whole = bits != EVERYTHING
        wider = bits if whole else 0
        scales = steps.both_norm_scales(pair, wider)
        turned, dtype = a.rows < b.rows, a.matrix.dtype
        (long, columns), (scale, column_scale) = (
            (y[::-1] if turned else y) for y in ((a.parts[0], b.parts[0]), scales)
        )
        numbers = scaled_columns(columns, column_scale, whole, padded(a.k, LANES))
        if numbers is None:
            return Declined(pair, EXTREME)
        _, log2_product = steps.norm_widths(steps.row_limit(pair), a.length, wider)
        bound = bound_of_lost(numbers.shape[1], log2_product)
        target, undecided = out.T if turned else out, list[int]()

        def work(block: slice) -> None:
            given = as_rows([long], block), scale[block], whole, numbers, column_scale, bound
            memory = scratch((numbers.shape[1],)), np.empty((3, LANES))
            single = dtype == np.float32
            undecided.append(written_to(target[block], lambda y: form.multiply(*given, single, y, *memory)))

        elements = a.k * (1 + len(columns))
        over_rows(work, len(long), elements, compiled_block(len(long) * elements), ALONE_ELEMENTS)
        return Declined(pair._replace(bits=bits), UNROUNDED) if any(undecided) else DONE


def _with_contiguous_rows(pair: Pair) -> Pair:
    """Return the pair with a copy of the matrix of the long rows where these lie across memory.

    Otherwise its statistics, its scales and the products would fetch each row from memory anew.
    """
    if pair.a.rows < pair.b.rows:
        copied = by_columns(pair.b.matrix, pair.request.workspace)
        return pair if copied is pair.b.matrix else pair._replace(b=Factor(copied, 1))
    turned = pair.a.matrix.T
    copied = by_columns(turned, pair.request.workspace)
    return pair if copied is turned else pair._replace(a=Factor(copied.T, 0))


def _is_moderate(x: Factor) -> bool:
    """Return whether no row is of extreme size, or has an Inf or NaN."""
    exponent = x.statistics.exponent
    return bool(((abs(exponent) <= FURTHEST) | (exponent == ZERO)).all())


def bound_of_lost(length: int, log2_product: float) -> float:
    """Return a bound of what the low floats of `add_quickly` lose, from log2 of a bound of Σ|a'b'|.

    Let h = length/LANES, P the bound, and u = 2**-53. The highs are below 1.01·P, so what they lose in h
    steps of every lane, and in 5 that fold the lanes, and the errors of the products are together at most
    V = 1.02·(h + 6)·u·P. A lane adds its share of V to its low float by 2h roundings, and folding the lanes
    takes 10 more, each of which loses at most 1.01·u times the sum: 2.1·(h + 6)²·u²·P in all.
    """
    return 4.0 * (length / LANES + 6) ** 2 * 2.0 ** (log2_product - 106)
