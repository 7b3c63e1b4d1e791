"""Inf and NaN: the rows and columns concerned get what IEEE arithmetic gives them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from multiword.runtime.arrays import Array, is_cupy, put_one_nan, real_parts
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.tiles import REALS, StridedParts, strided_parts
from ozaki.scaling.statistics import NONFINITE_ROW


def overwrite_nonfinite(
    a: list[Array], b: list[Array], scales: tuple[Array, Array], out: Array, stack: int = 1
) -> None:
    """Overwrite the rows and columns of `out` to which an Inf or NaN contributes.

    Every element there is Inf or NaN, and which does not depend on the size of the finite
    elements: a·Inf is NaN for a = 0, else Inf of the product's sign, and a sum is NaN when one
    term is, or when infinities of both signs meet. So finite elements are replaced by their
    signs first, and no finite sum can overflow. NaNs are the canonical one. On a GPU, nothing is waited for.

    Parameters
    ----------
    a, b : (m, k) and (n, k) real parts; of a stack, those of all its matrices, one below the other.
    scales : those of the rows of `a` and of `b`; NONFINITE_ROW marks the ones concerned.
    out : (m, n) array, real or complex, written to; of a stack, (m, n // stack).
    stack : products in it.
    """
    if is_cupy(out):
        _overwrite_device(a, b, scales, out, stack)
        return
    # Which products of the stack have such rows or columns.
    marked = [(s == NONFINITE_ROW).reshape(stack, -1).any(axis=1) for s in scales]
    for i in np.flatnonzero(marked[0] | marked[1]):
        rows, columns = (slice(i * len(s) // stack, (i + 1) * len(s) // stack) for s in scales)
        of_product = scales[0][rows], scales[1][columns]
        _overwrite_host([x[rows] for x in a], [x[columns] for x in b], of_product, out[rows])


def _overwrite_host(
    a: list[np.ndarray], b: list[np.ndarray], scales: tuple[np.ndarray, np.ndarray], out: np.ndarray
) -> None:
    rows, columns = (np.flatnonzero(s == NONFINITE_ROW) for s in scales)
    if rows.size:
        for part, value in zip(real_parts(out), _products([x[rows] for x in a], b), strict=True):
            part[rows] = value
    if columns.size:
        for part, value in zip(real_parts(out), _products(a, [x[columns] for x in b]), strict=True):
            part[:, columns] = value


def _products(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    """Return the real parts of A·Bᵀ by the defining formula, for signs, infinities and NaNs."""
    a, b = ([np.where(np.isfinite(x), np.sign(x), x) for x in parts] for parts in (a, b))
    if len(a) == 1:
        results = [a[0] @ b[0].T]
    else:
        results = [a[0] @ b[0].T - a[1] @ b[1].T, a[0] @ b[1].T + a[1] @ b[0].T]
    return [one_nan(x) for x in results]


def one_nan(x: Array) -> Array:
    """Return numbers with the canonical NaN in place of any other."""
    result = x.copy()
    put_one_nan(result)
    return result


class Elements(Struct):
    """Pointers to the elements of a stack of products, for rows of A and of Bᵀ; strides in elements."""

    _fields_ = (
        *members(ctypes.c_void_p, "part0", "part1"),
        *members(ctypes.c_longlong, "product_stride", "a_stride", "b_stride"),
        *members(ctypes.c_int, "rows_a", "rows_b"),
    )


_CONSTANTS = {"NONFINITE_ROW": NONFINITE_ROW, "ROWS": 8}
_OVERWRITE = Kernel(
    "overwrite_nonfinite",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {**_CONSTANTS, "REAL": t, "PARTS": parts}
        for t, parts in (("float", 1), ("double", 1), ("float", 2), ("double", 2), ("BFloat16", 1))
    ),
    (StridedParts, Elements),
    equals="ozaki.definition.products.product",
)


def _overwrite_device(
    a: list[Array], b: list[Array], scales: tuple[Array, Array], out: Array, stack: int
) -> None:
    """Overwrite the rows and the columns at once: an element that lies in one of each is the row's."""
    parts = real_parts(out)
    scale_a, scale_b = (s.astype(np.int32, copy=False) for s in scales)
    rows_a, rows_b = len(scale_a) // stack, len(scale_b) // stack
    a_stride, b_stride = (stride // parts[0].itemsize for stride in parts[0].strides)
    elements = Elements(
        part0=parts[0],
        part1=parts[-1],
        product_stride=a_stride * rows_a,
        a_stride=a_stride,
        b_stride=b_stride,
        rows_a=rows_a,
        rows_b=rows_b,
    )
    arguments = (strided_parts(a)[0], scale_a, strided_parts(b)[0], scale_b, elements)
    blocks = (sum(-(-len(s) // _CONSTANTS["ROWS"]) for s in scales),)
    real = REALS[parts[0].dtype.name]
    _OVERWRITE(blocks, (256,), arguments, **_CONSTANTS, REAL=real, PARTS=len(parts))
