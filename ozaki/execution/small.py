"""Small products on a CPU by compiled steps alone: the same integers as of all others, so the same bits.

Products with an Inf or NaN, graded ones, and those of stacks that the counting bound leaves undecided, are
left to the steps of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from multiword.engines import declared, multiplies_int8, reduces_residues
from multiword.engines.host import Host
from multiword.formats import Format
from multiword.runtime.compiled import compiled
from multiword.runtime.parallel import over_rows
from multiword.tuning import COMPILED_ELEMENTS, MOST_COMPILED_ELEMENTS
from ozaki.certificate.counted import counted_scales
from ozaki.certificate.counting import compute_bounds
from ozaki.certificate.decision import WIDENED_IN_ALL, Ask, answered, decide
from ozaki.certificate.magnitudes import Magnitudes
from ozaki.certificate.pairwise import pairwise_bound
from ozaki.product.factor import Factor
from ozaki.product.request import TARGETS, Request
from ozaki.product.steps import norm_widths
from ozaki.residues.system import residue_system
from ozaki.scaling.equilibration import is_level
from ozaki.scaling.exact import exact_scales
from ozaki.scaling.scales import norm_limit, widened, width_scales
from ozaki.scaling.statistics import NONFINITE_ROW, RowStatistics, statistics_of_rows
from ozaki.tuning import (
    LARGEST_IN_BYTES,
    LARGEST_MATRIX_IN_BYTES,
    LARGEST_SMALL_PRODUCT,
    OVERHEAD_ELEMENTS,
    SMALLEST_BY_KERNEL,
    SMALLEST_IN_BYTES,
    SMALLEST_OF_MANY,
)

LONGEST = 128
"""Numbers in a row, at most: of longer ones, products of four digits might not add up exactly in float64."""

FORM = "ozaki.execution.small_numba"


def small_product(a: Factor, b: Factor, request: Request) -> np.ndarray | None:
    """Return the product of two factors; None if it is not small, or undecided."""
    shape, dtype = (1, *a.matrix.shape, b.matrix.shape[1]), a.matrix.dtype
    form = _form(shape, dtype, request)
    if form is None or (form is _in_bytes and (a.prepared or b.prepared)):
        return None
    out, undecided = _products(form, a.matrix[None], b.matrix.T[None], request)
    return None if undecided[0] else out[0]


def small_products(
    rows: np.ndarray, columns: np.ndarray, request: Request
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the (s, m, n) products of (s, m, k) rows and (s, n, k) columns, and which are undecided.

    None if they are not small.
    """
    (s, m, k), n, parts = rows.shape, columns.shape[1], 1 + (rows.dtype.kind == "c")
    form = _form((s, m, k, n), rows.dtype, request)
    if form is None:
        return None
    out, undecided = np.empty((s, m, n), rows.dtype), np.empty(s, np.bool_)

    def work(block: slice) -> None:
        out[block], undecided[block] = _products(form, rows[block], columns[block], request)

    elements = parts**2 * max(m * n, m * k, n * k) + OVERHEAD_ELEMENTS
    over_rows(work, s, elements, COMPILED_ELEMENTS if form is _in_digits else MOST_COMPILED_ELEMENTS)
    return out, undecided


def _products(
    form: Form, rows: np.ndarray, columns: np.ndarray, request: Request
) -> tuple[np.ndarray, np.ndarray]:
    """Return the products, and which of them are undecided."""
    dtype, (x, sizes) = rows.dtype, _all_rows(rows, columns)
    out, undecided = form(x, sizes, request, TARGETS[dtype])
    if dtype.kind == "c":
        out = out.view(np.result_type(out.dtype, np.complex64))
    return out.astype(dtype, copy=False).reshape(sizes[0], sizes[1], -1), undecided


Sizes = tuple[int, int, int, int]
"""Of a stack: how many products, and their m, k, n."""

Form = Callable[[np.ndarray, Sizes, Request, Format], tuple[np.ndarray, np.ndarray]]
"""Returns the real products of the rows of all left matrices, then the columns of all right ones, in float64
or the target's dtype, one below the other; and which of them are undecided."""


def _form(sizes: Sizes, dtype: np.dtype, request: Request) -> Form | None:
    """Return the faster form for such products, if they are small, in default scheme, word and engine."""
    engine, parts = request.engine, 1 + (dtype.kind == "c")
    if not (isinstance(engine, Host) and engine.name == Host.name):
        return None
    if request.scheme != "auto" or request.word is not None:
        return None
    s, m, k, n = sizes[0], sizes[1], sizes[2] * parts, sizes[3] * parts
    together, one, numbers = s * m * k * n, m * k * n, max(m * k, k * n, m * n)
    in_cache = SMALLEST_OF_MANY <= one <= LARGEST_IN_BYTES and numbers <= LARGEST_MATRIX_IN_BYTES
    has_step = request.of_norms and k <= declared(engine, "longest_rows")
    if has_step and in_cache and together >= SMALLEST_IN_BYTES:
        room = _most_bytes(m, k, n) <= request.workspace
        if room and reduces_residues(engine, "int8", (m, k, n)):
            return _in_bytes
    fits = one <= LARGEST_SMALL_PRODUCT and k <= LONGEST
    room = 8 * (k + 8) * (6 * n + 32) <= request.workspace
    return _in_digits if fits and room and compiled(FORM) is not None else None


def _most_bytes(m: int, k: int, n: int) -> int:
    """Return what a product in bytes takes at most: residues modulo 29 numbers in whole tiles, and copies."""
    tiles = (m + n + 64) * (k + 64) + (m + 32) * (n + 32)
    return 30 * tiles + 8 * ((m + n) * k + m * n) + (1 << 17)


def _in_digits(
    x: np.ndarray, sizes: Sizes, request: Request, target: Format
) -> tuple[np.ndarray, np.ndarray]:
    """Cut integers into digits whose products float64 adds up exactly."""
    (s, m, k, n), form, single = sizes, compiled(FORM), target.precision == 24
    if request.of_norms:
        scale, width, bits = _norm_scales(x, sizes, request, target)
        undecided = bits < 0
    else:
        scale, width, undecided = _given_scales(x, s, n, request)
    out = np.empty((s * m, n))
    form.products(x, scale, width, undecided, single, out, *form.work_arrays(k, n))
    return out, undecided


def _in_bytes(x: np.ndarray, sizes: Sizes, request: Request, target: Format) -> tuple[np.ndarray, np.ndarray]:
    """As all larger products, but for a stack at once, in the widest integers that one of them takes."""
    scale, _, bits = _norm_scales(x, sizes, request, target)
    s, m, k, n = sizes
    out, widest = np.empty((s * m, n), target.dtype), int(bits.max())
    if widest >= 0:
        width, log2_c = norm_widths(norm_limit(request.norm_format(target), k), k, widest)
        system, engine = residue_system("int8", log2_c, k), cast(Any, request.engine)  # which has this step
        engine.multiply_rows(x, scale, (m, k, n), width, system, target, out)
    return out, bits < 0


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


def _norm_scales(
    x: np.ndarray, sizes: Sizes, request: Request, target: Format
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the norm scales, widened as the counting bound of each product requires, the widths, the bits.

    Products with -1 bits are undecided.
    """
    name, sums = request.norm_format(target).name, statistics_of_rows(x)
    counted = counted_scales(sums, x.shape[1], sizes[0], sizes[3], name, request.certified)
    assert counted is not None  # all is compiled
    scale, width, bits = counted
    if (
        sizes[0] == 1 and bits[0] < 0 and request.certified
    ):  # of stacks, those that are left are decided together
        bits[0] = _bits_by_decision(x, RowStatistics(*sums, x.shape[1]), scale, sizes, request)
        if bits[0] > 0:
            return widened(scale, int(bits[0])), width + bits[0].astype(np.int32), bits
    return counted


class _Undecided(Exception):
    """The data have an Inf or NaN, or may be graded: left to the pipeline."""


def _bits_by_decision(
    x: np.ndarray, statistics: RowStatistics, scale: np.ndarray, sizes: Sizes, request: Request
) -> int:
    """Return the bits that the integers of norm scales grow by, or -1."""
    _, m, k, n = sizes
    sides = slice(0, m), slice(m, None)
    numbers, scales = [x[rows] for rows in sides], (scale[:m], scale[m:])
    pending = compute_bounds((statistics[sides[0]], statistics[sides[1]]), scales, request.limits)
    by_kernel = m * k * n >= SMALLEST_BY_KERNEL and multiplies_int8(request.engine, (m, k, n))
    scheme = Magnitudes(1, "int8" if by_kernel else "fp32")

    def multiply(truncations: tuple[np.ndarray, np.ndarray], use: Callable[..., None]) -> None:
        if k > scheme.k_block:
            raise _Undecided
        left, right = (scheme.split([numbers[i]], truncations[i], i, 1) for i in range(2))
        use(scheme.multiply(left, right, request.engine, None), slice(None), slice(None))

    def answer(question: Ask) -> Any:
        if question is Ask.PAIRS:
            return pairwise_bound(pending.rows, k, multiply)()
        bounds = pending.wait()
        level = question is Ask.COUNTS or is_level(
            ([numbers[0]], [numbers[1]]), scales, norm_limit(request.limits, k)
        )
        if bounds.nonfinite or not level:
            raise _Undecided
        return bounds if question is Ask.COUNTS else False

    try:
        bits = answered(decide(request.limits), answer).bits
    except _Undecided:
        return -1
    return bits if bits <= WIDENED_IN_ALL else -1


def _given_scales(
    x: np.ndarray, stack: int, columns: int, request: Request
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the scales of a requested width, or the smallest that lose nothing, their widths, and which
    products have an Inf or NaN."""
    exponent, total, _, _ = statistics_of_rows(x)
    exact = request.accuracy == "exact"
    scale = exact_scales([x]) if exact else width_scales(exponent, int(request.accuracy))
    width = np.where(total > 0, exponent + scale, 0).astype(np.int32)
    sides = np.split(scale == NONFINITE_ROW, [len(x) - stack * columns])
    nonfinite = np.hstack([rows.reshape(stack, -1) for rows in sides])
    return scale, width, np.asarray(nonfinite.any(axis=1))
