"""Functions of rows, made of exact sums and elementary functions: softmax, norms of layers, other means.

Each is a formula whose operations are rounded one by one to float64, in a fixed order: exact sums,
functions that are correctly rounded, and IEEE operations. So neither the layout nor the threads nor the
device can change a bit. The result is then rounded to its dtype.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from multiword.runtime.arrays import (
    Array,
    import_cupy,
    is_cupy,
    namespace,
    on_device_of_arrays,
    to_float64,
)
from ozaki.elementary.api import apply, rounded
from ozaki.public import public
from ozaki.rowwise import cuda, host, norms_cuda
from ozaki.rowwise.rows import Kernel, each, reduced
from ozaki.sums.arguments import Axis, Out
from ozaki.sums.repeated import repeatable
from ozaki.sums.table import MEAN, SUM, Reduction, means, quotient_dtype, squares

_MEAN_SQUARE = Reduction((squares,), means, quotient_dtype)


@public("Functions of rows", torch="softmax", jax="softmax")
@on_device_of_arrays
def softmax(x: Array, axis: Axis = None, out: Out = None) -> Any:
    """Return e**x / Σ e**x over axes, with three roundings: `scipy.special.softmax`.

    Parameters
    ----------
    x : array of any shape, float16, bfloat16, float32 or float64, NumPy or CuPy; integers and booleans count
        as float64.
    axis : int, tuple of ints or None (all axes).
    out : array of the result's shape and dtype, on the same device, to be filled; x itself may be it.

    Returns
    -------
    RN(e / s) in the dtype of x, with e = RN(exp(x − max x)) of the exact difference and s = RN(Σ e) of the
    exact sum, in float64 for every dtype: errors below 2⁻⁵² relative to the exact value, and one rounding
    to the dtype. Rows with a NaN or with +Inf are NaN, and so are rows of −Inf alone.

    Raises
    ------
    TypeError : x is complex, a `numpy.longdouble` or not numeric, or has integers beyond 2**53; out is no
        array of x's kind and of the result's dtype.
    ValueError : an axis that x does not have, or one twice; out of another shape, or read-only.

    References
    ----------
    Blanchard, D. J. Higham and N. J. Higham, "Accurately computing the log-sum-exp and softmax functions"
    (2021).

    >>> softmax(np.array([0.0, 0.0, -np.inf])).tolist()
    [0.5, 0.5, 0.0]
    """

    def compute(rows: Array, along: int) -> Array:
        powers = apply("exp_minus", rows, rows.max(axis=along, keepdims=True))
        powers /= _sum_along(powers, along)
        return powers

    return each(x, axis, out, compute, _softmax_kernel("softmax"))


def safe_softmax(x: Array, axis: Axis = None) -> Any:
    """Return softmax, and 0 in rows of −Inf alone, which a mask has left nothing of."""

    def compute(rows: Array, along: int) -> Array:
        largest = rows.max(axis=along, keepdims=True)
        powers = apply("exp_minus", rows, largest)
        powers /= _sum_along(powers, along)
        return namespace(rows).where(largest == -np.inf, 0.0, powers)

    return each(x, axis, None, compute, _softmax_kernel("safe_softmax"))


@public("Functions of rows", torch="log_softmax", jax="log_softmax")
@on_device_of_arrays
def log_softmax(x: Array, axis: Axis = None, out: Out = None) -> Any:
    """Return x − log Σ e**x over axes, without cancellation: `scipy.special.log_softmax`.

    As `ozaki.softmax`; differs in the function: RN(RN(x − m) − l), l = RN(log1p(RN(Σ' e))), where m = max x
    and the exact sum leaves one number out that is m itself, whose e is 1. Five roundings, errors below
    2⁻⁵⁰.

    >>> log_softmax(np.array([0.0, 1000.0])).tolist()
    [-1000.0, 0.0]
    """

    def compute(rows: Array, along: int) -> Array:
        largest = rows.max(axis=along, keepdims=True)
        result = rows - largest
        result -= _log_of_sum(rows, largest, along)
        return result

    return each(x, axis, out, compute, _softmax_kernel("log_softmax"))


@public("Functions of rows", torch="logsumexp", jax="logsumexp")
@on_device_of_arrays
def logsumexp(x: Array, axis: Axis = None, out: Out = None, keepdims: bool = False) -> Any:
    """Return log Σ e**x over axes: `scipy.special.logsumexp`.

    As `ozaki.softmax`; differs in the function, RN(m + l), m and l as in `ozaki.log_softmax`: four
    roundings, errors below 2⁻⁵⁰ relative to the larger of |m| and l. −Inf for nothing, Inf where a number
    is.

    Parameters
    ----------
    keepdims : keep the reduced axes with length 1.

    >>> float(logsumexp(np.array([1000.0, 1000.0])))
    1000.6931471805599
    """

    def compute(rows: Array, along: int) -> Array:
        largest = rows.max(axis=along, keepdims=True)
        result = largest + _log_of_sum(rows, largest, along)
        xp = namespace(rows)
        xp.copyto(result, largest, where=xp.isinf(largest))
        return result

    return reduced(x, axis, out, keepdims, compute, -np.inf, _softmax_kernel("logsumexp"))


@public("Functions of rows", torch="layer_norm", jax="layer_norm")
@on_device_of_arrays
def layer_norm(
    x: Array,
    axis: Axis = -1,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    out: Out = None,
) -> Any:
    """Return (x − mean) / √(var + eps)·weight + bias over axes: `torch.nn.functional.layer_norm`.

    As `ozaki.softmax`; differs in the function: RN(d·r), d = RN(x − m), m the exact mean rounded once, r =
    RN(1/√RN(v + eps)), v the exact mean of d², rounded once, in float64 for every dtype: six roundings,
    errors below 2⁻⁵⁰ + 2⁻⁵³·|m|/√v, unless v leaves float64's range, and one to the dtype.

    Parameters
    ----------
    weight, bias : arrays of the shape of the axes, of x's dtype: a product and a sum, each rounded to that.
    eps : a float64 number.

    References
    ----------
    Ba, Kiros and Hinton, "Layer normalization" (2016).

    >>> layer_norm(np.array([1.0, 3.0]), eps=0.0).tolist()
    [-1.0, 1.0]
    """

    def compute(rows: Array, along: int) -> Array:
        centred = rows - _mean_along(rows, along)
        centred *= _scale(centred, along, eps)
        return centred

    return each(x, axis, out, compute, _norm_kernel("layer_norm", eps), weight, bias)


def inverse_deviation(x: Array, axis: Axis, eps: float) -> Array:
    """Return r, by which `layer_norm` multiplies, rounded to the dtype of x; the axes are kept."""

    def compute(rows: Array, along: int) -> Array:
        return _scale(rows - _mean_along(rows, along), along, eps)

    kernel = _norm_kernel("inverse_deviation", eps)
    result: Array = reduced(x, axis, None, True, compute, np.nan, kernel)
    return result


@public("Functions of rows", torch="rms_norm", jax="rms_norm")
@on_device_of_arrays
def rms_norm(
    x: Array, axis: Axis = -1, weight: Array | None = None, eps: float = 1e-5, out: Out = None
) -> Any:
    """Return x / √(mean x² + eps)·weight over axes: `torch.nn.functional.rms_norm`.

    As `ozaki.layer_norm`; differs in the function: RN(x·r), r = RN(1/√RN(q + eps)), q the exact mean of
    squares.

    References
    ----------
    Zhang and Sennrich, "Root mean square layer normalization" (2019).

    >>> rms_norm(np.array([3.0, -3.0]), eps=0.0).tolist()
    [1.0, -1.0]
    """

    def compute(rows: Array, along: int) -> Array:
        return rows * _scale(rows, along, eps)

    return each(x, axis, out, compute, _norm_kernel("rms_norm", eps), weight)


@public("Functions of rows")
@on_device_of_arrays
def gmean(x: Array, axis: Axis = 0, out: Out = None, keepdims: bool = False) -> Any:
    """Return the geometric mean over axes: `scipy.stats.gmean`.

    As `ozaki.softmax`; differs in the function, RN(exp(RN(mean RN(log x)))) with the exact mean: three
    roundings, errors below 2⁻⁵²·max |log x|. NaN for nothing and for negative numbers. The variance of
    logarithms is `ozaki.var(ozaki.log(x))`, likewise.

    Parameters
    ----------
    keepdims : keep the reduced axes with length 1.

    >>> float(gmean(np.array([1e-200, 1e200])))
    1.0
    """

    def compute(rows: Array, along: int) -> Array:
        return apply("exp", _mean_along(apply("log", rows), along))

    return reduced(x, axis, out, keepdims, compute, np.nan)


@public("Functions of rows")
@on_device_of_arrays
def hmean(x: Array, axis: Axis = 0, out: Out = None, keepdims: bool = False) -> Any:
    """Return the harmonic mean over axes: `scipy.stats.hmean`.

    As `ozaki.gmean`; differs in the function, RN(1 / RN(mean RN(1/x))) with the exact mean: three
    roundings, errors below 2⁻⁵¹. 0 where a number is 0, or so small that RN(1/x) is infinite; NaN for
    negative numbers.

    >>> float(hmean(np.array([1.0, 3.0])))
    1.5
    """

    def compute(rows: Array, along: int) -> Array:
        return 1.0 / _mean_along(_inverses(rows), along)

    return reduced(x, axis, out, keepdims, compute, np.nan)


def _inverses(x: Array) -> Array:
    """Return 1/x, and NaN for negative numbers, in float64: on a GPU in one pass."""
    if is_cupy(x):
        return _inverses_on_gpu()(x)
    result = np.divide(1.0, x)
    if not result.min() > 0.0:  # one pass, where two more are seldom needed: for negative numbers, −0, −Inf
        np.abs(result, out=result)
        np.copyto(result, np.nan, where=x < 0.0)
    return result


@cache
def _inverses_on_gpu() -> Any:
    value = "y = x < 0 ? __longlong_as_double(0x7FF8000000000000LL) : 1 / fabs(x)"
    return import_cupy().ElementwiseKernel("float64 x", "float64 y", value, "inverses")


@repeatable
def _sum_along(rows: Array, along: int) -> Array:
    """Return the exact sums along an axis, which is kept, rounded: `ozaki.sum` without its arguments."""
    result: Array = SUM((rows,), along, None, None, True)
    return result


@repeatable
def _mean_along(rows: Array, along: int) -> Array:
    """Return the exact means along an axis, which is kept, rounded."""
    result: Array = MEAN((rows,), along, None, None, True)
    return result


def _scale(rows: Array, along: int, eps: float) -> Array:
    """Return 1 / √(mean of squares + eps)."""
    return apply("rsqrt", _MEAN_SQUARE((rows,), along, None, None, True) + float(eps))


def _log_of_sum(rows: Array, largest: Array, along: int) -> Array:
    """Return log Σ e**(x − largest), e of the first largest number counting as exactly 1."""
    powers = apply("exp_minus", rows, largest)
    _put_first(powers, rows.argmax(axis=along), along)
    return apply("log1p", _sum_along(powers, along))


def _put_first(powers: Array, first: Array, along: int) -> None:
    """Put 0 for the number of each row, or column, that is `first`; NaN stays."""
    xp = namespace(powers)
    others = xp.arange(len(first)) if len(first) > 1 else slice(0, 1)  # which takes half the time
    index = (others, first) if along else (first, others)
    found = powers[index]
    found[found == 1.0] = 0.0
    powers[index] = found


def _softmax_kernel(kind: str) -> Kernel:
    def kernel(rows: Array) -> tuple[Array, Array | None] | None:
        if not is_cupy(rows):
            return host.run(kind, rows)
        wide = rows if rows.dtype in cuda.TYPES else to_float64(rows)
        result = cuda.run(kind, namespace(rows).ascontiguousarray(wide))
        return result if wide is rows else rounded(result, rows.dtype), None

    return kernel


def _norm_kernel(kind: str, eps: float) -> Kernel:
    def kernel(
        rows: Array, weight: Array | None = None, bias: Array | None = None
    ) -> tuple[Array, Array | None] | None:
        if is_cupy(rows):
            result = norms_cuda.run(kind, rows, float(eps), weight, bias)
            return None if result is None else (result, None)
        return host.run(kind, rows, float(eps), weight=weight, bias=bias)

    return kernel
