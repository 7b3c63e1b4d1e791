"""A product in pieces: residues of the products of blocks, added over the inner dimension, rounded once.

    rows         statistics of every row of A and column of B, merged over blocks         (`scales`)
    equilibrate  for "fp64" and "fp32", a graded inner dimension                          (`equilibration`)
    certificate  for "fp64" and "fp32", one for the whole product                         (`certificate`)
    multiply     for blocks (i, h) and (h, j): the residues of their product, with the scales of whole rows
    add          over h, modulo p, in any tree
    reconstruct  C' of block (i, j) from its residues, rounded once

Each block (i, j) is scaled, split and multiplied by the steps of `ozaki.product.steps`. Where the inner
dimension is in one piece, one task takes all of them, and there are no residues to add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.engines import Engine
from multiword.runtime.arrays import Array, namespace, quietly, real_parts
from ozaki.arguments import matrices_of
from ozaki.dask.arguments import known_chunks, like_arrays, without_empty_chunks
from ozaki.dask.certificate import widening
from ozaki.dask.equilibration import equilibrated
from ozaki.dask.known import Decision, Known, factors
from ozaki.dask.memory import task
from ozaki.dask.request import Asked, asked_for
from ozaki.dask.scales import Rows, merged_rows
from ozaki.dask.trees import as_it_is, merged
from ozaki.execution.eager import scale
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.product.factor import Factor
from ozaki.product.panels import in_panels
from ozaki.product.request import Request
from ozaki.product.steps import ScaledProduct, execute, widened_product
from ozaki.residues.partial import add_residues, as_products, no_residues, put_residues
from ozaki.scaling.statistics import NONFINITE_ROW

_TASK = "ozaki.dask.matmul"


@dataclass(frozen=True)
class PartialProduct:
    """Residues of the product of some blocks of the inner dimension.

    Attributes
    ----------
    residues : (images, N, m, n), in as few bytes as hold them.
    scaled : the integers: the scales, and the scheme.
    nonfinite : (m, n), the share of these blocks in rows and columns with an Inf or NaN, if there are any.
    """

    residues: Array
    scaled: ScaledProduct
    nonfinite: Array | None

    def __sizeof__(self) -> int:
        return int(self.residues.nbytes + (0 if self.nonfinite is None else self.nonfinite.nbytes))

    def add(self, other: PartialProduct) -> PartialProduct:
        """The product of both parts of the inner dimension."""
        residues = add_residues(self.residues, other.residues, self.scaled.scheme.system)
        nonfinite = self.nonfinite
        if nonfinite is not None:
            with np.errstate(invalid="ignore"):
                nonfinite = nonfinite + other.nonfinite
        return PartialProduct(residues, self.scaled, nonfinite)


def matmul(
    a: Any,
    b: Any,
    *,
    accuracy: str | int | None = None,
    scheme: str = "auto",
    engine: str | Engine = "auto",
    workspace: int | None = None,
    split_every: int | None = None,
) -> da.Array:
    """Multiply Dask arrays lazily, with the bits of `ozaki.matmul` of the whole arrays.

    Parameters
    ----------
    a, b : (m, k) and (k, n) Dask arrays, or vectors, with chunks of any known sizes, NumPy's or CuPy's; the
        inner dimension is cut alike in both. A task holds a block of each, and a chunk of the result or,
        where the inner dimension is cut, its residues: for float64 about 16 bytes an element with fp64 words,
        10 to 20 with int8.
    accuracy : as in `ozaki.matmul`. "exact" and bits take the blocks of a and b three times, twice for
        statistics of their rows; "fp64" and "fp32" up to five times, because their certificate is one for the
        whole product, and up to seven times where the inner dimension is graded. Where it is not cut,
        statistics take them once.
    scheme : "auto" or "residues": residues are what adds up.
    engine : by name, or picklable; as in `ozaki.matmul`.
    workspace : bytes that each task may use, as in `ozaki.matmul`.
    split_every : how many partial products a task adds, as in `dask.array.reduction`.

    Returns
    -------
    (m, n) Dask array, or a vector or a number, as for `numpy.matmul`, with the chunks of a's rows and b's
    columns.

    Raises
    ------
    TypeError, MemoryError : as `ozaki.matmul`, in a task where the numbers decide, which the error names.
    ValueError : as `ozaki.matmul`; chunks of unknown sizes; stacks.

    References
    ----------
    Ozaki, Uchino and Imamura, Ozaki scheme II (residues).

    >>> import dask.array as da
    >>> a = da.from_array(np.array([[1e16, 1.0, -1e16]]), chunks=1)
    >>> matmul(a, da.ones((3, 1), chunks=(2, 1)), accuracy="exact").compute()
    array([[1.]])
    """
    x, y = known_chunks(a, "a"), known_chunks(b, "b")
    like_arrays(a=x, b=y)
    asked = asked_for(x, y, accuracy, scheme, engine, workspace)
    left, right, _ = matrices_of(x, y)
    out = _product(left, right, asked, split_every)
    if x.ndim == 1:
        out = out[0]
    return out[..., 0] if y.ndim == 1 else out


def _product(a: da.Array, b: da.Array, asked: Asked, split_every: int | None) -> da.Array:
    """The product of matrices."""
    shape, chunks = (a.shape[0], b.shape[1]), (a.chunks[0], b.chunks[1])
    meta = meta_from_array(a._meta, ndim=2, dtype=asked.dtype)
    if 0 in (*a.shape, *b.shape):
        return da.zeros_like(meta, shape=shape, chunks=chunks, dtype=asked.dtype)
    _, (a, b) = da.core.unify_chunks(a, "ih", b, "hj")
    a, b = without_empty_chunks(a), without_empty_chunks(b)
    rows, columns = merged_rows(a, 0, asked.dtype), merged_rows(b, 1, asked.dtype)
    known = Known(rows, columns)
    if asked.request(a._meta).certified:
        known = equilibrated(a, b, rows, columns, asked)
        known = replace(known, decision=widening(a, b, known, asked, split_every))
    blocks = (a, "ih", b, "hj", *known.pairs(a))
    if len(a.chunks[1]) == 1:
        multiply = task(f"{_TASK}, products of blocks", _multiply_whole, asked=asked)
        options = {"align_arrays": False, "dtype": asked.dtype, "meta": meta, "token": "ozaki-matmul"}
        out = da.blockwise(multiply, "ij", *blocks, **options)
    else:
        out = _in_pieces(blocks, asked, split_every, meta)
    return out if out.chunks == chunks else out.rechunk(chunks)


def _in_pieces(blocks: tuple[Any, ...], asked: Asked, split_every: int | None, meta: Array) -> da.Array:
    """The product of matrices whose inner dimension is cut: residues, added up."""
    products = da.blockwise(
        task(f"{_TASK}, products of blocks", _multiply, asked=asked),
        "ihj",
        *blocks,
        adjust_chunks={"h": lambda _: 1},
        align_arrays=False,
        dtype=asked.dtype,
        meta=np.empty((0, 0, 0), object),
        token="ozaki-matmul-products",
    )
    return da.reduction(
        products,
        as_it_is,
        task(f"{_TASK}, reconstruction", _finished, asked=asked),
        axis=1,
        dtype=asked.dtype,
        combine=task(f"{_TASK}, sums of residues", merged, merge=PartialProduct.add),
        name="ozaki-matmul",
        concatenate=False,
        split_every=split_every,
        meta=meta,
    )


def _multiply(x: Array, y: Array, *known: Any, asked: Asked) -> PartialProduct:
    """The residues of the product of two blocks."""
    with quietly(x):
        scaled, a, b, request = _scaled(x, y, asked, *known)
        scheme = scaled.scheme
        system: Any = scheme.system
        residues = no_residues(system, (system.images, len(system.moduli), a.rows, b.rows), x)

        def keep(products: Array, of_rows: slice, of_columns: slice) -> None:
            put_residues(products, system, residues[:, :, of_rows, of_columns])

        in_panels(scheme, a, b, scaled.scales, request.engine, request.workspace, keep)
        nonfinite = None
        if _any_nonfinite(scaled):
            nonfinite = namespace(x).zeros((a.rows, b.rows), asked.dtype)
            overwrite_nonfinite(a.parts, b.parts, scaled.scales, nonfinite)
        return PartialProduct(residues, scaled, nonfinite)


def _multiply_whole(xs: list[Array], ys: list[Array], *known: Any, asked: Asked) -> Array:
    """The rounded product of two blocks with all of the inner dimension."""
    (x,), (y,) = xs, ys
    with quietly(x):
        scaled, a, b, request = _scaled(x, y, asked, *known)
        out = namespace(x).empty((a.rows, b.rows), asked.dtype)
        execute(scaled, a, b, request, out)
        if _any_nonfinite(scaled):
            overwrite_nonfinite(a.parts, b.parts, scaled.scales, out)
        return out


def _scaled(
    x: Array, y: Array, asked: Asked, rows: Rows, columns: Rows, decision: Decision | None = None, *known: Any
) -> tuple[ScaledProduct, Factor, Factor, Request]:
    """The integers of two blocks of whole rows, and the factors that these are."""
    request = asked.request(x)
    a, b, left, right = factors(x, y, asked, rows, columns, decision, *known)
    if decision is None:
        scaled = scale(left, right, request)[1]
    else:
        scaled = widened_product(left, right, request, decision.bits)
    return scaled, a, b, request


def _any_nonfinite(scaled: ScaledProduct) -> bool:
    """Whether there are rows or columns with an Inf or NaN; a device is waited for."""
    return any(bool((s == NONFINITE_ROW).any()) for s in scaled.scales)


def _finished(parts: Any, *, asked: Asked, **_: Any) -> Array:
    """The rounded block of the result."""
    total = merged(parts, merge=PartialProduct.add)
    scheme, scales = total.scaled.scheme, total.scaled.scales
    xp = namespace(total.residues)
    with quietly(total.residues):
        out = xp.empty(total.residues.shape[2:], asked.dtype)
        scheme.reconstruct(as_products(total.residues, scheme.system), scales, out)
        if total.nonfinite is not None:
            rows, columns = (s == NONFINITE_ROW for s in scales)
            concerned = rows[:, None] | columns[None, :]
            for part, value in zip(real_parts(out), real_parts(total.nonfinite), strict=True):
                part[...] = xp.where(concerned, xp.where(xp.isnan(value), xp.nan, value), part)
    return out
