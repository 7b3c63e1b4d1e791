"""Sums, means, dot products and norms: the exact value, rounded once."""

from __future__ import annotations

from math import prod
from typing import Any, cast

import numpy as np

from multiword.runtime.arrays import (
    Array,
    check_same_device,
    namespace,
    on_device_of_arrays,
    where_lies,
)
from multiword.runtime.readback import anywhere
from ozaki.sums.arguments import (
    Axis,
    DType,
    Out,
    axes_of,
    broadcast_shape,
    check_matrices,
    check_ord,
    deliver,
    mask_of,
    numbers,
    reduced_shape,
    summed_dtype,
)
from ozaki.sums.exact import groups_enclosed, moments
from ozaki.sums.exact.summands import products
from ozaki.sums.norms import is_order, norm_of_order
from ozaki.sums.repeated import repeatable
from ozaki.sums.table import (
    MEAN,
    REDUCTIONS,
    SUM,
    Reduction,
    conjugate_products,
    means,
    product_dtype,
    quotient_dtype,
    reduction,
    rounded_totals,
    squares,
)


@reduction(SUM, sparse=True, torch="sum", jax="sum")
@repeatable
@on_device_of_arrays
def sum(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    initial: Array | None = None,
    where: Array | None = None,
) -> Any:
    """Return the sum over axes, correctly rounded: `numpy.sum` with one rounding.

    Parameters
    ----------
    x : array of any shape; float16, bfloat16, float32, float64, complex64 or complex128, NumPy
        or CuPy. Integers and booleans are summed as `numpy.sum` does, in integers.
    axis : int, tuple of ints or None (all axes).
    dtype : dtype of the result, default that of `out`, or of x. The elements themselves are never
        rounded to it. Only integers and booleans have integer sums.
    out : array of the result's shape, on the same device, to be filled: the exact value is rounded
        once, to its dtype. It is untouched if anything is raised.
    keepdims : keep the reduced axes with length 1.
    initial : what each sum begins with, exactly: a number of x's dtype, or an array of the sums' shape; x is
        copied.
    where : booleans that broadcast to x, which is copied: elements elsewhere do not count.

    Returns
    -------
    The exact sum rounded to nearest, ties to even, whatever the order, the strides and the device.
    +0 for an empty or cancelling sum, −0 for a sum of −0 alone; Inf and NaN as IEEE 754 adds;
    intermediate sums cannot overflow.

    Raises
    ------
    TypeError : x is not numeric, or a `numpy.longdouble`; where is not boolean; initial is not of x's dtype
        or one that converts to it without loss; dtype cannot be rounded to; out is no array
        of x's kind, or its dtype does not hold the result's kind.
    ValueError : an axis that x does not have, or the same axis twice; out of another shape, or read-only.

    References
    ----------
    Rump, Ogita and Oishi, Accurate floating-point summation, parts I and II (the extraction);
    Kulisch, Computer Arithmetic and Validity (the register).

    >>> sum(np.array([1e308, 1e308, -1e308, 1.0]))
    np.float64(1e+308)
    >>> sum(np.array([[1.0, 1e100], [1e-100, -1e100]]), axis=1)
    array([ 1.e+100, -1.e+100])
    """
    x = numbers(x, "x")
    if where is not None:
        x = namespace(x).where(mask_of(where, x), x, namespace(x).zeros((), x.dtype))
    if initial is not None:
        return _sum_after(initial, x, axis, dtype, out, keepdims)
    return REDUCTIONS["sum"]((x,), axis, dtype, out, keepdims)


@reduction(MEAN, torch="mean", jax="mean")
@repeatable
@on_device_of_arrays
def mean(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: Array | None = None,
) -> Any:
    """Return the mean over axes, correctly rounded: the exact sum divided by the count, rounded once.

    As `ozaki.sum`; differs in the division: integers and booleans have a float64 mean by default, and the
    mean of nothing is NaN.

    >>> mean(np.full(10, 0.1)) == 0.1
    np.True_
    """
    return REDUCTIONS["mean"]((numbers(x, "x"),), axis, dtype, out, keepdims, where)


@reduction(
    Reduction(
        (products,),
        rounded_totals,
        product_dtype,
        groups_on_gpu=moments.group_totals,
        groups_on_cpu=groups_enclosed.totals,
    ),
    torch="dot",
    example="x",
)
@repeatable
@on_device_of_arrays
def dot(
    x: Array, y: Array, axis: int | None = None, dtype: DType = None, out: Out = None, keepdims: bool = False
) -> Any:
    """Return the dot product along an axis, correctly rounded: neither argument is conjugated.

    Parameters
    ----------
    x, y : arrays that broadcast; dtypes as in `sum`. For vectors this is `numpy.dot`; of stacks of
        vectors it takes the product of each pair. Shapes of which `numpy.dot` makes something else, as it
        multiplies by matrices, need an axis; products with matrices are those of `ozaki.matmul`.
    axis : the axis, of the broadcast arrays, that is summed over; by default the last.
    dtype : dtype of the result, default that of x·y.
    out, keepdims : as in `sum`.

    Returns
    -------
    The exact Σ x·y rounded once. The products are exact too: none overflows or underflows. −0 if every
    product is −0, the zero of integers counting as +0; +0 if all factors are integers.

    Raises
    ------
    TypeError : not numeric, or NumPy and CuPy mixed.
    ValueError : shapes that do not broadcast, or that `numpy.dot` would multiply.

    References
    ----------
    Ogita, Rump and Oishi, Accurate sum and dot product (the error-free products).

    >>> dot(np.array([1e200, 1.0, 1e200]), np.array([1e200, 3.0, -1e200]))
    np.float64(3.0)
    """
    x, y = numbers(x, "x"), numbers(y, "y")
    if axis is None:
        check_matrices(x.shape, y.shape)
    return REDUCTIONS["dot"](_pair(x, y), -1 if axis is None else axis, dtype, out, keepdims)


@reduction(Reduction((conjugate_products,), rounded_totals, product_dtype), torch="vdot", example="x")
@repeatable
@on_device_of_arrays
def vdot(x: Array, y: Array, dtype: DType = None, out: Out = None) -> Any:
    """Return Σ conj(x)·y over all elements, correctly rounded: `numpy.vdot` with one rounding.

    As `ozaki.dot`; differs in conjugating x, and in flattening both. ValueError if one has more
    elements. The result is a scalar (an array of shape () on a GPU).

    >>> vdot(np.array([1 + 2j]), np.array([1 + 2j]))
    np.complex128(5+0j)
    """
    x, y = numbers(x, "x"), numbers(y, "y")
    if x.size != y.size:
        raise ValueError(f"x and y must have as many elements, got {x.size} and {y.size}")
    check_same_device(x=x, y=y)
    if x.shape != y.shape:
        x, y = x.reshape(-1), y.reshape(-1)
    return REDUCTIONS["vdot"]((x, y), None, dtype, out, False)


@reduction(
    Reduction((squares,), rounded_totals, quotient_dtype, root=True, real="a norm"), sparse=True, torch="norm"
)
@repeatable
@on_device_of_arrays
def norm(
    x: Array,
    ord: float | str | None = None,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
) -> Any:
    """Return the 2-norm over axes, correctly rounded, or that of another order: `numpy.linalg.norm`.

    As `ozaki.sum`; differs in being real, also for a complex x, and float64 for integers and booleans.
    √Σ|x|² is rounded once; neither the squares nor their sum overflow or underflow. Over two axes it is the
    Frobenius norm.

    Parameters
    ----------
    ord : None; "fro" over two axes; over one axis 2 or another number: ValueError for other norms. Of order
        1, Σ|x|, ∞ and −∞, the largest and the smallest |x|, and 0, the count of numbers that are not 0, it is
        rounded once, of complex x each |x| before that. Of another order p it is
        RN(RN(Σ RN(aᵖ))**RN(1/p))·2ᵉ in float64, a = |x|/2ᵉ: three roundings and that of 1/p, errors below
        2⁻⁵³·(2 + (2 + |log s|)/|p|), s the sum, and one to the dtype.

    >>> norm(np.array([3 * 2.0**900, 4 * 2.0**900])) / 2.0**900
    np.float64(5.0)
    >>> float(norm([3.0, -4.0], 1)), float(norm([1.0, 1.0, -1.0], 3))
    (7.0, 1.4422495703074083)
    """
    x = numbers(x, "x")
    if ord is not None:
        axes = len(axes_of(axis, x.ndim))
        if is_order(ord, axes):
            return norm_of_order(x, cast(float, ord), axis, dtype, out, keepdims)
        check_ord(ord, axes)
    return REDUCTIONS["norm"]((x,), axis, dtype, out, keepdims)


@reduction(Reduction((squares,), means, quotient_dtype, root=True, real="a root mean square"))
@repeatable
@on_device_of_arrays
def rms(
    x: Array,
    axis: Axis = None,
    dtype: DType = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: Array | None = None,
) -> Any:
    """Return the root mean square over axes, correctly rounded: √(Σ|x|²/n) of exact squares, rounded once.

    As `ozaki.norm`; differs in the division before the root, and in NaN for the root mean square of nothing.

    >>> rms(np.array([3 * 2.0**900, 4 * 2.0**900, 0.0, 0.0])) / 2.0**900
    np.float64(2.5)
    """
    return REDUCTIONS["rms"]((numbers(x, "x"),), axis, dtype, out, keepdims, where)


def _pair(x: Any, y: Any) -> tuple[Array, Array]:
    """Two arrays of numbers, broadcast to one shape."""
    xp = check_same_device(x=x, y=y)
    if x.shape != y.shape:
        broadcast_shape(x=x.shape, y=y.shape)
        x, y = xp.broadcast_arrays(x, y)
    return x, y


def _sum_after(initial: Any, x: Array, axis: Axis, dtype: DType, out: Out, keepdims: bool) -> Any:
    """The sums that begin with initial numbers, which go before the others on one axis."""
    axes = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, axes, keepdims)
    target, rows = REDUCTIONS["sum"].dtype((x,), dtype, out, shape), _after(initial, x, axes)
    return deliver(REDUCTIONS["sum"]((rows,), 0, target, None, False).reshape(shape), out)


def _after(initial: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """The array with its reduced axes as one, the first, which begins with the initial numbers."""
    first, kept = numbers(initial, "initial"), tuple(a for a in range(x.ndim) if a not in axes)
    x = x.astype(summed_dtype(x), copy=False)
    xp, shape = namespace(x), tuple(x.shape[a] for a in kept)
    converted = _without_loss(first, x.dtype)
    if converted is None:
        raise TypeError(f"initial must convert to {x.dtype} without loss, got {initial!r}")
    if first.ndim == x.ndim and all(first.shape[a] == 1 for a in axes):  # the sums' shape with keepdims
        converted = converted.squeeze(axes)
    if converted.shape not in ((), shape):
        raise ValueError(f"initial must be a number or have the sums' shape, {shape}, got {first.shape}")
    rows = x.transpose(axes + kept).reshape(prod(x.shape[a] for a in axes), *shape)
    return xp.concatenate([xp.broadcast_to(where_lies(x, converted), (1, *shape)), rows])


def _without_loss(x: Array, dtype: np.dtype) -> Array | None:
    """The numbers in another dtype, or None if that does not hold them; floating-point numbers hold NaN."""
    real = x if dtype.kind == "c" else x.real
    with np.errstate(all="ignore"):
        converted = real.astype(dtype)
        back = converted if real.dtype.kind == "c" else converted.real
        same = back.astype(real.dtype) == real
        if dtype.kind in "iu":
            same &= (converted < 0) == (real < 0)  # else it has wrapped around
        else:
            same |= real != real
        if real is not x and x.dtype.kind == "c":
            same &= x.imag == 0
    return None if anywhere(~same) else converted
