"""What a verified computation returns, and the errors it raises where there is no proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import reduce
from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, namespace, on_host, quietly
from ozaki.linalg.verified.tools.scaling import unscaled, unscaled_words
from ozaki.linalg.verified.tools.upward import U, up
from ozaki.linalg.verified.tools.words import renormalized, rounded

PROVED, SINGULAR, NOT_PROVED = "proved", "singular", "not proved"


@public_in("ozaki.linalg.verified", "What they return")
class SingularError(np.linalg.LinAlgError):
    """A matrix is proved to be singular.

    Attributes
    ----------
    null_vector : (n,) array z, not all 0, with Az = 0 exactly: small integers times powers of two. None if
        float64 has no such numbers.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> try:
    ...     verified.inv(np.ones((2, 2)))
    ... except verified.SingularError as error:
    ...     print(abs(error.null_vector))
    [1. 1.]
    """

    def __init__(self, null_vector: Array | None) -> None:
        super().__init__("Singular matrix: it takes a vector that is not zero (null_vector) to zero")
        self.null_vector = null_vector


@public_in("ozaki.linalg.verified", "What they return")
class NotProvedError(np.linalg.LinAlgError):
    """There is no proof within the words allowed: nothing is claimed about the matrix.

    Attributes
    ----------
    condition : about the condition number, as far as it is visible in float64.
    words : of the preconditioner.
    contraction : the smallest bound of ‖I - RA‖ that was reached; below 1 would have been a proof.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> hilbert = 1 / (np.arange(20.0)[:, None] + np.arange(20.0) + 1)
    >>> try:
    ...     verified.inv(hilbert, max_words=1)
    ... except verified.NotProvedError as error:
    ...     print(error.words, error.contraction > 1)
    1 True
    """

    def __init__(self, message: str, condition: float, words: int, contraction: float) -> None:
        super().__init__(message)
        self.condition, self.words, self.contraction = condition, words, contraction


@public_in("ozaki.linalg.verified", "What they return")
@dataclass(frozen=True)
class Statistics:
    """How a proof came about.

    Attributes
    ----------
    tier : what proved the matrix regular: "native", "certified", "factored" or "words"; of a
        sparse matrix "shifted", a factorization of A − sI.
    condition : upper bound of ‖|R||A|‖∞ of the equilibrated matrix and its approximate inverse R, nearly the
        condition number of Bauer and Skeel. Of least squares an upper bound, up to a factor n, of ‖A‖₂‖A⁺‖₂
        for A with its columns scaled to about 1.
    contraction : upper bound of ‖I - RA‖, in the norm of the proof; below 1. Of a sparse matrix that of the
        shifted factorization's error, relative to s.
    words : of the preconditioner R.
    steps : of refinement.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> verified.inv(np.eye(2)).stats.tier
    'native'
    """

    tier: str
    condition: float
    contraction: float
    words: int
    steps: int


@public_in("ozaki.linalg.verified", "What they return")
@dataclass(frozen=True)
class Solution:
    """A computed x, and what is proved about the exact result x*, element by element.

    For stacks of matrices every attribute is stacked, also those of `stats`. `np.asarray` gives the value;
    printing shows a table.

    Attributes
    ----------
    value : x, nearly always x* correctly rounded.
    bound : |x* - x| <= bound; infinite where nothing is proved.
    rounded : True where x is proved to be x* rounded to nearest.
    words : arrays with an unevaluated sum within `error` of x*, the first nearly x itself.
    error : |x* - Σ words| <= error.
    result : "proved", "singular" or "not proved".
    stats : how the proof came about.

    >>> import numpy as np
    >>> from ozaki.linalg import verified
    >>> x = verified.solve([[3.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    >>> print(x)
                        value     bound  rounded
       0.3333333333333333       1.9e-17  True
       0.25                     4.6e-49  True
    proved by tier native: condition 1, contraction 4.4e-16
    """

    value: Array
    bound: Array
    rounded: Array
    words: tuple[Array, ...] = field(repr=False)
    error: Array = field(repr=False)
    result: Any
    stats: Statistics

    def interval(self) -> tuple[Array, Array]:
        """Return the arrays of lower and of upper ends of intervals that contain x*, of a real x.

        They are infinite where nothing is proved, as where x* overflows.
        They are what packages of interval arithmetic take: `ival.Interval(*x.interval())` of crival, say.

        Raises
        ------
        TypeError : the solution is complex.

        >>> from ozaki.linalg import verified
        >>> low, high = verified.solve([[3.0]], [1.0]).interval()
        >>> bool(low[0] <= 1 / 3 <= high[0]), bool(high[0] - low[0] <= 2.0**-53)
        (True, True)
        """
        if self.value.dtype.kind == "c":
            raise TypeError("intervals are of real numbers, and this solution is complex")
        with quietly(self.value):
            xp, proved = namespace(self.value), namespace(self.value).isfinite(self.bound)
            low = xp.nextafter(self.value - self.bound, -np.inf)
            high = xp.nextafter(self.value + self.bound, np.inf)
            return xp.where(proved, low, -np.inf), xp.where(proved, high, np.inf)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(on_host(self.value), dtype=dtype, copy=copy)

    def __str__(self) -> str:
        lines = [f"{'value':>25}  {'bound':>8}  rounded"]
        columns = (on_host(x).ravel() for x in (self.value, self.bound, self.rounded))
        rows = list(zip(*columns, strict=True))
        for x, bound, is_rounded in rows[:10]:
            lines.append(f"   {x!s:<22}  {bound:>8.2g}  {bool(is_rounded)}")
        if len(rows) > 10:
            lines.append(f"   … {len(rows) - 10} more, {sum(bool(r[2]) for r in rows)} rounded in all")
        if isinstance(self.result, str):
            stats = self.stats
            tier = f" by tier {stats.tier}" if stats.tier else ""
            lines.append(
                f"{self.result}{tier}: condition {stats.condition:.2g}, contraction {stats.contraction:.2g}"
            )
        return "\n".join(lines)


def attempted(prove: Callable[[], Solution], b: Array, throw: bool) -> Solution:
    """Return what is proved; of a LinAlgError, unless it is thrown, NaN with infinite bounds in b's shape."""
    try:
        return prove()
    except np.linalg.LinAlgError as reason:
        if throw:
            raise
        error = reason
    xp = namespace(b)
    nothing, infinite = xp.full(b.shape, np.nan, b.dtype), xp.full(b.shape, np.inf)
    singular = not isinstance(error, NotProvedError)
    condition = np.inf if singular else error.condition  # type: ignore[attr-defined]
    words, contraction = (0, np.inf) if singular else (error.words, error.contraction)  # type: ignore[attr-defined]
    return Solution(
        *(nothing, infinite, xp.zeros(b.shape, bool), (nothing,), infinite),
        SINGULAR if singular else NOT_PROVED,
        Statistics("", condition, contraction, words, 0),
    )


def stacked(solutions: list[Any], batch: tuple[int, ...]) -> Any:
    """Return one record for those of a stack: each attribute is stacked to (*batch, …)."""
    first = solutions[0]
    if isinstance(first, tuple):
        count = max(map(len, solutions))
        filled = [[*words, *[words[0] * 0] * (count - len(words))] for words in solutions]
        return tuple(stacked(list(word), batch) for word in zip(*filled, strict=True))
    if isinstance(first, Solution | Statistics):
        names = [f.name for f in fields(first)]
        return type(first)(*(stacked([getattr(s, name) for s in solutions], batch) for name in names))
    array = namespace(first).stack(solutions) if hasattr(first, "shape") else np.array(solutions)
    return array.reshape(*batch, *array.shape[1:])


def empty(b: Array) -> Solution:
    """Return the solution that has no components, of the shape of b."""
    nothing = namespace(b).zeros(b.shape)
    return Solution(b, nothing, nothing == 0, (b,), nothing, PROVED, Statistics("", 0.0, 0.0, 0, 0))


def proved(
    words: Sequence[Array], error: Array, exponent: Array, stats: Statistics, columns: int
) -> Solution:
    """Return the solution that consists of so many columns, from those for the parts of the right sides.

    words, error, exponent : column j of the solution is the sum of columns j, j + columns, … of any x with
        |x - Σ words| <= error, times 2**exponent.
    """
    low, lost, _ = unscaled_words(words, error, exponent)
    if error.shape[1] == columns:
        return Solution(*unscaled(*rounded(words, error), exponent), low, lost, PROVED, stats)
    xp, starts = namespace(error), range(0, error.shape[1], columns)
    parts = [word[:, i : i + columns] for i in starts for word in low]
    total = sum(lost[:, i : i + columns] for i in starts)
    total = xp.where(total > 0, up(up(total) * (1 + 2 * len(starts) * U)), 0.0)
    finite = reduce(xp.logical_and, map(xp.isfinite, parts))
    total = xp.where(finite, total, np.inf)
    parts = renormalized([xp.where(finite, part, 0.0) for part in parts], len(parts))
    value, bound, sure = rounded(parts, total)
    overflown = xp.where(finite, value, sum(word[:, :columns] for word in low))
    return Solution(overflown, bound, sure, tuple(parts), total, PROVED, stats)


def first_column(solution: Solution) -> Solution:
    """Return the solution for the only right side, as a vector."""
    value, bound, sure, error = (
        x[:, 0] for x in (solution.value, solution.bound, solution.rounded, solution.error)
    )
    words = tuple(word[:, 0] for word in solution.words)
    return Solution(value, bound, sure, words, error, solution.result, solution.stats)
