"""Small products on a CPU without residues, where numba is there: the same integers, so the same bits."""

from __future__ import annotations

from functools import cache, lru_cache
from types import ModuleType

import numpy as np

from multiword.engines.host import Host
from multiword.formats import FORMATS
from multiword.runtime.parallel import over_rows
from ozaki.certificate.counting import OCTAVES
from ozaki.certificate.decision import WIDENED_BY_COUNTING, counting_tolerance
from ozaki.factor import Factor
from ozaki.pipeline import TARGETS, Request
from ozaki.scaling.scales import NONFINITE_ROW, norm_limit

LONGEST = 128
"""Numbers in a row, at most: of longer ones, float64 would not hold the sums of four digits."""

LARGEST = 1 << 21
"""Multiplications of real numbers in a product, at most: larger ones are faster by a BLAS."""


@cache
def compiled() -> tuple[ModuleType, ModuleType] | None:
    """The compiled steps, compiled now; None without numba."""
    try:
        from ozaki.execution import small_numba
        from ozaki.scaling import scales_numba
    except ImportError:
        return None
    return scales_numba, small_numba


def small_product(a: Factor, b: Factor, request: Request) -> np.ndarray | None:
    """The product of two factors; None if it is not small, or left to the pipeline."""
    if not _fits(a.matrix.shape, b.matrix.shape[1], len(a.parts), request):
        return None
    out, undone = _products(a.matrix[None], b.matrix.T[None], request)
    return None if undone[0] else out[0]


def small_products(
    rows: np.ndarray, columns: np.ndarray, request: Request
) -> tuple[np.ndarray, np.ndarray] | None:
    """The (s, m, n) products of (s, m, k) rows and (s, n, k) columns, and which are left to the pipeline.

    None if they are not small.
    """
    (s, m, k), n, parts = rows.shape, columns.shape[1], 1 + (rows.dtype.kind == "c")
    if not _fits((m, k), n, parts, request):
        return None
    out, undone = np.empty((s, m, n), rows.dtype), np.empty(s, np.bool_)

    def work(block: slice) -> None:
        out[block], undone[block] = _products(rows[block], columns[block], request)

    over_rows(work, s, max(m * n * k * parts**2, 1 << 10))
    return out, undone


def _fits(shape: tuple[int, ...], n: int, parts: int, request: Request) -> bool:
    """Whether such products are small, and no scheme, word or engine is asked for."""
    m, k = shape
    return (
        k * parts <= LONGEST
        and m * n * k * parts**2 <= LARGEST
        and 8 * (k * parts + 8) * (6 * n * parts + 32) <= request.workspace
        and request.scheme == "auto"
        and request.word is None
        and type(request.engine) is Host
        and compiled() is not None
    )


@lru_cache(64)
def _limits(accuracy: str, length: int) -> tuple[int, int, float, int, int]:
    """The norm limit, the tolerance of the counting bound, and the bits by which that may widen integers."""
    target = FORMATS[accuracy]
    limit = norm_limit(target, length)
    first, second = (bits for bits in limit.widenings if bits <= WIDENED_BY_COUNTING)
    return limit.significand, limit.bits, counting_tolerance(length, target), first, second


def _products(rows: np.ndarray, columns: np.ndarray, request: Request) -> tuple[np.ndarray, np.ndarray]:
    """The products, and which of them are left to the pipeline."""
    modules, target = compiled(), FORMATS[TARGETS[rows.dtype.name]]
    assert modules is not None
    scales_numba, small_numba = modules
    dtype = rows.dtype
    a, b = _real(rows, columns) if dtype.kind == "c" else (rows, columns)
    a, b = _as_float64(a), _as_float64(b)
    (s, m, k), n = a.shape, b.shape[1]
    of_a, of_b, undone = np.empty((s, 2, m), np.int64), np.empty((s, 2, n), np.int64), np.zeros(s, np.bool_)
    if request.certified:
        given = a, b, a.view(np.int64), b.view(np.int64), *_limits(str(request.accuracy), k)
        scratch = np.empty((2, s, OCTAVES + 1)), np.empty(scales_numba.COUNTS + 1, np.int64)
        scales_numba.certified_scales(*given, of_a, of_b, undone, *scratch)
    else:
        from ozaki.scaling.exact_numba import given_scales  # compiled only when asked for

        width = 0 if request.accuracy == "exact" else int(request.accuracy)
        for x, found in ((a, of_a), (b, of_b)):
            given_scales(x.view(np.int64), width, found)
            np.logical_or(undone, (found[:, 0] == NONFINITE_ROW).any(axis=1), out=undone)
    out, single = np.empty((s, m, n)), target.name == "fp32"
    small_numba.products(a, b, of_a, of_b, undone, single, out, *small_numba.work_arrays(k, n))
    if dtype.kind == "c":
        out = out.view(np.complex128)
    return out.astype(dtype, copy=False), undone


def _as_float64(x: np.ndarray) -> np.ndarray:
    """As what is compiled takes it: contiguous, and not read-only, which would be another type."""
    x = np.ascontiguousarray(x, np.float64)
    return x if x.flags.writeable else x.copy()


def _real(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A complex product as a real one: of (s, m, 2k) rows and (s, 2n, 2k) columns, parts side by side."""
    double = np.ascontiguousarray(rows, np.complex128)
    s, n, k = columns.shape
    parts = np.empty((s, n, 2, k, 2))
    parts[:, :, 0, :, 0] = parts[:, :, 1, :, 1] = columns.real
    parts[:, :, 1, :, 0] = columns.imag
    np.negative(columns.imag, out=parts[:, :, 0, :, 1])
    return double.view(np.float64), parts.reshape(s, 2 * n, 2 * k)
