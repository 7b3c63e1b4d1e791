"""The contraction of two tensors as one product of matrices, and sums of one, by labels of their axes."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, namespace, put_one_nan
from multiword.runtime.readback import all_finite
from ozaki.api import matmul_of_arrays
from ozaki.arguments import check_accuracy, result_dtype
from ozaki.product.request import NORMWISE
from ozaki.sums.api import dot
from ozaki.sums.api import sum as exact_sum
from ozaki.sums.exactsum import ExactSum, taken_words

Labels = Sequence[Any]
Accuracy = str | int | None


def lengths_of(shapes: Sequence[tuple[int, ...]], labels: Sequence[Labels]) -> dict[Any, int]:
    """Return the length of every label; axes of length 1 broadcast. ValueError where shapes do not fit."""
    lengths: dict[Any, int] = {}
    for shape, of_x in zip(shapes, labels, strict=True):
        if len(of_x) != len(shape):
            raise ValueError(f"subscripts {of_x!r} do not fit an operand of shape {shape}")
        for label, length in zip(of_x, shape, strict=True):
            if lengths.setdefault(label, length) == 1:
                lengths[label] = length
            if length not in (1, lengths[label]):
                raise ValueError(f"label {label!r} stands for axes of lengths {lengths[label]} and {length}")
    return lengths


def contracted(x: Array, of_x: Labels, y: Array, of_y: Labels, out: Labels, accuracy: Accuracy) -> Array:
    """Return the product of two tensors, summed over all labels that `out` lacks, as one product of matrices.

    What is summed over of one tensor alone are the words of its sums, along which the other is broadcast.
    """
    of_x, of_y, out = tuple(of_x), tuple(of_y), tuple(out)
    layouts = _as_product(x.shape, of_x, y.shape, of_y, out)
    if layouts is None:
        (x, of_x), (y, of_y) = _diagonal(x, of_x), _diagonal(y, of_y)
        x, of_x = _summed_alone(x, of_x, y, {*of_y, *out}, "words of x")
        y, of_y = _summed_alone(y, of_y, x, {*of_x, *out}, "words of y")
        layouts = _layouts(x.shape, tuple(of_x), y.shape, tuple(of_y), out)
    left, right, result = layouts
    multiply = dots if left.are_vectors else matmul_of_arrays
    return result(multiply(left(x), right(y), accuracy=accuracy))


class _Layout(NamedTuple):
    """How a tensor's numbers become those of another one: each step is left out where it changes nothing.

    Attributes
    ----------
    ones : the tensor's shape with axes of length 1 for the labels that it lacks.
    lengths : to which these broadcast.
    axes : their new order.
    shape : of the result: a stack of matrices, or of vectors, or a tensor.
    are_vectors : whether these are vectors.
    """

    ones: tuple[int, ...] | None
    lengths: tuple[int, ...] | None
    axes: tuple[int, ...] | None
    shape: tuple[int, ...] | None
    are_vectors: bool = False

    def __call__(self, x: Array) -> Array:
        x = x if self.ones is None else x.reshape(self.ones)
        x = x if self.lengths is None else namespace(x).broadcast_to(x, self.lengths)
        x = x if self.axes is None else x.transpose(self.axes)
        return x if self.shape is None else x.reshape(self.shape)


@lru_cache(1024)
def _as_product(
    shape_of_x: tuple[int, ...],
    of_x: tuple[Any, ...],
    shape_of_y: tuple[int, ...],
    of_y: tuple[Any, ...],
    out: tuple[Any, ...],
) -> tuple[_Layout, _Layout, _Layout] | None:
    """Return `_layouts`; None where a tensor has a label twice, or one that is summed over in it alone."""
    distinct = len({*of_x}) == len(of_x) and len({*of_y}) == len(of_y)
    if not distinct or not {*of_x} <= {*of_y, *out} or not {*of_y} <= {*of_x, *out}:
        return None
    return _layouts(shape_of_x, of_x, shape_of_y, of_y, out)


@lru_cache(1024)
def _layouts(
    shape_of_x: tuple[int, ...],
    of_x: tuple[Any, ...],
    shape_of_y: tuple[int, ...],
    of_y: tuple[Any, ...],
    out: tuple[Any, ...],
) -> tuple[_Layout, _Layout, _Layout]:
    """Return how two tensors become matrices, or vectors, and how the product of these becomes the result."""
    lengths = lengths_of((shape_of_x, shape_of_y), (of_x, of_y))
    inner = [label for label in lengths if label not in out]
    batch = [label for label in out if label in of_x and label in of_y]
    rows, columns = ([label for label in of if label in out and label not in batch] for of in (of_x, of_y))
    are_vectors = not (rows or columns)

    def layout(shape: tuple[int, ...], labels: Labels, *groups: Labels) -> _Layout:
        wanted = [*batch, *chain(*groups)]
        missing = [label for label in wanted if label not in labels]
        ones, labels = (*shape, *[1] * len(missing)), [*labels, *missing]
        full = tuple(lengths[label] for label in labels)
        axes = tuple(labels.index(label) for label in wanted)
        turned = tuple(lengths[label] for label in wanted)
        merged = *(lengths[label] for label in batch), *(math.prod(lengths[x] for x in g) for g in groups)
        return _Layout(
            ones if missing else None,
            full if full != ones else None,
            axes if axes != tuple(range(len(axes))) else None,
            merged if merged != turned else None,
            are_vectors,
        )

    made = [*batch, *rows, *columns]
    kinds = ([inner], [inner]) if are_vectors else ([rows, inner], [inner, columns])
    left, right = layout(shape_of_x, of_x, *kinds[0]), layout(shape_of_y, of_y, *kinds[1])
    axes = tuple(made.index(label) for label in out)
    apart = tuple(lengths[label] for label in made) if not are_vectors else None
    return left, right, _Layout(apart, None, axes if axes != tuple(range(len(axes))) else None, None)


def dots(x: Array, y: Array, accuracy: Accuracy) -> Array:
    """Return Σ x·y along the last axis of arrays of one shape.

    Products of a row and a column each are too small for words: unless the accuracy fixes the integers, exact
    sums are rounded once, which is as good as any accuracy asks for. Zeros are positive, as in products.
    """
    if accuracy is not None:
        check_accuracy(accuracy)
    if accuracy == NORMWISE or isinstance(accuracy, int | np.integer):
        return matmul_of_arrays(x[..., None, :], y[..., :, None], accuracy=accuracy)[..., 0, 0]
    dtype = result_dtype(x, y)
    single_on_gpu = is_cupy(x) and dtype == np.float32  # of whose products CuPy flushes subnormal ones
    if x.shape[-1] == 1 and dtype.kind == "f" and not single_on_gpu:
        xp = namespace(x)
        with np.errstate(all="ignore"):
            result = xp.asarray(xp.multiply(x[..., 0], y[..., 0], dtype=dtype))
        put_one_nan(result)
    else:
        result = dot(x, y, axis=-1, dtype=dtype)
    result += 0  # to a scalar in a tenth of the time that an array of no axes takes
    return namespace(x).asarray(result)


def _summed_alone(
    x: Array, of_x: Labels, y: Array, others: Container[Any], label: str
) -> tuple[Array, Labels]:
    """Return the exact sums of a tensor over labels that no others are: words, along a label of their own.

    The tensor as it is where there is nothing to add, or where words, or y, are not finite.
    """
    if all(map(others.__contains__, of_x)):
        return x, of_x
    kept = [i for i, name in enumerate(of_x) if name in others]
    shape = tuple(x.shape[i] for i in kept)
    if x.size <= math.prod(shape):
        return x, of_x
    xp, alone = namespace(x), [i for i in range(x.ndim) if i not in kept]
    words = taken_words(ExactSum(result_dtype(x, y), shape).add(x.transpose(*alone, *kept)))
    largest = next(words)
    if not (all_finite(largest) and all_finite(y)):
        return x, of_x
    found = [largest, *words]  # the last of several is 0
    return xp.stack(found[:-1] or found), [label, *(of_x[i] for i in kept)]


def _diagonal(x: Array, of_x: Labels) -> tuple[Array, Labels]:
    """Return a tensor whose labels are distinct: of axes that share one, the diagonal."""
    if len({*of_x}) == len(of_x):
        return x, of_x
    labels = list(of_x)
    while len({*labels}) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        first, second = [i for i, other in enumerate(labels) if other == label][:2]
        if x.shape[first] != x.shape[second]:
            raise ValueError(f"label {label!r} stands for axes of two lengths of a tensor of shape {x.shape}")
        x = x.diagonal(axis1=first, axis2=second)
        labels = [other for i, other in enumerate(labels) if i not in (first, second)] + [label]
    return x, labels


def summed(x: Array, of_x: Labels, out: Labels) -> Array:
    """Return the correctly rounded sums of a tensor over the labels that `out` lacks."""
    x, labels = _diagonal(x, of_x)
    axes = tuple(i for i, label in enumerate(labels) if label not in out)
    result = exact_sum(x, axes) if axes else x
    left = [label for label in labels if label in out]
    return namespace(x).transpose(result, [left.index(label) for label in out])
