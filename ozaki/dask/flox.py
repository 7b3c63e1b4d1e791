"""Sums by group for flox, with which xarray's groupby computes: exact sums are the state that chunks merge.

flox takes what a function makes of a chunk for an array with an axis of groups: here it is one of exact sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from multiword.runtime.install import missing

try:
    import flox
except ImportError as error:
    raise missing("ozaki.dask.flox needs flox", "xarray") from error

from multiword.runtime.options import check_choice
from ozaki.dask.accumulators import chunk_sums_by_group
from ozaki.dask.reductions import rounded_sums
from ozaki.public import PUBLIC
from ozaki.sums import groups
from ozaki.sums.arguments import float_type
from ozaki.sums.exactsum import ExactSum
from ozaki.sums.table import REDUCTIONS, Reduction
from ozaki.sums.variance import exact_ddof

__all__ = ["aggregation"]

NAMES = tuple(
    name for name in REDUCTIONS if PUBLIC[name].arrays == ("x",) and "out" in PUBLIC[name].parameters
)
"""The reductions of one array."""


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)


def aggregation(name: str) -> Any:
    """Return a reduction by group for `flox`: its results are correctly rounded, whatever the chunks.

    Pass it to `flox.xarray.xarray_reduce` or `flox.groupby_reduce` as `func`. Groups may span chunks, by any
    `method`: a chunk hands on an exact sum for each group, in 50 to 100 bytes for numbers of about one size.

    Parameters
    ----------
    name : of a reduction of one array, as "sum", "mean" and "nanvar".
        `finalize_kwargs={"ddof": 1}` is for variances and standard deviations.

    Returns
    -------
    `flox.Aggregation`, with results in the dtype of the array; sums of integers are integers, others float64.

    Raises
    ------
    ValueError : another name. ImportError : without flox.

    References
    ----------
    As `ozaki.sum`: Rump, Ogita and Oishi; Kulisch.

    >>> import dask.array as da
    >>> x, labels = np.array([1e100, 0.1, 1.0, -1e100]), np.array([0, 1, 0, 0])
    >>> sums, _ = flox.groupby_reduce(da.from_array(x, chunks=1), labels, func=aggregation("sum"))
    >>> sums.compute()
    array([1. , 0.1])
    """
    check_choice("reduction", name, NAMES)
    reduction, skip_nan = REDUCTIONS[name.removeprefix("nan")], name.startswith("nan")
    return flox.Aggregation(
        f"ozaki_{name}",
        numpy=partial(_in_memory, name=name),
        chunk=partial(_of_chunk, reduction=reduction, skip_nan=skip_nan),
        combine=(_merged,),
        finalize=partial(_rounded, reduction=reduction, skip_nan=skip_nan),
        fill_value=0,
        final_dtype=None if reduction.of_integers else np.floating,
    )


def _in_memory(
    index: np.ndarray,
    x: np.ndarray,
    *,
    name: str,
    size: int,
    fill_value: Any,
    dtype: Any,
    **ddof: Any,
) -> np.ndarray:
    if name.startswith("nan"):
        return cast(np.ndarray, PUBLIC[f"group_{name}"].value(x, index, size, **ddof))
    return groups.by_group(name, x, index, size, **_options(name, **ddof))


def _options(name: str, ddof: float = 0) -> dict[str, Any]:
    return {"ddof": exact_ddof(ddof)} if "ddof" in PUBLIC[name].parameters else {}


def _of_chunk(
    index: np.ndarray, x: np.ndarray, *, reduction: Reduction, skip_nan: bool, size: int, **_: Any
) -> Any:
    """Return the exact sums of a chunk by group; sums of integers as NumPy has them."""
    if reduction.of_integers and x.dtype.kind in "iub":
        return groups.group_sum(x, index, size)
    dtype = x.dtype if x.dtype.kind == "c" else float_type(x)
    sums = chunk_sums_by_group(reduction, [x], groups.label_vector(index, size), size, dtype, skip_nan)
    return _ExactSums([total.exact() for total in sums.totals], cast(np.ndarray, sums.counts))


def _merged(*arguments: Any, axis: Any = (), keepdims: bool = True, size: int | None = None, **_: Any) -> Any:
    """Return the sums of an array over axes; after labels of its last axis, those of so many groups."""
    *labels, x = arguments
    if not labels:
        return x.sum(axis, keepdims=keepdims)

    def by_group(x: np.ndarray) -> np.ndarray:
        out = np.zeros((*x.shape[:-1], size), x.dtype)
        np.add.at(out, (..., *labels), x)
        return out

    return x.apply(by_group) if isinstance(x, _ExactSums) else by_group(x)


def _rounded(x: Any, *, reduction: Reduction, skip_nan: bool, ddof: float = 0) -> np.ndarray:
    if not isinstance(x, _ExactSums):
        return x
    options = _options(reduction.name, ddof)
    result = rounded_sums(x.totals, x.counts, reduction=reduction, target=x.dtype, **options)
    return np.where(x.counts <= options["ddof"], np.nan, result) if skip_nan and options else result


class _ExactSums:
    """Exact sums, and counts, in the shape of an array, with what flox asks of one.

    Attributes
    ----------
    totals : an accumulator of this shape for each sum of a reduction.
    counts : how many numbers each element had.
    """

    def __init__(self, totals: Sequence[ExactSum], counts: np.ndarray) -> None:
        self.totals, self.counts = totals, counts
        self.shape, self.ndim, self.dtype = counts.shape, counts.ndim, totals[0].dtype

    def __sizeof__(self) -> int:
        return int(self.counts.nbytes + sum(total.__sizeof__() for total in self.totals))

    def apply(self, function: Callable[..., np.ndarray], *others: _ExactSums) -> _ExactSums:
        """Return a function of the last axes of the counts, and of all digits, which add up exactly."""
        totals = []
        for together in zip(*(x.totals for x in (self, *others)), strict=True):
            window = np.max([total.window for total in together], axis=0)
            digits = function(*(total.to_digits(window) for total in together))
            totals.append(ExactSum.from_digits(digits, window, together[0].dtype))
        return _ExactSums(totals, function(self.counts, *(x.counts for x in others)))

    def sum(self, axis: Any, keepdims: bool) -> _ExactSums:
        return self.apply(lambda x: x.sum(self._last(axis), keepdims=keepdims))

    def squeeze(self, axis: Any) -> _ExactSums:
        return self.apply(lambda x: x.squeeze(self._last(axis)))

    def reshape(self, shape: tuple[int, ...], **_: Any) -> _ExactSums:
        return self.apply(lambda x: x.reshape(*x.shape[: x.ndim - self.ndim], *shape))

    def astype(self, *_: Any, **__: Any) -> _ExactSums:
        return self

    def __getitem__(self, index: Any) -> _ExactSums:
        index = index if isinstance(index, tuple) else (index,)
        return self.apply(lambda x: x[(slice(None),) * (x.ndim - self.ndim) + index])

    def __setitem__(self, index: Any, zero: int) -> None:
        kept = np.ones(self.shape, np.int64)
        kept[index] = zero
        self.__dict__.update(self.apply(lambda x: x * kept).__dict__)

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        axis = self._last(options["axis"])
        if function is np.concatenate:
            first, *rest = (x if isinstance(x, _ExactSums) else self._nothing(x.shape) for x in arguments[0])
            return first.apply(lambda *x: np.concatenate(x, axis[0]), *rest)
        return self.apply(lambda x: function(x, axis=axis)) if function in _OF_AXES else NotImplemented

    def _last(self, axis: Any) -> tuple[int, ...]:
        return tuple(a if a < 0 else a - self.ndim for a in np.atleast_1d(axis).tolist())

    def _nothing(self, shape: tuple[int, ...]) -> _ExactSums:
        return _ExactSums([ExactSum(total.dtype, shape) for total in self.totals], np.zeros(shape, np.int64))


_OF_AXES = (np.expand_dims, np.squeeze)
