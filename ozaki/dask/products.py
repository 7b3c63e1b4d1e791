"""A product in blocks: residues of their products, added over the inner dimension, rounded once.

    statistics   of each row of A and column of B, merged over blocks                     (`statistics`)
    decision     for "fp64" and "fp32", one for the whole product                         (`decision`)
    multiply     for blocks (i, h) and (h, j): the residues of their product, with the scales of whole rows
    add          over h, modulo p, in any tree
    reconstruct  C' of block (i, j) from its residues, rounded once

Each block (i, j) is scaled, split and multiplied by the steps of `ozaki.product.steps`. Where the inner
dimension is in one chunk, one task takes all of them, and there are no residues to add.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.engines import Engine
from multiword.engines.moduli import ResidueSystem
from multiword.runtime.arrays import Array, namespace, quietly
from multiword.runtime.options import exactly
from multiword.runtime.readback import anywhere
from ozaki import api
from ozaki.arguments import matrices_of, request_of, result_dtype
from ozaki.dask.arguments import (
    SplitEvery,
    as_chunk,
    known_chunks,
    like_arrays,
    partial_sums_a_task,
    without_empty_chunks,
)
from ozaki.dask.decision import Answers, MakeRequest, certificate, certify, factors
from ozaki.dask.integers import integer_product
from ozaki.dask.sparse import in_sparse_chunks, sparse_product
from ozaki.dask.statistics import Side, factor_statistics
from ozaki.dask.tasks import merge_tree, merged, objects, task
from ozaki.integers import are_asked
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.product.pair import Pair
from ozaki.product.partial import FactorStatistics, PartialProduct
from ozaki.product.request import TARGETS, Request
from ozaki.product.scale import scale
from ozaki.product.steps import ScaledProduct, execute, widened_product
from ozaki.residues.scheme import Residues
from ozaki.scaling.statistics import NONFINITE_ROW

_TASK = "ozaki.dask.matmul"


def matmul(
    a: Any,
    b: Any,
    *,
    accuracy: str | int | None = None,
    dtype: Any = None,
    overflow: str = "raise",
    mod: int | None = None,
    scheme: str = "auto",
    engine: str | Engine = "auto",
    workspace: int | None = None,
    split_every: SplitEvery = None,
) -> da.Array:
    """Multiply Dask arrays lazily, with the bits of `ozaki.matmul` of the whole arrays.

    Parameters
    ----------
    a, b : (m, k) and (k, n) Dask arrays, or vectors, with chunks of any known sizes, NumPy's or CuPy's; the
        inner dimension is cut alike in both. Of stacks, whose leading dimensions broadcast, each task has
        whole matrices. A task holds a block of each, and a chunk of the result or,
        where the inner dimension is cut, its residues: for float64 about 16 bytes an element with fp64 words,
        10 to 20 with int8. One of them may have sparse matrices for chunks, SciPy's or CuPy's, as
        `map_blocks(scipy.sparse.csr_matrix)` makes them: a task has all blocks along the inner dimension,
        and every element is correctly rounded, whatever accuracy asks for.
    accuracy : as in `ozaki.matmul`. "exact" and bits take the blocks of a and b three times, twice for
        statistics of their rows; "fp64" and "fp32" up to five times, because their certificate is one for the
        whole product, and up to seven times where the inner dimension is graded. Where it is not cut,
        statistics take them once.
    dtype, overflow, mod : of products of integers, as in `ozaki.matmul`. An element that dtype cannot hold is
        an OverflowError of its chunk's task, which takes three products for that, but one where the numbers
        of its blocks are too small.
    scheme : "auto" or "residues": residues are what adds up.
    engine : by name, or picklable; as in `ozaki.matmul`.
    workspace : bytes that each task may use, as in `ozaki.matmul`.
    split_every : how many partial products a task adds, as in `dask.array.reduction`.

    Returns
    -------
    (..., m, n) Dask array, or a vector or a number, as for `numpy.matmul`, with the chunks of a's rows and
    b's columns.

    Raises
    ------
    TypeError, MemoryError, OverflowError : as `ozaki.matmul`, in a task where the numbers decide; a
        MemoryError names it.
    ValueError : as `ozaki.matmul`; chunks of unknown sizes.

    References
    ----------
    Ozaki, Uchino and Imamura, Ozaki scheme II (residues).

    >>> import dask.array as da
    >>> a = da.from_array(np.array([[1e16, 1.0, -1e16]]), chunks=1)
    >>> matmul(a, da.ones((3, 1), chunks=(2, 1)), accuracy="exact").compute()
    array([[1.]])
    >>> matmul(da.full((1, 4), 2**62, chunks=1), np.ones((4, 1), int), mod=10**9 + 7).compute()
    array([[582344008]])
    >>> from scipy.sparse import csr_matrix
    >>> matmul(a.map_blocks(csr_matrix), np.ones(3)).compute()
    array([1.])
    """
    integers = are_asked(accuracy, dtype, overflow, mod)
    if in_sparse_chunks(a) or in_sparse_chunks(b):
        if integers:
            raise TypeError("dtype and mod are those of products of dense chunks")
        return sparse_product(a, b, accuracy)
    if integers:
        return integer_product(a, b, dtype, overflow, mod, (scheme, None, engine, workspace), split_every)
    x, y = known_chunks(a, "a"), known_chunks(b, "b")
    like_arrays(a=x, b=y)
    if scheme not in ("auto", "residues"):
        raise ValueError(f"scheme must be 'auto' or 'residues' for Dask arrays, got {scheme!r}")
    left, right, stack = matrices_of(x, y)
    dtype = result_dtype(x._meta, y._meta)
    chosen = TARGETS[dtype].name if accuracy is None else accuracy
    options: dict[str, Any] = {"accuracy": chosen, "engine": engine, "workspace": workspace}
    request: MakeRequest = partial(request_of, scheme="residues", word=None, **options)
    request(x._meta)  # refuses what every task would refuse
    if stack:
        out = _stacks(left, right, dtype, {**options, "scheme": scheme})
    else:
        split_every = partial_sums_a_task(split_every, left.numblocks[1:])
        out = _product(left, right, dtype, request, split_every)
    if x.ndim == 1:
        out = out[..., 0, :]
    return out[..., 0] if y.ndim == 1 else out


def _stacks(a: da.Array, b: da.Array, dtype: np.dtype, options: dict[str, Any]) -> da.Array:
    """The products of stacks, in chunks of whole matrices, each of which has the bits that it has alone."""
    ndim, chunks = max(a.ndim, b.ndim), {-2: a.chunks[-2], -1: b.chunks[-1]}
    declared, (*stack, i, h, j) = (a.dtype, b.dtype), range(ndim + 1)
    a, b = (without_empty_chunks(x).rechunk({-2: -1, -1: -1}) for x in (a, b))
    of_a, of_b = ((*stack[ndim - x.ndim :], *matrix) for x, matrix in ((a, (i, h)), (b, (h, j))))
    multiply = task(
        f"{_TASK}, products of stacks", _multiply_stacks, declared=declared, dtype=dtype, options=options
    )
    out = da.blockwise(
        multiply,
        (*stack, i, j),
        *(a, of_a, b, of_b),
        concatenate=True,
        dtype=dtype,
        meta=meta_from_array(a._meta, ndim=ndim, dtype=dtype),
        token="ozaki-matmul-stacks",
    )
    return out.rechunk(chunks)


def _multiply_stacks(
    x: Array, y: Array, *, declared: tuple[np.dtype, np.dtype], dtype: np.dtype, options: dict[str, Any]
) -> Array:
    """The products of a chunk."""
    given = zip("ab", (x, y), declared, strict=True)
    left, right = (exactly(name, as_chunk(z, name, of), dtype) for name, z, of in given)
    return api.matmul(left, right, **options)


def _product(
    a: da.Array, b: da.Array, dtype: np.dtype, request: MakeRequest, split_every: SplitEvery
) -> da.Array:
    """The product of matrices."""
    shape, chunks = (a.shape[0], b.shape[1]), (a.chunks[0], b.chunks[1])
    meta = meta_from_array(a._meta, ndim=2, dtype=dtype)
    if 0 in (*a.shape, *b.shape):
        return da.zeros_like(meta, shape=shape, chunks=chunks, dtype=dtype)
    _, (a, b) = da.core.unify_chunks(a, "ih", b, "hj", warn=False)
    a, b = without_empty_chunks(a), without_empty_chunks(b)
    sides = Side(0, a.dtype, dtype), Side(1, b.dtype, dtype)
    if request(a._meta).certified:
        certified = certify(a, b, sides, request, split_every)
    else:
        certified = factor_statistics(a, sides[0]), "i", factor_statistics(b, sides[1]), "j"
    blocks, options = (a, "ih", b, "hj", *certified), {"sides": sides, "request": request}
    called = f"{_TASK}, products of blocks"
    if a.numblocks[1] == 1:
        multiply = task(called, _multiply_unsplit, **options)
        arrays = {"align_arrays": False, "dtype": dtype, "meta": meta}
        out = da.blockwise(multiply, "ij", *blocks, token="ozaki-matmul", **arrays)
    else:
        choose, token = partial(_system, request=request), "ozaki-residue-system"
        systems = objects(choose, "ij", *certified[:6], token=token).blocks[:, :]  # not fused: once for all h
        pairs = systems, "ij", *blocks
        products = objects(task(called, _multiply, **options), "ihj", *pairs, token="ozaki-matmul-products")
        finish = task(f"{_TASK}, reconstruction", _finished, dtype=dtype)
        add = task(f"{_TASK}, sums of residues", merged, merge=PartialProduct.add)
        out = merge_tree(products, 1, finish, add, "ozaki-matmul", split_every, meta)
    return out if out.chunks == chunks else out.rechunk(chunks)


def _system(
    of_a: FactorStatistics, of_b: FactorStatistics, answers: Answers | None = None, *, request: MakeRequest
) -> ResidueSystem:
    """The moduli of blocks of a product: of one worker's engine, for others may prefer other words."""
    like = of_a.exact_scales
    with quietly(like):
        return cast(Residues, _scaled(request(like), of_a, of_b, answers).scheme).system


def _multiply(
    system: ResidueSystem,
    x: Array,
    y: Array,
    *certified: Any,
    sides: tuple[Side, Side],
    request: MakeRequest,
) -> PartialProduct:
    """The residues of the product of two blocks."""
    with quietly(x):
        given = request(x)._replace(word=system.word.name)
        scaled = _scaled(given, *certified)
        return PartialProduct.of(Pair(*factors(x, y, *certified, sides=sides), given), scaled, system)


def _multiply_unsplit(
    xs: list[Array], ys: list[Array], *certified: Any, sides: tuple[Side, Side], request: MakeRequest
) -> Array:
    """The rounded product of two blocks with all of the inner dimension."""
    (x,), (y,) = xs, ys
    of_both, decided = certified[:2], certified[2:]
    if decided:
        answers, (shifts,) = decided
        decided = answers, shifts
    with quietly(x):
        given = request(x)
        scaled = _scaled(given, *of_both, *decided)
        a, b = factors(x, y, *of_both, *decided, sides=sides)
        out = namespace(x).empty((a.rows, b.rows), sides[0].dtype)
        execute(Pair(a, b, given), scaled, out)
        if scaled.nonfinite:
            overwrite_nonfinite(a.parts, b.parts, scaled.scales, out)
        return out


def _scaled(
    request: Request,
    of_a: FactorStatistics,
    of_b: FactorStatistics,
    answers: Answers | None = None,
    _: np.ndarray | None = None,
) -> ScaledProduct:
    """The integers of rows and columns; a device is waited for."""
    pair = Pair(of_a.factor(0), of_b.factor(1), request)
    if answers is None:
        scaled = scale(pair)[1]
    else:
        scaled = widened_product(pair, certificate(answers, request.limits).bits)
    return replace(scaled, nonfinite=any(anywhere(s == NONFINITE_ROW) for s in scaled.scales))


def _finished(parts: Any, *, dtype: np.dtype, **_: Any) -> Array:
    """The rounded block of the result."""
    total = merged(parts, merge=PartialProduct.add)
    with quietly(total.residues):
        return total.rounded(dtype)
