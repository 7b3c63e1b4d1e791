"""Refinement with exact residuals: x as an unevaluated sum, until the proved bound decides its rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple, Self

import numpy as np

from multiword.runtime.arrays import Array, backwards, import_cupy, is_cupy, namespace, on_host, real_parts
from multiword.runtime.readback import anywhere
from ozaki.linalg.products import words_of_product
from ozaki.linalg.verified.tools.preconditioner import Correction
from ozaki.linalg.verified.tools.scaling import units
from ozaki.linalg.verified.tools.upward import ETA, compiled_for
from ozaki.linalg.verified.tools.words import renormalized

DECIDED = 2.0**-66
"""Relative error below which the rounding of a component is decided, but for one in some thousands."""

FLOOR = 2.0**-120
"""Components below this, relative to their column's largest, get an absolute error alone."""

MOST_STEPS, MOST_STALLS = 80, 6


class Problem(NamedTuple):
    """What refinement asks of a problem whose solution x* has the least b - Ax*.

    residual : residual(words of x, b, count) returns so many words of b - AΣx, or fewer where they are it.
    unit : returns an exponent e such that all numbers of A are multiples of 2**e.
    most_words : of x. residual_words : those of the residual that `correction` takes.
    correction : returns d, for which x + d is nearer to x*, and a function that bounds |x* - x|.
    """

    residual: Callable[[Sequence[Array], Array, int], Sequence[Array]]
    unit: Callable[[], int]
    most_words: int
    residual_words: int
    correction: Callable[[Sequence[Array]], Correction]

    @classmethod
    def of_matrix(
        cls, a: Array, words: int, residual_words: int, correction: Callable[[Sequence[Array]], Correction]
    ) -> Self:
        """Return the problem of a dense matrix."""

        def residual(xs: Sequence[Array], b: Array, count: int) -> Sequence[Array]:
            return words_of_product([a], [-x for x in xs], [b], count)

        return cls(residual, cache(lambda: int(units(a).min())), words, residual_words, correction)


class Refined(NamedTuple):
    """Words of x, a bound of |x* - Σ words|, and how many steps it took."""

    words: list[Array]
    error: Array
    steps: int


def refine(problem: Problem, b: Array) -> Refined:
    """Return words of the solution for the columns of B, and their error.

        r = b - A·Σx      exactly, rounded to as many words as the correction has use for
        d                 of r, and |x* - Σx| <= a bound
        x = x + d         error-free, in k words

    k grows where no column's error halves any more (Rump; Oishi, Ogita and Rump, Iterative refinement for
    ill-conditioned linear systems). A column that is decided takes no further steps: its bound is of its own
    residual alone. Steps do not decide zeros, which are tried once nothing else is left.
    """
    words, stalls, tried = 2, 0, False
    left, right = np.arange(b.shape[1]), b  # the columns that are not decided
    xs: list[Array] = []
    residual: Sequence[Array] = [b]
    smallest = np.full(b.shape[1], np.inf)  # relative error of each column so far
    for step in range(MOST_STEPS):
        d, bound = problem.correction(residual)
        if not step:
            best = Refined([namespace(b).zeros(d.shape, d.dtype)], namespace(b).full(d.shape, np.inf), 0)
        elif step > 1 or np.count_nonzero(relative_errors(abs(d), xs[0]) <= DECIDED):  # no bound is below |d|
            error = _exact_columns_aside(problem, xs, right, residual[0], bound())
            relative = relative_errors(error, xs[0])
            if not tried and _zeros_alone_are_left(error, xs[0], relative):
                tried, (xs, error, _) = True, _with_zeros(problem, right, Refined(xs, error, step))
                relative = relative_errors(error, xs[0])
            before, decided = smallest[left], relative <= DECIDED
            count = np.count_nonzero(decided)
            stalls = 0 if np.count_nonzero(relative < 0.5 * before) else stalls + 1
            best = _with_columns(best, left, Refined(xs, error, step), relative < before)
            smallest[left] = np.fmin(before, relative)
            if count == len(decided) or (stalls and words >= problem.most_words) or stalls > MOST_STALLS:
                break
            words += stalls > 0
            if count:
                left, (right, d, *xs) = left[~decided], _columns([right, d, *xs], ~decided)
        xs = renormalized([*xs, d], words)
        residual = problem.residual(xs, right, problem.residual_words)
    return _with_zeros(problem, b, best)


def _with_columns(best: Refined, left: np.ndarray, refined: Refined, chosen: np.ndarray) -> Refined:
    """The best so far, written over with the chosen ones of the columns that were left."""
    words, error, _ = best
    if (count := np.count_nonzero(chosen)) in (0, error.shape[1]):
        return refined if count else best
    words = [*words, *(namespace(error).zeros_like(words[0]) for _ in refined.words[len(words) :])]
    columns = namespace(error).asarray(left[chosen])
    parts = _columns([*refined.words, refined.error], chosen)
    for whole, part in zip([*words, error], parts, strict=True):
        whole[:, columns] = part
    return Refined(words, error, refined.steps)


def _columns(arrays: list[Array], chosen: np.ndarray) -> list[Array]:
    """The chosen columns of matrices."""
    columns = namespace(arrays[0]).asarray(np.flatnonzero(chosen))
    return [x[:, columns] for x in arrays]


def _with_zeros(problem: Problem, b: Array, refined: Refined) -> Refined:
    """The same; exact in the columns with components that may be 0, where dropping the noise solves them."""
    words, error, steps = refined
    xp = namespace(error)
    if not _may_vanish(error, words[0]):
        return refined
    xs = [xp.where(abs(word) <= error, 0.0, word) for word in words]
    (residual,) = problem.residual([x for x in xs if anywhere(x)] or xs[:1], b, 1)
    exact = _exact_columns_aside(problem, xs, b, residual, error) < error
    chosen = [xp.where(exact, x, word) for x, word in zip(xs, words, strict=True)]
    return Refined(chosen, xp.where(exact, 0.0, error), steps)


def _may_vanish(error: Array, x: Array) -> bool:
    """Whether a component within its error of x may be 0, and is not known to be."""
    if (loops := compiled_for(error, x)) is not None:
        return bool(loops.may_vanish(error, x))
    return anywhere((error > 0) & (abs(x) <= error))


def _zeros_alone_are_left(error: Array, x: Array, relative: np.ndarray) -> bool:
    """Whether all is decided but components that may be 0, of which there are some."""
    if (relative <= DECIDED).all() or not _may_vanish(error, x):
        return False
    others = namespace(x).where(abs(x) <= error, 0.0, error)
    return bool((relative_errors(others, x) <= DECIDED).all())


def relative_errors(error: Array, x: Array) -> np.ndarray:
    """Return by column the largest error relative to a component, if complex its smaller part, or a floor."""
    if (loops := compiled_for(error, x)) is not None:
        scratch, largest = np.empty((2, x.shape[1]))
        loops.relative_errors(error, x, scratch, largest)
        return largest
    xp, parts = namespace(x), [abs(part) for part in real_parts(x)]
    highest = backwards(reduce(xp.maximum, parts), 0).max(axis=0)
    relative = _relative_to(error, reduce(xp.minimum, parts), highest)
    return on_host(backwards(relative, 0).max(axis=0))


def _relative_to(error: Array, size: Array, highest: Array) -> Array:
    """Errors relative to sizes, or to a floor below the highest of a column, or to η."""
    if is_cupy(error):
        return _relative_kernel()(error, size, highest)
    return error / np.maximum(size, np.maximum(FLOOR * highest, ETA))


@cache
def _relative_kernel() -> Any:
    """One kernel in place of four: each takes a tenth of a second to compile. NaN in one gives NaN."""
    code = f"""
    double least = highest * {FLOOR!r};
    least = least < {ETA!r} ? {ETA!r} : least;
    relative = error / (size < least || least != least ? least : size);
    """
    inputs = "float64 error, float64 size, float64 highest"
    return import_cupy().ElementwiseKernel(inputs, "float64 relative", code, "relative_errors")


def _exact_columns_aside(problem: Problem, xs: list[Array], b: Array, residual: Array, error: Array) -> Array:
    """The error, but 0 for columns whose residual is exactly 0.

    A residual that rounds to 0 is 0 where it is a multiple of η: all that it is a sum of are.
    """
    loops = compiled_for(residual)
    if loops is not None and not loops.has_zero_column(residual):
        return error
    exact = ~backwards(residual, 0).any(axis=0)
    if not anywhere(exact):
        return error
    xp = namespace(error)
    of_product = reduce(xp.minimum, map(units, xs)) + problem.unit()
    return xp.where(exact & (of_product >= -1074) & (units(b) >= -1074), 0.0, error)
