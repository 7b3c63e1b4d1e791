"""The arguments of the public products: matrices, stacks, options, and the errors for invalid ones."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from multiword.engines import Engine, get_engine
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_out,
    check_same_device,
    conjugated,
    device_of,
    is_cupy,
    namespace,
)
from multiword.runtime.memory import default_workspace
from multiword.runtime.options import exactly, transposition, workspace_bytes
from ozaki.product.factor import Factor
from ozaki.product.operand import SIDES, Operand, matrix_of
from ozaki.product.pair import is_own_transpose
from ozaki.product.panels import room_for_words
from ozaki.product.request import CERTIFIED, NORMWISE, SCHEMES, Request, forced
from ozaki.sums.arguments import deliver

WIDEST = 2200
"""The most bits of an accuracy: no two finite float64 numbers are more bits apart."""

_ACCURACIES = (*CERTIFIED, NORMWISE, "exact")


def result_dtype(x: Array, y: Array) -> np.dtype:
    """Return the smallest of the four dtypes of results that holds both."""
    return _promoted(x.dtype, y.dtype)


@cache
def _promoted(of_x: np.dtype, of_y: np.dtype) -> np.dtype:
    names = {t.name for t in (of_x, of_y)}
    if names <= {"float16", "bfloat16", "float32"}:
        return np.dtype(np.float32)
    if names <= {"float16", "bfloat16", "float32", "complex64"}:
        return np.dtype(np.complex64)
    return np.dtype(np.complex128 if "c" in (of_x.kind, of_y.kind) else np.float64)


def matrix_or_operand(x: Any, name: str) -> Array:
    """Return the array that an argument is, or was prepared from."""
    return as_array(x if type(x) is np.ndarray else matrix_of(x), name)


def as_matrix(name: str, x: Array, dtype: Any, trans: bool | str) -> Array:
    """Return op(X) as a matrix of the dtype: a view where nothing needs converting."""
    if x.ndim != 2:
        raise ValueError(f"{name} must be a matrix, got an array of shape {x.shape}")
    x = exactly(name, x, dtype)
    x = x.T if trans else x
    return conjugated(x) if trans == "C" and x.dtype.kind == "c" else x


def factors_of(
    a: Any, b: Any, dtype: Any, trans_a: bool | str = False, trans_b: bool | str = False
) -> tuple[Factor, Factor]:
    """Return both factors of a product of matrices, or operands, in a dtype."""
    if trans_a is trans_b is False and _fit_as_they_are(a, b, dtype):
        return Factor(a, 0), Factor(b, 1)
    trans_a, trans_b = transposition("trans_a", trans_a), transposition("trans_b", trans_b)
    views = []
    for name, side, x, trans in (("a", 0, a, trans_a), ("b", 1, b, trans_b)):
        array = matrix_or_operand(x, name)
        views.append(as_matrix(name, array, array.dtype, trans))
        if isinstance(x, Operand):
            factor = x.factor
            if factor.side != side or factor.matrix.dtype != dtype or trans:
                raise ValueError(
                    f"{name} was prepared as the {SIDES[factor.side]} factor in {factor.matrix.dtype}; "
                    f"here it is the {SIDES[side]} one in {np.dtype(dtype)}, transposed: {trans}"
                )
    x, y = views
    check_same_device(a=x, b=y)
    x, y = both_exactly(x, y, dtype)
    left = a.factor if isinstance(a, Operand) else Factor(x, 0)
    right = b.factor if isinstance(b, Operand) else Factor(y, 1)
    if left.k != right.k:
        raise ValueError(f"inner dimensions differ: a is {left.matrix.shape}, b is {right.matrix.shape}")
    return left, right


def both_exactly(a: Array, b: Array, dtype: Any) -> tuple[Array, Array]:
    """Return both factors, or stacks of them, in a dtype; of a matrix and its own transpose, views of one."""
    left = exactly("a", a, dtype)
    if left is not a and is_own_transpose(a, b):
        return left, left.swapaxes(-1, -2)
    return left, exactly("b", b, dtype)


def _fit_as_they_are(a: Any, b: Any, dtype: Any) -> bool:
    """Return whether both are matrices of that dtype that fit each other: nothing to convert, no error."""
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is not np.ndarray and not (is_cupy(a) and a.data.device_id == b.data.device_id):
        return False
    of_a, of_b = a.shape, b.shape
    return len(of_a) == len(of_b) == 2 and of_a[1] == of_b[0] and bool(a.dtype == dtype == b.dtype)


def matrices_of(x: Array, y: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Return both arguments of `matmul`, vectors with an axis more, and the shape of their stack."""
    of_x, of_y = tuple(x.shape), tuple(y.shape)  # of tensors, too, as messages show them
    if not (of_x and of_y):
        raise ValueError(f"a and b must have at least one dimension, got shapes {of_x} and {of_y}")
    left = x[None] if len(of_x) == 1 else x
    right = y[:, None] if len(of_y) == 1 else y
    of_a, of_b, k, other_k = left.shape[:-2], right.shape[:-2], of_x[-1], right.shape[-2]
    if k != other_k:
        raise ValueError(f"inner dimensions differ: a is {of_x} with k = {k}, b is {of_y} with k = {other_k}")
    if of_a == of_b:
        return left, right, of_a
    try:
        return left, right, np.broadcast_shapes(of_a, of_b)
    except ValueError:
        raise ValueError(f"the stacks of a, {of_x}, and b, {of_y}, do not broadcast") from None


def check_matmul_out(out: Any, x: Array, y: Array, dtype: Any) -> None:
    """Check an array that the result of `matmul` is to be written to, if there is one."""
    if out is not None:
        left, right, batch = matrices_of(x, y)
        rows, columns = left.shape[-2:-1] * (x.ndim > 1), right.shape[-1:] * (y.ndim > 1)
        check_out(out, x, (*batch, *rows, *columns), dtype)


def in_numpy_shape(result: Array, x: Array, y: Array, out: Array | None) -> Array:
    """Return a stack of products without the axes that vectors have been given; in `out`, if there is one."""
    result = result[..., 0, :] if x.ndim == 1 else result
    result = result[..., 0] if y.ndim == 1 else result
    if out is None:
        return deliver(result, None)
    with device_of(result):
        return deliver(result, out)


def stacks_of(x: Array, y: Array) -> tuple[Array, Array]:
    """Return both arguments of `matmul` as stacks of matrices, broadcast against each other: views."""
    left, right, batch = matrices_of(x, y)
    return (_broadcast(left, batch), _broadcast(right, batch)) if batch else (left, right)


def _broadcast(x: Array, batch: tuple[int, ...]) -> Array:
    """Return a stack of matrices as one of that shape, a view."""
    return x if x.shape[:-2] == batch else namespace(x).broadcast_to(x, (*batch, *x.shape[-2:]))


def check_accuracy(accuracy: str | int) -> None:
    """Raise ValueError for an accuracy that no product has."""
    if not (isinstance(accuracy, str) and accuracy in _ACCURACIES):  # it nearly always is
        if not isinstance(accuracy, int | np.integer) or isinstance(accuracy, bool):
            names = ", ".join(map(repr, _ACCURACIES[:-1]))
            raise ValueError(f"accuracy must be {names}, 'exact' or a number of bits, got {accuracy!r}")
        if not 1 <= int(accuracy) <= WIDEST:
            raise ValueError(f"accuracy in bits must be between 1 and {WIDEST}, got {accuracy}")


def request_of(
    like: Array,
    accuracy: str | int,
    scheme: str,
    word: str | None,
    engine: str | Engine,
    workspace: int | None,
) -> Request:
    """Return the request of a product, checked."""
    by_names = word is workspace is None and type(accuracy) is type(scheme) is str
    if by_names and isinstance(engine, str) and type(like) is np.ndarray:
        return _of_names(accuracy, scheme, engine, forced.value)
    return _checked_request(like, accuracy, scheme, word, engine, workspace)


@lru_cache(256)
def _of_names(accuracy: str, scheme: str, engine: str, _: str | None) -> Request:
    """Return the request of products of NumPy's arrays: nearly all have the same, which is checked once.

    The last is the executor that is asked for.
    """
    return _checked_request(_ANY, accuracy, scheme, None, engine, None)


_ANY = np.empty(0)
"""An array of NumPy's, whichever."""


def _checked_request(
    like: Array,
    accuracy: str | int,
    scheme: str,
    word: str | None,
    engine: str | Engine,
    workspace: int | None,
) -> Request:
    check_accuracy(accuracy)
    if scheme != "auto" and scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}; known are auto, {', '.join(SCHEMES)}")
    limit = default_workspace(like) if workspace is None else workspace_bytes(workspace)
    if workspace is not None and not is_cupy(like):
        limit = room_for_words(limit)
    return Request(accuracy, scheme, word, get_engine(engine, like), limit, forced.value)
