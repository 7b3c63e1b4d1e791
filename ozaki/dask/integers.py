"""Products of integers of Dask arrays: residues of the products of chunks, added over the inner dimension.

    mod=p               modulo p
    overflow="wrap"     modulo 2**64, of which every dtype takes its bits
    overflow="raise"    modulo 2**64, 2**63 − 1 and 2**63 − 3

The last three, which have no common factor, tell all integers apart that are a product of 64-bit integers,
below 2**189. So they say whether the dtype holds an element, and which number it is where it does not.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, quietly
from multiword.runtime.readback import anywhere
from ozaki.arguments import matrices_of, request_of
from ozaki.dask.arguments import (
    SplitEvery,
    as_chunk,
    known_chunks,
    like_arrays,
    partial_sums_a_task,
    without_empty_chunks,
)
from ozaki.dask.tasks import merge_tree, merged, objects, task
from ozaki.definition.remainders import reconstructed
from ozaki.integers import (
    check_integers,
    checked_dtype,
    checked_modulus,
    integer_matmul,
    magnitudes,
    modular_matmul,
    overflow_error,
)

_WORD, _OTHERS = 2**64, (2**63 - 1, 2**63 - 3)


class Residues(NamedTuple):
    """A block of a product modulo each of some numbers, as uint64, and where it begins."""

    origin: tuple[int, ...]
    of: tuple[Array, ...]


def integer_product(
    a: Any, b: Any, dtype: Any, overflow: str, p: Any, options: tuple[Any, ...], split_every: SplitEvery
) -> da.Array:
    """Return the lazy product of integers, in a dtype or modulo p.

    options : scheme, word, engine and workspace, as for `ozaki.integers.integer_matmul`.
    """
    x, y = known_chunks(a, "a"), known_chunks(b, "b")
    like_arrays(a=x, b=y)
    check_integers(a=x, b=y)
    if p is None:
        target = checked_dtype(dtype, overflow)
        moduli: tuple[int, ...] = (_WORD, *(_OTHERS if overflow == "raise" else ()))
    else:
        target, moduli = np.dtype(np.int64), (checked_modulus(p),)
    request_of(x._meta, "exact", *options)  # refuses what every task would refuse
    left, right, stack = matrices_of(x, y)
    chunks = {-2: left.chunks[-2], -1: right.chunks[-1]}
    left, right = (without_empty_chunks(da.broadcast_to(z, (*stack, *z.shape[-2:]))) for z in (left, right))
    *of_stack, i, h, j = range(len(stack) + 3)
    of_left, of_right = (*of_stack, i, h), (*of_stack, h, j)
    _, (left, right) = da.core.unify_chunks(left, of_left, right, of_right, warn=False)
    starts = [
        (da.from_array(np.array([*accumulate(sizes[:-1], initial=0)]), chunks=1), (index,))
        for index, sizes in zip((*of_stack, i, j), (*left.chunks[:-1], right.chunks[-1]), strict=True)
    ]
    multiply = task(
        "ozaki.dask.matmul, residues of integers",
        _residues,
        inner=left.shape[-1],
        moduli=moduli,
        options=options,
        declared=(x.dtype, y.dtype),
    )
    pairs = left, of_left, right, of_right, *(z for pair in starts for z in pair)
    parts = objects(multiply, (*of_stack, i, h, j), *pairs, token="ozaki-integers-products")
    add = partial(_sum, moduli=moduli)
    vectors = x.ndim == 1, y.ndim == 1
    finish = partial(_finished, add=add, moduli=moduli, target=target, vectors=vectors)
    meta = meta_from_array(left._meta, ndim=left.ndim, dtype=target)
    at_once = partial_sums_a_task(split_every, left.numblocks[-1:])
    called = "ozaki.dask.matmul, sums of residues"
    out = merge_tree(parts, h, finish, task(called, merged, merge=add), "ozaki-integers", at_once, meta)
    out = out.rechunk(chunks)
    out = out[..., 0, :] if vectors[0] else out
    return out[..., 0] if vectors[1] else out


def _residues(
    x: Array,
    y: Array,
    *starts: Array,
    inner: int,
    moduli: tuple[int, ...],
    options: tuple[Any, ...],
    declared: tuple[np.dtype, np.dtype],
) -> Residues:
    """The residues of the product of two blocks, all of one exact product where no sum can overflow."""
    x, y = (as_chunk(z, name, of) for name, z, of in zip("ab", (x, y), declared, strict=True))
    with quietly(x):
        left, right = magnitudes(x, y)
        if len(moduli) > 1 and inner * left * right < 2**63:
            exact = integer_matmul(x, y, np.int64, "wrap", options)
            found = [(exact if p == _WORD else exact % p).astype(np.uint64) for p in moduli]
        else:
            found = [_modulo(x, y, p, options) for p in moduli]
    return Residues(tuple(int(start[0]) for start in starts), tuple(found))


def _modulo(x: Array, y: Array, p: int, options: tuple[Any, ...]) -> Array:
    if p == _WORD:
        return integer_matmul(x, y, np.uint64, "wrap", options)
    return modular_matmul(x, y, p, options).astype(np.uint64)


def _sum(one: Residues, other: Residues, *, moduli: tuple[int, ...]) -> Residues:
    """The residues of a sum: those of two numbers below 2**63, or of wrapping ones, add in 64 bits."""
    sums = [
        r + s if p == _WORD else (r + s) % np.uint64(p)
        for r, s, p in zip(one.of, other.of, moduli, strict=True)
    ]
    return Residues(one.origin, tuple(sums))


def _finished(
    parts: Any, *, add: Any, moduli: tuple[int, ...], target: np.dtype, vectors: tuple[bool, bool], **_: Any
) -> Array:
    """The block of the result. OverflowError for an element that the dtype does not hold."""
    total = merged(parts, merge=add)
    result = total.of[0].astype(target)
    if len(moduli) == 1:
        return result
    wide = result.astype(np.uint64 if target.kind == "u" else np.int64)
    differs = wide.astype(np.uint64) != total.of[0]
    for p, residue in zip(moduli[1:], total.of[1:], strict=True):
        differs |= (wide % wide.dtype.type(p)).astype(np.uint64) != residue
    if anywhere(differs):
        place = np.unravel_index(int(differs.reshape(-1).argmax()), differs.shape)
        value = reconstructed([int(residue[place]) for residue in total.of], moduli)
        *stack, i, j = (int(first + k) for first, k in zip(total.origin, place, strict=True))
        raise overflow_error((*stack, *[i] * (not vectors[0]), *[j] * (not vectors[1])), value, target)
    return result
