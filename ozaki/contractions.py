"""Contractions of tensors: paths from opt_einsum, and every pair of tensors one product of matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import NoneType
from typing import Any

import numpy as np
from numpy.exceptions import AxisError
from opt_einsum import contract_path
from opt_einsum.parser import parse_einsum_input
from opt_einsum.paths import get_path_fn

from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    conjugated,
    on_device_of_arrays,
)
from multiword.runtime.options import exactly, integer
from ozaki.api import matmul_of_arrays
from ozaki.arguments import check_accuracy, result_dtype
from ozaki.pairs_of_tensors import Accuracy, Labels, contracted, dots, lengths_of, summed
from ozaki.public import public


@public("Contractions", torch="einsum")
@on_device_of_arrays
def einsum(subscripts: str, *operands: Any, accuracy: Accuracy = None, optimize: Any = "auto") -> Array:
    """Return the sum of products that subscripts name: `numpy.einsum`, each pair of tensors one product.

    Parameters
    ----------
    subscripts : as for `numpy.einsum`, as a string: "ij,jk->ik". Labels may repeat within a tensor, occur in
        one tensor alone, and be an ellipsis, which is summed over where the output has none.
    operands : arrays of numbers, NumPy or CuPy.
    accuracy : of each product, as in `ozaki.matmul`; with "exact" the result of one or two tensors is
        correctly rounded. A single tensor's sums always are. Labels that are summed over in one of two
        tensors alone are summed before, exactly: the error is that of the product of these sums, a few words
        each.
    optimize : how opt_einsum finds the order of more than two tensors, or that order, a path.

    Returns
    -------
    Array of the dtype that `ozaki.matmul` has for the operands; of shape () a scalar.

    Raises
    ------
    TypeError : subscripts that are no string; operands that are not numeric, or NumPy and CuPy mixed.
    ValueError : subscripts that do not fit the operands; an unknown accuracy.

    References
    ----------
    Smith and Gray, opt_einsum, a Python package for optimizing contraction order for einsum-like expressions.

    >>> import numpy as np, ozaki
    >>> a = np.array([[1e16, 1.0, -1e16]])
    >>> ozaki.einsum("ij,ij->i", a, np.ones((1, 3)))
    array([1.])
    """
    if accuracy is not None:
        check_accuracy(accuracy)
    tensors = [as_array(x, f"operand {i}") for i, x in enumerate(operands)]
    labels, output, path = planned(subscripts, tuple([x.shape for x in tensors]), optimize)
    check_same_device(**{f"operand {i}": x for i, x in enumerate(tensors)})
    tensors = [exactly(f"operand {i}", x, result_dtype(x, x)) for i, x in enumerate(tensors)]
    if len(tensors) == 1:
        return summed(tensors[0], labels[0], output)[()]
    contract = partial(contracted, accuracy=accuracy)
    return pair_by_pair(tensors, [*labels], output, path, contract)[()]


def planned(
    subscripts: Any, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[Sequence[Labels], str, Sequence[tuple[int, ...]]]:
    """Return the labels of each tensor, those of the result, and the path by which one tensor remains.

    Raises TypeError or ValueError for subscripts that are none, or do not fit arrays of these shapes.
    """
    named = type(subscripts) is str and type(optimize) in (str, bool, NoneType)
    return (_plan_by_name if named else _plan)(subscripts, shapes, optimize)


def _plan(
    subscripts: Any, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[Sequence[Labels], str, Sequence[tuple[int, ...]]]:
    check_subscripts(subscripts, len(shapes))
    try:
        inputs, output, _ = parse_einsum_input((subscripts, *shapes), shapes=True)
    except ValueError as error:
        raise ValueError(f"subscripts {subscripts!r} do not fit arrays of shapes {shapes}: {error}") from None
    labels = tuple(inputs.split(","))
    lengths_of(shapes, labels)
    return labels, output, _path(f"{inputs}->{output}", shapes, optimize)


_plan_by_name = lru_cache(1024)(_plan)


def pair_by_pair(
    tensors: list[Any],
    labels: list[Labels],
    output: str,
    path: Sequence[tuple[int, ...]],
    contract: Callable[..., Any],
) -> Any:
    """Return the contraction of two tensors or more, each pair by contract(x, of_x, y, of_y, kept labels)."""
    for step in path:
        indices = sorted(step, reverse=True)  # as opt_einsum counts
        first, *others = ((tensors.pop(i), labels.pop(i)) for i in indices)
        for number, other in enumerate(others, 1):
            if not tensors and number == len(others):
                kept = list(output)
            else:
                remaining = [*labels, *(of_x for _, of_x in others[number:]), output]
                kept = [x for x in dict.fromkeys([*first[1], *other[1]]) if any(x in of for of in remaining)]
            first = contract(*first, *other, kept), kept
        tensors.append(first[0])
        labels.append(first[1])
    return tensors[0]


@public("Contractions")
@on_device_of_arrays
def tensordot(a: Any, b: Any, axes: Any = 2, *, accuracy: Accuracy = None) -> Array:
    """Return the product of tensors, summed over axes of both: `numpy.tensordot` as one product of matrices.

    Parameters
    ----------
    a, b : arrays of numbers, NumPy or CuPy.
    axes : how many of the last axes of a and the first of b, or two sequences of axes of equal length.
    accuracy : as in `ozaki.matmul`.

    Returns
    -------
    Array with the other axes of a, then those of b.

    Raises
    ------
    TypeError, ValueError : as `ozaki.einsum`; ValueError for axes that do not fit, AxisError for those that
        are not there.

    References
    ----------
    As `ozaki.accurate_dgemm`: Mukunoki, Ozaki, Ogita and Imamura; Ozaki, Uchino and Imamura.

    >>> import numpy as np, ozaki
    >>> ozaki.tensordot(np.ones((2, 3, 4)), np.ones((3, 4)))
    array([12., 12.])
    """
    a, b = as_array(a, "a"), as_array(b, "b")
    labels = _labels_of_numbers if type(axes) is int else _labels
    left, right, out = labels(a.shape, b.shape, axes)
    return contracted(a, left, b, right, out, accuracy)


@public("Contractions")
@on_device_of_arrays
def inner(a: Any, b: Any, *, accuracy: Accuracy = None) -> Array:
    """Return the sums of products over the last axes of both arrays: `numpy.inner`.

    As `ozaki.tensordot`; differs in the axes, and in that one of a and b may be a number.

    >>> import numpy as np, ozaki
    >>> ozaki.inner(np.array([1e16, 1.0, -1e16]), np.ones(3))
    np.float64(1.0)
    """
    a, b = as_array(a, "a"), as_array(b, "b")
    if not (a.ndim and b.ndim):
        return tensordot(a, b, 0, accuracy=accuracy)[()]
    left, right = tuple(range(a.ndim)), tuple(range(-b.ndim, 0))
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"the last axes of a and b are of different lengths: shapes {a.shape} and {b.shape}")
    return contracted(a, (*left[:-1], -1), b, right, (*left[:-1], *right[:-1]), accuracy)[()]


@public("Contractions")
@on_device_of_arrays
def outer(a: Any, b: Any, *, accuracy: Accuracy = None) -> Array:
    """Return the products of all elements of two arrays, which are flattened: `numpy.outer`.

    As `ozaki.tensordot`; differs in that nothing is summed.

    >>> import numpy as np, ozaki
    >>> ozaki.outer([1.0, 2.0], [3.0, 4.0])
    array([[3., 4.],
           [6., 8.]])
    """
    return tensordot(as_array(a, "a").ravel(), as_array(b, "b").ravel(), 0, accuracy=accuracy)


@public("Contractions")
@on_device_of_arrays
def vecdot(x: Any, y: Any, *, axis: int = -1, accuracy: Accuracy = None) -> Array:
    """Return Σ conj(x)·y along an axis of arrays that broadcast: `numpy.vecdot`.

    As `ozaki.matmul`; differs in the axes, and in being correctly rounded unless accuracy is "normwise" or a
    number of bits. `ozaki.dot` conjugates nothing.

    Parameters
    ----------
    x, y : arrays that broadcast.
    axis : of both, that is summed over.

    >>> import numpy as np, ozaki
    >>> ozaki.vecdot(np.array([[1j, 2.0]]), np.array([1j, 1.0]))
    array([3.+0.j])
    """
    x, y, axis = as_array(x, "x"), as_array(y, "y"), integer("axis", axis)
    for name, z in (("x", x), ("y", y)):
        if not -z.ndim <= axis < z.ndim:
            raise AxisError(f"axis {axis} is none of {name}, of shape {z.shape}")
    of_x, of_y, xp, dtype = x.shape, y.shape, check_same_device(x=x, y=y), result_dtype(x, y)
    x, y = exactly("x", x, dtype), exactly("y", y, dtype)
    if axis != -1:
        x, y = xp.moveaxis(x, axis, -1), xp.moveaxis(y, axis, -1)
    if not _pair_up(x.shape, y.shape):
        raise ValueError(
            f"x and y must be of one length along axis {axis} and broadcast, got shapes {of_x} and {of_y}"
        )
    x = conjugated(x) if x.dtype.kind == "c" else x
    if x.shape != y.shape:
        x, y = xp.broadcast_arrays(x, y)
    return dots(x, y, accuracy)[()]


@public("Contractions")
@on_device_of_arrays
def matvec(a: Any, x: Any, *, accuracy: Accuracy = None) -> Array:
    """Return the products of matrices and vectors, stacks of which broadcast: `numpy.matvec`.

    As `ozaki.matmul`; differs in that the last axis of x is that of vectors, however many it has.

    Parameters
    ----------
    x : (..., k) array.

    >>> import numpy as np, ozaki
    >>> ozaki.matvec(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    a, x = as_array(a, "a"), as_array(x, "x")
    if a.ndim < 2 or not x.ndim or not _pair_up((*a.shape[:-2], a.shape[-1]), x.shape):
        raise ValueError(
            "a must be matrices and x vectors as long as their rows, which broadcast, "
            f"got shapes {a.shape} and {x.shape}"
        )
    check_same_device(a=a, x=x)
    dtype = result_dtype(a, x)
    columns = exactly("x", x, dtype)[..., None]
    return matmul_of_arrays(exactly("a", a, dtype), columns, accuracy=accuracy)[..., 0]


def _pair_up(of_x: tuple[int, ...], of_y: tuple[int, ...]) -> bool:
    """Return whether stacks of vectors have vectors of one length and broadcast."""
    if of_x == of_y:
        return True
    try:
        np.broadcast_shapes(of_x[:-1], of_y[:-1])
    except ValueError:
        return False
    return of_x[-1] == of_y[-1]


def check_subscripts(subscripts: Any, operands: int) -> None:
    """Raise TypeError or ValueError for subscripts that are none, or not of so many operands."""
    if not isinstance(subscripts, str):
        raise TypeError(f"subscripts must be a string such as 'ij,jk->ik', got {type(subscripts).__name__}")
    if not operands:
        raise ValueError("einsum takes at least one operand")
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    for term in (*terms, output):
        labels = term.replace("...", "", 1).replace("×", "x").replace("÷", "x")  # opt_einsum's 76th and 108th
        if labels and not labels.isalpha():
            raise ValueError(f"subscripts must be letters, one '...' and one '->', got {subscripts!r}")
    if len(terms) != operands:
        raise ValueError(f"subscripts {subscripts!r} are of {len(terms)} operands, got {operands}")


def _path(equation: str, shapes: Sequence[tuple[int, ...]], optimize: Any) -> Sequence[tuple[int, ...]]:
    """Return opt_einsum's path, or the path that is given, by which one tensor remains."""
    if isinstance(optimize, list | tuple) and optimize and optimize[0] == "einsum_path":  # from NumPy's
        optimize = optimize[1:]
    if isinstance(optimize, list | tuple):
        path, remaining = list(optimize), len(shapes)
        for step in path:
            indices = {*step} if isinstance(step, list | tuple) else set()
            distinct = 0 < len(indices) == len(step) and indices <= {*range(remaining)}
            remaining -= len(indices) - 1 if distinct else remaining
        if remaining != 1:
            raise ValueError(f"optimize must be a path from {len(shapes)} operands to one, got {optimize!r}")
        return path
    try:
        if isinstance(optimize, str):
            get_path_fn(optimize)  # which opt_einsum leaves out where there is one order alone
        elif not (optimize is None or isinstance(optimize, bool) or callable(optimize)):
            raise TypeError
        return contract_path(equation, *shapes, shapes=True, optimize=optimize)[0]
    except (KeyError, TypeError):
        raise ValueError(
            f"optimize must be a path, or name an optimizer of opt_einsum, got {optimize!r}"
        ) from None


def _labels(
    of_a: tuple[int, ...], of_b: tuple[int, ...], axes: Any
) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """Return labels of the axes of tensors of these shapes, and of their product, summed over some axes."""
    first, second = _summed_axes(of_a, of_b, axes)
    left = [("a", i) for i in range(len(of_a))]
    right = [left[first[second.index(j)]] if j in second else ("b", j) for j in range(len(of_b))]
    return tuple(left), tuple(right), tuple(x for x in (*left, *right) if not (x in left and x in right))


_labels_of_numbers = lru_cache(1024)(_labels)
"""The same, where axes are their number."""


def _summed_axes(
    shape_of_a: tuple[int, ...], shape_of_b: tuple[int, ...], axes: Any
) -> tuple[list[int], list[int]]:
    """Return the axes of a and of b that are summed over together, counted from 0."""
    shapes = shape_of_a, shape_of_b
    of_both = tuple(map(len, shapes))
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(of_both):
            raise AxisError(f"axes must be from 0 to {min(of_both)}, got {axes}")
        axes = range(of_both[0] - axes, of_both[0]), range(axes)
    try:
        of_a, of_b = ([operator.index(i) for i in np.atleast_1d(of_x).tolist()] for of_x in axes)
    except (TypeError, ValueError):
        raise TypeError(f"axes must be an integer, or two sequences of integers, got {axes!r}") from None
    for ndim, of_x in zip(of_both, (of_a, of_b), strict=True):
        if any(not -ndim <= i < ndim for i in of_x):
            raise AxisError(f"axes {axes} do not fit arrays of shapes {shape_of_a} and {shape_of_b}")
        of_x[:] = (i % ndim for i in of_x)
        if len({*of_x}) < len(of_x):
            raise ValueError(f"axes {axes} name an axis twice")
    if [shape_of_a[i] for i in of_a] != [shape_of_b[j] for j in of_b]:
        raise ValueError(f"axes {axes} are of different lengths in shapes {shape_of_a} and {shape_of_b}")
    return of_a, of_b
