"""Residues of products on an NVIDIA GPU: int8 products, reduced before they leave the registers."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path

import numpy as np

from multiword.engines.fused import (
    CHUNK,
    HOPPER,
    HOPPER_ALONE,
    LARGE,
    MIDDLE,
    SMALL,
    ProductShape,
    TensorMap,
    Tile,
    WordMatrices,
    choose_tile,
    count_blocks,
    count_tiles,
    count_tiles_below_diagonal,
    narrowed,
)
from multiword.engines.machine import compute_capability, multiprocessors
from multiword.engines.words import FLOAT_MAGIC_BITS, symmetric
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.tuning import FEWEST_SHARES, SHORTEST_SHARE

LONGEST = (1 << 17) - CHUNK
"""Numbers of the inner dimension, of round length, whose products' sum fits int32."""

MOST_MODULI = 56


class Modulus(ctypes.Structure):
    """1/p, p, where sums of bytes times weights start, and the weights: the residues of 256**i."""

    _fields_ = (
        ("inverse", ctypes.c_float),
        *members(ctypes.c_int, "p", "start", "weights"),
    )


class ResidueMatrices(Struct):
    """Where residues go, as `WordMatrices`, and the moduli; `add` where they are added to what is there."""

    _fields_ = (
        ("residues", ctypes.c_void_p),
        *members(ctypes.c_longlong, "row_stride", "matrix_stride", "image_stride"),
        ("moduli", Modulus * MOST_MODULI),
        *members(ctypes.c_int, "count", "add"),
    )


_FILE = Path(__file__).with_suffix(".cu")
_ANYWHERE = Kernel(
    "multiply_residues",
    _FILE,
    tuple(tile.constants for tile in (LARGE, MIDDLE, SMALL)),
    (WordMatrices, ResidueMatrices, ProductShape),
    equals="numpy.matmul",
)
_ON_HOPPER = Kernel(
    "multiply_residues_wgmma",
    _FILE,
    tuple(narrowed(tile, n).constants for tile in (HOPPER, HOPPER_ALONE) for n in (16, 112, 240, 256)),
    (ResidueMatrices, ProductShape),
    architecture="sm_90a",
    equals="numpy.matmul",
)


_ADD_SHARES = Kernel(
    "add_shares", _FILE.with_name("shares.cu"), structs=(ResidueMatrices,), equals="numpy.matmul"
)


def multiply_residues(
    a: Array,
    bt: Array,
    moduli: tuple[int, ...],
    *,
    out: Array | None = None,
    add: bool = False,
    symmetric: bool = False,
    weights: tuple[int, ...] | None = None,
) -> Array:
    """As `ResidueEngine.multiply_residues`, on CuPy's current stream."""
    out, k = _checked_out(a, bt, moduli, out, add, symmetric), a.shape[3]
    if k == 0 and not add:
        out.fill(0)
    done = 0
    if out.size and a.shape[1] == 1 and (share := share_of_k(a.shape[2], k, bt.shape[2], len(a))):
        done = k // share * share
        _multiply_shares(a[..., :done], bt[..., :done], moduli, out, add, weights, share)
    for h in range(done, k if out.size else 0, LONGEST):
        inner = slice(h, h + LONGEST)
        launch(a[..., inner], bt[..., inner], moduli, out, add or h > 0, symmetric=symmetric, weights=weights)
    return out


def share_of_k(m: int, k: int, n: int, products: int) -> int:
    """Return how many numbers of k each share has where k is shared out (split-K); 0 where it is not.

    So many products of a few blocks leave most of a GPU's multiprocessors idle.
    """
    if not m * n:
        return 0
    blocks = count_blocks(choose_tile(m, n, products, compute_capability() == (9, 0)), m, n) * products
    count = min(2 * multiprocessors() // blocks, k // SHORTEST_SHARE)
    return k // max(count, -(-k // LONGEST)) // CHUNK * CHUNK if count >= FEWEST_SHARES else 0


def in_shares(x: Array, share: int) -> Array:
    """Return the (..., r, k) matrices as (..., k // share, r, share): a stack of shares of k."""
    (*outer, row, number), (*stack, rows, k) = x.strides, x.shape
    shape, strides = (*stack, k // share, rows, share), (*outer, share * number, row, number)
    return namespace(x).lib.stride_tricks.as_strided(x, shape, strides)


def _multiply_shares(
    a: Array,
    bt: Array,
    moduli: tuple[int, ...],
    out: Array,
    add: bool,
    weights: tuple[int, ...] | None,
    share: int,
) -> None:
    """As `launch`, by split-K: the shares are multiplied as a stack, then added; both halves of a symmetric
    product are computed."""
    images, _, m, n = out.shape
    left, right = (in_shares(x[:, 0], share) for x in (a, bt))
    shares = left.shape[1]
    residues = namespace(a).empty((images, shares, m, n), np.int8)
    launch(left, right, moduli, residues, False, weights=weights)
    sizes, blocks = map(np.int32, (shares, images, m, n)), -(-images * m * n // 256)
    _ADD_SHARES((blocks,), (256,), (residues, *sizes, _residue_matrices(out, moduli, add)))


def _checked_out(
    a: Array, bt: Array, moduli: tuple[int, ...], out: Array | None, add: bool, symmetric: bool
) -> Array:
    """Return the array to write to; TypeError or ValueError where the arguments do not fit."""
    for label, x in (("a", a), ("bt", bt), ("out", out)):
        if x is None:
            continue
        if not is_cupy(x):
            raise TypeError(f"{label} must be a CuPy array, got {type(x).__name__}")
        if x.dtype != np.int8:
            raise TypeError(f"{label} must be int8, got {x.dtype}")
        if x.ndim != 4:
            raise ValueError(f"{label} must have four dimensions, got shape {x.shape}")
        if x.shape[3] > 1 and x.strides[3] != 1:
            raise ValueError(f"{label} must have a contiguous last axis, got strides {x.strides}")
    if (*a.shape[:2], a.shape[3]) != (*bt.shape[:2], bt.shape[3]):
        raise ValueError(f"a and bt must agree but for their rows, got {a.shape} and {bt.shape}")
    for label, x in (("a", a), ("bt", bt)):
        strides = [s for s, d in zip(x.strides[:3], x.shape, strict=False) if d > 1]
        if x.size and any(y % CHUNK for y in (x.data.ptr, x.shape[3], *strides)):
            raise ValueError(f"{label} must have rows aligned to {CHUNK} bytes, got strides {x.strides}")
    fit = all(p == 256 or (p % 2 and 3 <= p <= 255) for p in moduli)
    if not fit or not 0 < len(moduli) <= MOST_MODULI:
        raise ValueError(
            f"moduli must be up to {MOST_MODULI} odd numbers from 3 to 255, or 256, got {moduli}"
        )
    shape = (*a.shape[:3], bt.shape[2])
    if symmetric and shape[2] != shape[3]:
        raise ValueError(f"a symmetric product must be square, got shape {shape}")
    if out is None:
        if add:
            raise ValueError("out must be given to be added to")
        return namespace(a).empty(shape, np.int8)
    if out.shape != shape:
        raise ValueError(f"out must be of shape {shape}, got {out.shape}")
    return out


def launch(
    a: Array,
    bt: Array,
    moduli: tuple[int, ...],
    out: Array,
    add: bool,
    *,
    symmetric: bool = False,
    weights: tuple[int, ...] | None = None,
    tile: Tile | None = None,
) -> None:
    """Write A·Bᵀ modulo the moduli to `out`, or add it; none of the arrays is empty, and k is at most
    `LONGEST`."""
    output = _residue_matrices(out, moduli, add, weights)
    images, stack, m, k = a.shape
    n = bt.shape[2]
    tile = tile or choose_tile(m, n, images * stack, compute_capability() == (9, 0))
    narrow, products = narrowed(tile, n), images * stack
    tiles = count_tiles(tile, m, n) * products
    if symmetric:
        below = count_tiles_below_diagonal(tile, n) * products
        symmetric = _time(tile, below) <= _time(narrow, tiles)  # else the whole is quicker, in narrow tiles
        tiles = below if symmetric else tiles
    tile = tile if symmetric else narrow
    shape = ProductShape(m=m, n=n, k=k, stack=stack, tiles=tiles, symmetric=int(symmetric))
    operands: tuple[Struct, Struct]
    if tile.wgmma:
        operands = TensorMap.of(a, tile.m, tile.k), TensorMap.of(bt, tile.n // tile.cluster, tile.k)
        clusters = min(tiles, tile.blocks * multiprocessors() // tile.cluster)
        blocks, kernel = clusters * tile.cluster, _ON_HOPPER
    else:
        operands, blocks, kernel = (WordMatrices.of(a), WordMatrices.of(bt)), tiles, _ANYWHERE
    kernel((blocks,), (tile.threads,), (*operands, output, shape), shared=tile.shared, **tile.constants)


def _time(tile: Tile, tiles: int) -> int:
    """Return the time of so many tiles: rounds, of as many as run at a time, times the columns of a tile."""
    return -(-tiles * tile.cluster // (tile.blocks * multiprocessors())) * tile.n


def _residue_matrices(
    out: Array, moduli: tuple[int, ...], add: bool, weights: tuple[int, ...] | None = None
) -> ResidueMatrices:
    image, matrix, row, _ = out.strides
    return ResidueMatrices(
        residues=out,
        row_stride=row,
        matrix_stride=matrix,
        image_stride=image,
        moduli=_table(moduli, weights or (1,) * len(moduli)),
        count=len(moduli),
        add=int(add),
    )


@lru_cache(512)
def _table(moduli: tuple[int, ...], weights: tuple[int, ...]) -> ctypes.Array[Modulus]:
    return (Modulus * MOST_MODULI)(*map(_modulus, moduli, weights))


def _modulus(p: int, weight: int) -> Modulus:
    """The kernel's `Modulus`, by which sums become residues of the weight times themselves."""
    of_bytes = np.array([symmetric(256**i * weight, p) for i in range(4)], np.int8).view("<i4")
    return Modulus(1 / p, p, FLOAT_MAGIC_BITS + symmetric(-weight << 31, p), int(of_bytes[0]))
