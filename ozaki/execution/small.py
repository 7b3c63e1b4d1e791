"""Small products on a CPU without residues, where numba is there: the same integers, so the same bits.

Products that the counting bound leaves undecided, or with an Inf or NaN, are left to the steps of all others.
"""

from __future__ import annotations

import numpy as np

from multiword.engines.host import Host
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import over_rows
from multiword.tuning import COMPILED_ELEMENTS
from ozaki.certificate.counted import counted_scales
from ozaki.product.factor import Factor
from ozaki.product.request import NORMWISE, Request
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import width_scales
from ozaki.scaling.statistics import NONFINITE_ROW, statistics_of_rows
from ozaki.tuning import LARGEST_SMALL_PRODUCT, OVERHEAD_ELEMENTS

LONGEST = 128
"""Numbers in a row, at most: of longer ones, products of four digits might not add up exactly in float64."""

FORM = "ozaki.execution.small_numba"


def small_product(a: Factor, b: Factor, request: Request) -> np.ndarray | None:
    """Return the product of two factors; None if it is not small, or undecided."""
    if not _fits(a.matrix.shape, b.matrix.shape[1], a.matrix.dtype, request):
        return None
    out, undecided = _products(a.matrix[None], b.matrix.T[None], request)
    return None if undecided[0] else out[0]


def small_products(
    rows: np.ndarray, columns: np.ndarray, request: Request
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the (s, m, n) products of (s, m, k) rows and (s, n, k) columns, and which are undecided.

    None if they are not small.
    """
    (s, m, k), n, parts = rows.shape, columns.shape[1], 1 + (rows.dtype.kind == "c")
    if not _fits((m, k), n, rows.dtype, request):
        return None
    out, undecided = np.empty((s, m, n), rows.dtype), np.empty(s, np.bool_)

    def work(block: slice) -> None:
        out[block], undecided[block] = _products(rows[block], columns[block], request)

    over_rows(work, s, parts**2 * max(m * n, m * k, n * k) + OVERHEAD_ELEMENTS, COMPILED_ELEMENTS)
    return out, undecided


def _fits(shape: tuple[int, ...], n: int, dtype: np.dtype, request: Request) -> bool:
    """Return whether such a product is small, in default scheme, word and engine, and numba is there."""
    (m, k), parts = shape, 1 + (dtype.kind == "c")
    return (
        isinstance(request.engine, Host)
        and request.engine.name == Host.name
        and m * n * k * parts**2 <= LARGEST_SMALL_PRODUCT
        and k * parts <= LONGEST
        and 8 * (k * parts + 8) * (6 * n * parts + 32) <= request.workspace
        and request.scheme == "auto"
        and request.word is None
        and compiled(FORM) is not None
    )


def _products(rows: np.ndarray, columns: np.ndarray, request: Request) -> tuple[np.ndarray, np.ndarray]:
    """Return the products, and which of them are undecided."""
    dtype, form, single = rows.dtype, compiled(FORM), rows.dtype.char in "fF"
    x, (s, m, k, n) = _all_rows(rows, columns)
    if request.of_norms:
        scale, width, undecided = _norm_scales(x, s, n, request, "fp32" if single else "fp64")
    else:
        scale, width, undecided = _given_scales(x, s, n, request)
    out = np.empty((s * m, n))
    form.products(x, scale, width, undecided, single, out, *form.work_arrays(k, n))
    if dtype.kind == "c":
        out = out.view(np.complex128)
    return (out.astype(dtype) if single else out).reshape(s, m, -1), undecided


def _all_rows(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """The rows of all left matrices, then the columns of all right ones, and the sizes of real products.

    A complex product is a real one of (m, 2k) rows, parts side by side, and (2n, 2k) columns.
    """
    (s, m, k), n = rows.shape, columns.shape[1]
    if rows.dtype.kind != "c":
        x = np.empty((s * (m + n), k))
        x[: s * m].reshape(s, m, k)[...] = rows
        x[s * m :].reshape(s, n, k)[...] = columns
        return x, (s, m, k, n)
    x = np.empty((s * (m + 2 * n), 2 * k))
    x[: s * m].view(np.complex128).reshape(s, m, k)[...] = rows
    parts = x[s * m :].reshape(s, n, 2, k, 2)
    parts[:, :, 0, :, 0] = parts[:, :, 1, :, 1] = columns.real
    parts[:, :, 1, :, 0] = columns.imag
    # Not by out=: NumPy 2.4 negates numbers 64 bytes apart wrongly where the result has strides, too.
    parts[:, :, 0, :, 1] = -columns.imag
    return x, (s, m, 2 * k, 2 * n)


Scales = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The scales of all rows, the most bits of their integers, and which products are undecided."""


def _norm_scales(x: np.ndarray, stack: int, columns: int, request: Request, target: str) -> Scales:
    """Return the norm scales, widened as the counting bound of each product requires."""
    certified = request.accuracy != NORMWISE
    limits = str(request.accuracy) if certified else target
    counted = counted_scales(statistics_of_rows(x), x.shape[1], stack, columns, limits, certified)
    assert counted is not None  # all is compiled
    scale, width, bits = counted
    return scale, width, bits < 0


def _given_scales(x: np.ndarray, stack: int, columns: int, request: Request) -> Scales:
    """Return the scales of a requested width, or the smallest that lose nothing."""
    exponent, total, _, _ = statistics_of_rows(x)
    exact = request.accuracy == "exact"
    scale = exact_scales([x]) if exact else width_scales(exponent, int(request.accuracy))
    width = np.where(total > 0, exponent + scale, 0).astype(np.int32)
    sides = np.split(scale == NONFINITE_ROW, [len(x) - stack * columns])
    nonfinite = np.hstack([rows.reshape(stack, -1) for rows in sides])
    return scale, width, np.asarray(nonfinite.any(axis=1))
