"""One decision for all blocks of a product: how many bits "fp64" and "fp32" take.

Dask's graph is made before the data are seen, so it has tasks for all questions of
`ozaki.certificate.decision`. Each of them replays the decision from the answers before it, a tuple, and where
that asks for something else, or is at its end, returns what there is of no rows.

    counts       the counting bound, from the statistics of all rows, in one task
    equilibrate  the largest exponents of each column of A and row of B, maxima over blocks; from these the
                 shifts of A·D and D⁻¹·B, and, where all blocks are shifted exactly, their counting bound
    pairs        products of magnitudes of blocks, added over the inner dimension; the pairwise bound of each
                 block of rows and block of columns, and its maximum
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, on_host, quietly
from ozaki.certificate.decision import Ask, Certificate, replayed
from ozaki.certificate.pairwise import NO_MAGNITUDES, PairwiseBound, PartialMagnitudes
from ozaki.dask.arguments import SplitEvery
from ozaki.dask.statistics import Side, factor_statistics
from ozaki.dask.tasks import flat, merge_tree, merged, objects, task
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.partial import FactorStatistics, partial_magnitudes
from ozaki.product.request import Request
from ozaki.product.scale import Data
from ozaki.scaling.equilibration import column_exponents, column_shifts, is_graded, largest_sums
from ozaki.scaling.scales import norm_limit, norm_scales

Answers = tuple[Any, ...]
"""What a decision has been answered so far."""

MakeRequest = Callable[[Array], Request]
"""The request of a task on such arrays: a worker's own engine and workspace."""


def certify(
    a: da.Array,
    b: da.Array,
    sides: tuple[Side, Side],
    request: MakeRequest,
    split_every: SplitEvery,
) -> tuple[Any, ...]:
    """Return what tasks that multiply get beside their blocks of A and B: Dask arrays and their indices.

    The statistics of A and B, or of A·D and D⁻¹·B, the answers, and the shifts of each block of the inner
    dimension: the arguments of `factors`.
    """
    of_a, of_b = (factor_statistics(x, side) for x, side in zip((a, b), sides, strict=True))
    target = request(a._meta).limits
    count = partial(_count, request=request)
    answers = objects(count, "", of_a, "i", of_b, "j", token="ozaki-counting-bound")

    shifts = _shifts(a, b, sides, (of_a, of_b, answers), target)
    equilibrated = factor_statistics(a, sides[0], of_a, shifts), factor_statistics(b, sides[1], of_b, shifts)
    again = partial(_count_again, request=request, target=target)
    pairs = (equilibrated[0], "i", equilibrated[1], "j", answers, "")
    answers = objects(again, "", *pairs, token="ozaki-equilibration")
    of_a = objects(_chosen, "i", of_a, "i", equilibrated[0], "i", answers, "", token="ozaki-statistics-a")
    of_b = objects(_chosen, "j", of_b, "j", equilibrated[1], "j", answers, "", token="ozaki-statistics-b")

    blocks = of_a, "i", of_b, "j", answers, "", shifts, "h"
    bound = _pairwise(
        a, b, blocks, partial(_magnitudes, sides=sides, request=request, target=target), split_every
    )
    compare = partial(_compare, target=target)
    answers = objects(compare, "", answers, "", bound, "ij", token="ozaki-decision")
    return of_a, "i", of_b, "j", answers, "", shifts, "h"


def certificate(answers: Answers, target: Format) -> Certificate:
    """The certificate of a decision that has all its answers."""
    result = replayed(target, answers)
    assert isinstance(result, Certificate)
    return result


def factors(
    x: Array,
    y: Array,
    of_a: FactorStatistics,
    of_b: FactorStatistics,
    answers: Answers = (),
    shifts: np.ndarray | None = None,
    *,
    sides: tuple[Side, Side],
) -> tuple[Factor, Factor]:
    """Blocks of A and B, or of A·D and D⁻¹·B, as factors."""
    if shifts is None or not _is_equilibrated(answers):
        return sides[0].block(x), sides[1].block(y)
    return sides[0].shifted(x, of_a, shifts)[0], sides[1].shifted(y, of_b, shifts)[0]


def _is_equilibrated(answers: Answers) -> bool:
    return len(answers) > 1 and answers[1]


# counts -----------------------------------------------------------------------------------------------


def _count(of_a: list[FactorStatistics], of_b: list[FactorStatistics], *, request: MakeRequest) -> Answers:
    """The answers to the first question."""
    rows, columns = FactorStatistics.concatenate(of_a), FactorStatistics.concatenate(of_b)
    like = rows.exact_scales
    with quietly(like):
        return (Data(Pair(rows.factor(0), columns.factor(1), request(like))).answer(Ask.COUNTS),)


# equilibrate ------------------------------------------------------------------------------------------


def _shifts(
    a: da.Array, b: da.Array, sides: tuple[Side, Side], counted: tuple[da.Array, ...], target: Format
) -> da.Array:
    """The (1, k) shifts of each block of the inner dimension; (0, k) if it is not to be equilibrated."""
    of_a, of_b, answers = counted
    called, token = "ozaki.dask.matmul, equilibration", "ozaki-inner-exponents"
    of_columns, of_rows = (task(called, _exponents, side=side, target=target) for side in sides)
    p = objects(of_columns, "ih", a, "ih", of_a, "i", answers, "", token=token)
    q = objects(of_rows, "hj", b, "hj", of_b, "j", answers, "", token=token)
    graded = partial(_graded, target=target)
    largest = objects(graded, "", p, "ih", q, "hj", answers, "", token="ozaki-largest-sum")
    return objects(_block_shifts, "h", p, "ih", q, "hj", largest, "", token="ozaki-shifts")


def _exponents(
    x: Array, statistics: FactorStatistics, answers: Answers, *, side: Side, target: Format
) -> np.ndarray:
    """The (1, k) largest exponents of the columns of a block of A, or rows of one of B; (0, k) unasked."""
    if replayed(target, answers) is not Ask.EQUILIBRATE:
        return np.empty((0, x.shape[1 - side.side]), np.int32)
    with quietly(x):
        scales = norm_scales(statistics.rows, norm_limit(target, statistics.rows.length))
        exponents = column_exponents(side.block(x).parts, scales)
        return on_host(exponents)


def _graded(
    p: list[list[np.ndarray]], q: list[list[np.ndarray]], answers: Answers, *, target: Format
) -> np.ndarray:
    """The (1,) largest sum of exponents of a graded inner dimension; (0,) of another."""
    of_columns = [np.maximum.reduce(blocks) for blocks in zip(*p, strict=True)]
    of_rows = [np.maximum.reduce(blocks) for blocks in q]
    largest = np.maximum.reduce([largest_sums(*pair) for pair in zip(of_columns, of_rows, strict=True)])
    length = answers[0].length
    return largest[is_graded(largest, length, norm_limit(target, length))]


def _block_shifts(p: list[np.ndarray], q: list[np.ndarray], largest: np.ndarray) -> np.ndarray:
    """The shifts of a block of the inner dimension."""
    count = len(largest)
    return column_shifts(np.maximum.reduce(p)[:count], np.maximum.reduce(q)[:count], largest)


def _count_again(
    of_a: list[FactorStatistics],
    of_b: list[FactorStatistics],
    answers: Answers,
    *,
    request: MakeRequest,
    target: Format,
) -> Answers:
    """The answers as they are, or with those about equilibration, which has to be exact in all blocks."""
    if replayed(target, answers) is not Ask.EQUILIBRATE:
        return answers
    if not (len(of_a[0].exact_scales) and all(part.lossless for part in (*of_a, *of_b))):
        return *answers, False
    return *answers, True, *_count(of_a, of_b, request=request)


def _chosen(
    statistics: FactorStatistics, equilibrated: FactorStatistics, answers: Answers
) -> FactorStatistics:
    """The statistics of what is multiplied."""
    return equilibrated if _is_equilibrated(answers) else statistics


# pairs ------------------------------------------------------------------------------------------------


def _pairwise(
    a: da.Array, b: da.Array, blocks: tuple[Any, ...], multiply: Callable[..., Any], split_every: SplitEvery
) -> da.Array:
    """The `PairwiseBound` of each block of rows and block of columns."""
    called, token = "ozaki.dask.matmul, certificate", "ozaki-pairwise-bound"
    if a.numblocks[1] == 1:
        compare = task(called, _bound_of_unsplit, multiply=multiply)
        bound = objects(compare, "ij", a, "ih", b, "hj", *blocks, token=token)
    else:
        products = objects(task(called, multiply), "ihj", a, "ih", b, "hj", *blocks, token="ozaki-magnitudes")
        add, compare = partial(merged, merge=PartialMagnitudes.add), task(called, _bound)
        bound = merge_tree(products, 1, compare, add, token, split_every)
    return bound


def _magnitudes(
    x: Array,
    y: Array,
    of_a: FactorStatistics,
    of_b: FactorStatistics,
    answers: Answers,
    shifts: np.ndarray,
    *,
    sides: tuple[Side, Side],
    request: MakeRequest,
    target: Format,
) -> PartialMagnitudes:
    """The products of magnitudes of two blocks."""
    if replayed(target, answers) is not Ask.PAIRS:
        return NO_MAGNITUDES
    with quietly(x):
        given = request(x)
        whole = Pair(of_a.factor(0), of_b.factor(1), given)
        pair = Pair(*factors(x, y, of_a, of_b, answers, shifts, sides=sides), given)
        return partial_magnitudes(whole, pair)


def _bound(parts: Any, **_: Any) -> PairwiseBound:
    """The pairwise bound of a block of rows and one of columns."""
    total = merged(parts, merge=PartialMagnitudes.add)
    with quietly(total.products):
        return total.bound()


def _bound_of_unsplit(
    xs: list[Array], ys: list[Array], of_a: Any, of_b: Any, answers: Answers, shifts: Any, *, multiply: Any
) -> PairwiseBound:
    """The pairwise bound of two blocks with all of the inner dimension."""
    return _bound(multiply(xs[0], ys[0], of_a, of_b, answers, shifts[0]))


def _compare(answers: Answers, bounds: list[list[PairwiseBound]], *, target: Format) -> Answers:
    """The answers as they are, or with the pairwise bound, the largest of those of all blocks."""
    if replayed(target, answers) is not Ask.PAIRS:
        return answers
    errors, ratios = zip(*flat(bounds), strict=True)
    return *answers, (max(errors), max(ratios))
