"""The reductions as data: what each one adds up exactly, and what becomes of these sums, rounded once.

Who brings the sums of other arrays together (`ozaki.dask` those of chunks) needs nothing else. A new
reduction is a public function decorated with its row, `@reduction(Reduction(…))`, and, if none here does, a
function that finishes its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import zip_longest
from math import nan, prod
from typing import Any, TypeVar, cast

import numpy as np

from multiword.runtime.arrays import Array, in_order, is_cupy, namespace, put_one_nan, real_parts, where_lies
from ozaki.public import public
from ozaki.rounding.conversion import joined, narrow
from ozaki.sums.arguments import (
    Axis,
    DType,
    Out,
    axes_of,
    deliver,
    format_of,
    mask_of,
    real_dtype,
    real_result_dtype,
    reduced_shape,
    result_dtype,
    summed_dtype,
)
from ozaki.sums.exact import groups_enclosed, moments, rows
from ozaki.sums.exact.fixed_point import NOT_FINITE, FixedPoint, Rounding, flagged
from ozaki.sums.exact.reduction import exact_sums, rounded_sums
from ozaki.sums.exact.summands import Summands, products, tiles
from ozaki.sums.variance import Counts, about_given, covariances, variances
from ozaki.tuning import COPIED_TERMS, FEW_TERMS, INTEGER_RATIOS, OUTPUTS_ON_HOST

T = TypeVar("T", bound=Callable[..., Any])
_FLOATS = np.dtype(np.float64), np.dtype(np.float32)
Terms = Callable[..., list[list[Summands]]]
"""What is added up of one or two arrays: the terms of its real part, then of its imaginary part, if any."""


def elements(x: Array, _: Array | None = None) -> list[list[Summands]]:
    """Return the terms of Σ x."""
    if x.dtype.kind != "c":  # the usual case, in less time
        return [[Summands((x,))]]
    return [[Summands((part,))] for part in real_parts(x)]


def squares(x: Array, _: Array | None = None) -> list[list[Summands]]:
    """Return the terms of Σ |x|²."""
    if x.dtype.kind != "c":
        return [[Summands((x, x))]]
    return [[Summands((part, part)) for part in real_parts(x)]]


def squares_about(x: Array, m: Array) -> list[list[Summands]]:
    """Return the terms of Σ |x - m|² = Σ |x|² - 2 Re(x·conj(m)) + |m|²."""
    terms: list[Summands] = []
    for a, b in zip_longest(real_parts(x), real_parts(m)):
        terms += [Summands((y, y)) for y in (a, b) if y is not None]
        terms += [Summands((a, b), -1)] * 2 if a is not None and b is not None else []
    return [terms]


def conjugate_products(x: Array, y: Array) -> list[list[Summands]]:
    """Return the terms of Σ conj(x)·y."""
    return products(x, y, conjugate=True)


def weights(_: Array, y: Array) -> list[list[Summands]]:
    """Return the terms of Σ y."""
    return elements(y)


Finish = Callable[..., list[np.ndarray]]
"""Makes the parts of the results, float64 numbers that are rounded to a format, of exact sums:
finish(sums, counts, rounding, **options), with a list of parts for each of a reduction's sums."""


def rounded_totals(sums: list[list[FixedPoint]], _: Counts, rounding: Rounding) -> list[np.ndarray]:
    return [rounding(part) for part in sums[0]]


def means(sums: list[list[FixedPoint]], counts: Counts, rounding: Rounding) -> list[np.ndarray]:
    return [quotients(part, counts, rounding) for part in sums[0]]


def _variances(
    sums: list[list[FixedPoint]],
    counts: Counts,
    rounding: Rounding,
    ddof: Fraction,
    skip_nan: bool = False,
) -> list[np.ndarray]:
    parts, (square,) = sums
    return [variances(square, parts, counts, ddof, rounding, skip_nan)]


def _about_given(
    sums: list[list[FixedPoint]],
    counts: Counts,
    rounding: Rounding,
    ddof: Fraction,
    skip_nan: bool,
) -> list[np.ndarray]:
    ((square,),) = sums
    return [about_given(square, counts, ddof, rounding, skip_nan)]


def _covariances(
    sums: list[list[FixedPoint]], counts: Counts, rounding: Rounding, ddof: Fraction
) -> list[np.ndarray]:
    (of_x,), (of_y,), (product,) = sums
    return [covariances(product, of_x, of_y, counts, ddof, rounding)]


def averages(sums: list[list[FixedPoint]], _: Counts, rounding: Rounding) -> list[np.ndarray]:
    parts, (total,) = sums
    return [_weighted(part.on_host(), total.on_host(), rounding) for part in parts]


def quotients(sums: FixedPoint, counts: Counts, rounding: Rounding) -> np.ndarray:
    """Return exact sums divided by counts, rounded, as float64; NaN for 0/0."""
    n = namespace(sums.flags).asarray(counts, np.int64)
    return np.where(n == 0, nan, flagged(rounding.finite(sums, np.maximum(n, 1)), sums.flags))


def _weighted(sums: FixedPoint, total: FixedPoint, rounding: Rounding) -> np.ndarray:
    """Exact sums over exact total weights. ZeroDivisionError for a total of zero, as in NumPy."""
    if sums.flags.size <= INTEGER_RATIOS:
        return _weighted_exactly(sums, total, rounding)
    with np.errstate(all="ignore"):
        quotient = sums.enclosure().normalized().over(total.enclosure().normalized())
        values, certain = quotient.rounded(rounding.target)
    certain &= (values != 0) & (((sums.flags | total.flags) & NOT_FINITE) == 0)
    hard = np.flatnonzero(~certain)
    if hard.size:
        values[hard] = _weighted_exactly(sums.columns(hard), total.columns(hard), rounding)
    return values


def _weighted_exactly(sums: FixedPoint, total: FixedPoint, rounding: Rounding) -> np.ndarray:
    """The same in integers, with what IEEE 754 makes of zeros, Inf and NaN."""
    divisors, finite = total.integers(), (total.flags & NOT_FINITE) == 0
    if any(is_finite and not d for (d, _), is_finite in zip(divisors, finite, strict=True)):
        raise ZeroDivisionError("weights must not sum to zero")
    values = [
        rounding.ratio(n if d > 0 else -n, abs(d), e - f) if n and d else 0.0
        for (n, e), (d, f) in zip(sums.integers(), divisors, strict=True)
    ]
    with np.errstate(all="ignore"):  # signs for finite numbers: zeros, Inf and NaN divide as in IEEE 754
        special = flagged([float(n > 0) - float(n < 0) for n, _ in sums.integers()], sums.flags)
        special = special / flagged([1.0 if d > 0 else -1.0 for d, _ in divisors], total.flags)
    put_one_nan(special)
    return np.where((special == 0) | ~finite | ((sums.flags & NOT_FINITE) != 0), special, values)


def product_dtype(*arrays: Array) -> np.dtype:
    """Return the dtype of a product of numbers."""
    return _promoted(*[x.dtype for x in arrays])


@lru_cache(256)
def _promoted(*dtypes: np.dtype) -> np.dtype:
    """Return what NumPy promotes dtypes to: that takes several times as long as to look it up."""
    return np.result_type(*dtypes)


def quotient_dtype(*arrays: Array) -> np.dtype:
    """Return the dtype of a product of numbers divided by another: float64 for integers."""
    natural = product_dtype(*arrays)
    return np.dtype(np.float64) if natural.kind in "iub" else natural


@dataclass(frozen=True)
class Reduction:
    """A reduction: exact sums, and what becomes of them.

    Attributes
    ----------
    sums : what is added up exactly.
    finish : makes the rounded results of these sums and of how many numbers each output had.
    natural : the dtype of the results where none is requested.
    root : whether the square root of the result is rounded.
    real : what a result is that is real whatever its arguments are; else empty.
    skip_nan : whether NaN is left out, and not counted.
    zero : what stands for numbers that are left out: −0 changes no zero's sign.
    on_gpu : on_gpu(*arrays, reduced, rounding, **options) rounds the results of ordinary arrays on a GPU, and
        returns indices of those that it leaves open; None for others, which have exact sums.
    on_cpu : on_cpu(*arrays, reduced, rounding, **options) does so on a CPU.
    groups_on_gpu : groups_on_gpu(*arrays, labels, groups, rounding, **options) does so by group, of vectors
        of real numbers, or of complex ones where the results are real.
    groups_on_cpu : groups_on_cpu(*arrays, labels, groups, rounding, **options) does so on a CPU, and
        returns the groups that it leaves open, too.
    name : of the public function.
    """

    sums: tuple[Terms, ...]
    finish: Finish
    natural: Callable[..., np.dtype]
    root: bool = False
    real: str = ""
    skip_nan: bool = False
    zero: float = 0.0
    on_gpu: Callable[..., tuple[Array, Array] | None] | None = None
    on_cpu: Callable[..., tuple[Array, Array] | None] | None = None
    groups_on_gpu: Callable[..., Array | None] | None = None
    groups_on_cpu: Callable[..., tuple[Array, Array] | None] | None = None
    name: str = ""

    @property
    def plain(self) -> bool:
        """Whether the results are the rounded sums themselves."""
        return self.finish is rounded_totals and not self.root

    @property
    def of_integers(self) -> bool:
        """Whether the results of integers are integers: their sums, as NumPy has them."""
        return self.plain and not self.real

    def dtype(
        self, arrays: Sequence[Array], dtype: DType, out: Out = None, shape: tuple[int, ...] = ()
    ) -> np.dtype:
        """Return what results of this shape are computed in, or rounded to."""
        if self.real:
            return real_result_dtype(arrays[0], dtype, out, shape, self.real)
        return result_dtype(arrays[0], self.natural(*arrays), dtype, out, shape)

    def __call__(
        self,
        arrays: Sequence[Array],
        axis: Axis,
        dtype: DType,
        out: Out,
        keepdims: bool,
        where: Array | None = None,
        **options: Any,
    ) -> Any:
        """Return what the public function returns for arrays of one shape."""
        if dtype is out is where is None and (result := self._of_few(arrays, axis, keepdims)) is not None:
            return result
        x = arrays[0]
        axes = axes_of(axis, x.ndim)
        shape = reduced_shape(x.shape, axes, keepdims)
        target = self.dtype(arrays, dtype, out, shape)
        if target.kind in "iub":
            result = _integer_sums(arrays, axes, target)
        elif where is None and (divisor := self._divisor(x, axes)):
            result = self._at_once(arrays, axes, target, divisor)
        else:
            result = self.of(arrays, axes, target, None if where is None else mask_of(where, x), **options)
        return deliver(result if result.shape == shape else result.reshape(shape), out)

    def _of_few(self, arrays: Sequence[Array], axis: Axis, keepdims: bool) -> Any:
        """Return the one sum of few contiguous float64 or float32 numbers; None for others.

        What is asked of those would take twice the time.
        """
        x = arrays[0]
        if type(x) is not np.ndarray or not 0 < x.size <= COPIED_TERMS or x.dtype not in _FLOATS:
            return None
        if axis is not None and not (type(axis) is int and -x.ndim <= axis < x.ndim):
            return None
        if axis is not None and x.shape[axis] != x.size:
            return None
        for y in arrays:
            if type(y) is not np.ndarray or y.dtype is not x.dtype or not in_order(y):
                return None
        axes = tuple(range(x.ndim)) if axis is None else (axis % x.ndim,)
        if not (divisor := self._divisor(x, axes)):
            return None
        (terms,) = self.sums
        result = rows.whole(terms(*arrays)[0][0], _rounding(x.dtype, divisor, self.root))
        return None if result is None else result.reshape(reduced_shape(x.shape, axes, keepdims))[()]

    def _divisor(self, x: Array, axes: tuple[int, ...]) -> int:
        """What the one sum is divided by, before its root is taken; 0 where results are made otherwise."""
        if self.finish is rounded_totals and not self.skip_nan:
            return 1
        return prod([x.shape[a] for a in axes]) if self.finish is means and not self.skip_nan else 0

    def _at_once(
        self, arrays: Sequence[Array], axes: tuple[int, ...], target: np.dtype, divisor: int
    ) -> Array:
        """Return the results of `of` from forms that round without the exact sums (`exact.reduction`)."""
        (terms,), x, together = self.sums, arrays[0], False
        if x.dtype.kind == "c" and (together := _in_one_pass(terms, x, axes)):
            # Both parts in one pass, as one more axis: for |x|² that is summed over, too.
            arrays, axes = [_as_real(x)], (*axes, x.ndim) if terms is squares else axes
        if axes != (0,) and axes != tuple(range(len(axes))):
            order = axes + tuple([a for a in range(arrays[0].ndim) if a not in axes])
            first = arrays[0].transpose(order)
            arrays = [first if y is arrays[0] else y.transpose(order) for y in arrays]
        rounding = _rounding(target, divisor, self.root)
        summands = terms(*arrays)
        if target.kind != "c":  # of one part
            return rounded_sums(summands[0], len(axes), rounding)
        parts = [rounded_sums(part, len(axes), rounding) for part in summands]
        return parts[0].view(target)[..., 0] if together and terms is elements else joined(parts, target)

    def of(
        self,
        arrays: Sequence[Array],
        axes: tuple[int, ...],
        target: np.dtype,
        where: Array | None = None,
        **options: Any,
    ) -> Array:
        """Return the results for arrays of one shape, over these axes; the others stay in their order."""
        x, masked = arrays[0], where is not None
        arrays = [*arrays, where] if masked else arrays
        kept = tuple(a for a in range(x.ndim) if a not in axes)
        moved, reduced = [y.transpose(axes + kept) for y in arrays], len(axes)
        at_once = self.on_gpu if is_cupy(x) else self.on_cpu
        if at_once is not None and not masked:
            found = at_once(*moved, reduced, self.rounding(target), **options)
            if found is not None:
                return self._completed(moved, reduced, target, *found, **options)
        result = np.empty([x.shape[a] for a in kept], target)
        for output in tiles(result.shape, OUTPUTS_ON_HOST):
            values = result[cast(Any, (*output, ...))]
            first, *others = (y[(slice(None),) * reduced + output + (...,)] for y in moved)
            first, counts = self.counted(first, reduced, others.pop() if masked else None)
            sums = [[exact_sums(part, reduced) for part in terms(first, *others)] for terms in self.sums]
            values[...] = self.rounded(sums, counts, target, **options).reshape(values.shape)
        return where_lies(x, result)

    def _completed(
        self, arrays: list[Array], reduced: int, target: np.dtype, result: Array, hard: Array, **options: Any
    ) -> Array:
        """Return results over the first axes, of which some have exact sums."""
        if len(hard):
            columns = [x.reshape(-1, len(result))[:, hard] for x in arrays]
            exact = replace(self, on_gpu=None, on_cpu=None)
            result[hard] = exact.of(columns, (0,), target, **options)
        return result.reshape(arrays[0].shape[reduced:])

    def rounding(self, target: np.dtype) -> Rounding:
        """Return what becomes of exact sums for results of this dtype."""
        return _rounding(target, 1, self.root)

    def rounded(
        self, sums: list[list[FixedPoint]], counts: Counts, target: np.dtype, **options: Any
    ) -> Array:
        """Return the results of exact sums, of which each output had so many numbers, as a vector."""
        values = self.finish(sums, counts, self.rounding(target), **options)
        return joined([narrow(v, real_dtype(target)) for v in values], target)

    def counted(self, x: Array, reduced: int, where: Array | None) -> tuple[Array, list[int]]:
        """Return the array with zeros for what does not count, and how many of each output's numbers do."""
        missing = is_nan(x) if self.skip_nan and x.dtype.kind not in "iub" else None
        if where is not None:
            missing = ~where if missing is None else missing | ~where
        n, outputs = prod(x.shape[:reduced]), prod(x.shape[reduced:])
        if missing is None:
            return x, [n] * outputs
        return without(x, missing, self.zero), (
            n - missing.sum(axis=tuple(range(reduced))).reshape(-1)
        ).tolist()


@lru_cache(maxsize=64)
def _rounding(target: np.dtype, divisor: int, root: bool) -> Rounding:
    return Rounding(format_of(target), divisor, root)


def _integer_sums(arrays: Sequence[Array], axes: tuple[int, ...], target: np.dtype) -> Array:
    """The sums of integers, or of their products, as NumPy adds them up."""
    if len(arrays) == 1:
        return namespace(arrays[0]).sum(arrays[0], axis=axes, dtype=target)
    terms = namespace(arrays[0]).multiply(*[x.astype(target, copy=False) for x in arrays])
    return terms.sum(axis=axes, dtype=target)


def _in_one_pass(terms: Terms, x: Array, axes: tuple[int, ...]) -> bool:
    """Whether both parts of complex numbers are read at once.

    It takes a CPU more time in one long sum. A GPU would copy squares whose parts lie nearer to each other
    than the next number of a sum does.
    """
    if terms is squares:
        steps = [x.strides[a] for a in axes if x.shape[a] > 1]
        return not is_cupy(x) or min(steps, default=x.itemsize) == x.itemsize
    long = len(axes) == x.ndim and x.size > FEW_TERMS and not is_cupy(x)
    return terms is elements and not long


def _as_real(x: Array) -> Array:
    """A view of the real and imaginary parts of a complex array, along one more axis."""
    if not is_cupy(x):  # which refuses such a view of what is not contiguous
        return x[..., np.newaxis].view(x.real.dtype)
    real = x.real
    strides = (*x.strides, real.itemsize)
    return namespace(x).lib.stride_tricks.as_strided(real, (*x.shape, 2), strides)


def without(x: Array, missing: Array, value: float = 0.0) -> Array:
    """Return the array with a zero, or another value, in both parts of a number, for what is missing."""
    word = x.view(np.uint16) if x.dtype.name == "bfloat16" else x  # which CuPy would make float32
    return namespace(x).where(missing, _in_word(value, x.dtype), word).view(x.dtype)


def filled(like: Array, shape: tuple[int, ...], value: float, dtype: np.dtype) -> Array:
    """Return an array of one value, in both parts of a number, beside another array."""
    word = _in_word(value, dtype)
    return namespace(like).full(shape, word, word.dtype).view(dtype)


def _in_word(value: float, dtype: np.dtype) -> Any:
    """Return a value for each part of a number; a bfloat16 as its bits: CuPy changes those of a NaN."""
    both = np.full((), complex(value, value) if dtype.kind == "c" else value, dtype)
    return (both.view(np.uint16) if dtype.name == "bfloat16" else both)[()]


def is_nan(x: Array) -> Array:
    """Return where floating-point numbers are NaN."""
    if x.dtype.name == "bfloat16":
        return (x.view(np.uint16) & 0x7FFF) > 0x7F80
    return namespace(x).isnan(x)


SUM = Reduction((elements,), rounded_totals, summed_dtype, groups_on_cpu=groups_enclosed.totals)
MEAN = Reduction(
    (elements,),
    means,
    quotient_dtype,
    zero=-0.0,
    groups_on_gpu=moments.group_means,
    groups_on_cpu=partial(groups_enclosed.totals, mean=True),
)
VARIANCE = Reduction(
    (elements, squares),
    _variances,
    quotient_dtype,
    real="a variance",
    on_gpu=moments.variances,
    on_cpu=rows.variances,
    groups_on_gpu=moments.group_variances,
    groups_on_cpu=groups_enclosed.variances,
)
COVARIANCE = Reduction(
    (elements, weights, products),
    _covariances,
    quotient_dtype,
    real="a covariance",
    groups_on_gpu=moments.group_covariances,
    groups_on_cpu=groups_enclosed.covariances,
    name="group_cov",
)
"""Of two arrays, by group alone."""

DEVIATION = replace(VARIANCE, root=True, real="a standard deviation")
WITHOUT_NAN: dict[str, Any] = {
    "finish": partial(_variances, skip_nan=True),
    "on_gpu": partial(moments.variances, skip_nan=True),
    "groups_on_gpu": partial(moments.group_variances, skip_nan=True),
    "groups_on_cpu": partial(groups_enclosed.variances, skip_nan=True),
    "on_cpu": partial(rows.variances, skip_nan=True),
    "skip_nan": True,
}
"""What variances and standard deviations without NaN differ in."""

ABOUT_GIVEN: dict[str, Any] = {
    "sums": (squares_about,),
    "finish": _about_given,
    "on_gpu": None,
    "on_cpu": None,
}
"""What variances about means that are given differ in."""

REDUCTIONS: dict[str, Reduction] = {}
"""By the name of the public function."""


def reduction(row: Reduction, sparse: bool = False, **record: Any) -> Callable[[T], T]:
    """Return a decorator of a public function that has this row, and so a form for Dask arrays.

    Parameters
    ----------
    sparse, record : of `ozaki.public.public`; of the others torch, jax and example.
    """

    def register(function: T) -> T:
        REDUCTIONS[function.__name__] = replace(row, name=function.__name__)
        return public("Sums", dask=True, sparse=sparse, **record)(function)

    return register
