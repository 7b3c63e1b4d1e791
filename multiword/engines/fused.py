"""Residues of products on an NVIDIA GPU: products of int8 residues, reduced before they leave the registers.

cuBLAS writes four bytes for every modulus and element, of which the residue keeps one; and a launch of it
is one product, or one batch. Here one launch has the products for all moduli, and writes the residues.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from multiword.engines.machine import compute_capability, multiprocessors
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel, Struct
from multiword.runtime.libcuda import routine

CHUNK = 16
"""Bytes of a row that are copied at once: operands are aligned to them."""

LONGEST = (1 << 17) - CHUNK
"""Numbers of the inner dimension, of round length, whose products' sum fits int32."""

MOST_MODULI = 56

FLOAT_MAGIC_BITS = int(np.float32(12582912.0).view(np.int32))
"""1.5·2**23: the low bits of its sum with a small integer are that integer."""


class WordMatrices(Struct):
    """Matrices of words, (images, stack, rows, k); strides in bytes."""

    _fields_ = (
        ("words", ctypes.c_void_p),
        ("row_stride", ctypes.c_longlong),
        ("matrix_stride", ctypes.c_longlong),
        ("image_stride", ctypes.c_longlong),
    )

    @classmethod
    def of(cls, x: Array) -> WordMatrices:
        """Those of a four-dimensional array."""
        image, matrix, row, _ = x.strides
        return cls(words=x, row_stride=row, matrix_stride=matrix, image_stride=image)


class Modulus(ctypes.Structure):
    """1/p, p, where sums of bytes times weights start, and the weights: the residues of 256**i."""

    _fields_ = (
        ("inverse", ctypes.c_float),
        ("p", ctypes.c_int),
        ("start", ctypes.c_int),
        ("weights", ctypes.c_int),
    )


class Residues(Struct):
    """The moduli."""

    _fields_ = (("moduli", Modulus * MOST_MODULI), ("count", ctypes.c_int))


class ProductShape(Struct):
    """What is multiplied; `add` where the product is added to what is there."""

    _fields_ = tuple((name, ctypes.c_int) for name in ("m", "n", "k", "stack", "tiles", "add"))


@lru_cache(512)
def _residues(moduli: tuple[int, ...]) -> Residues:
    table = (Modulus * MOST_MODULI)(*map(_modulus, moduli))
    return Residues(moduli=table, count=len(moduli))


def _modulus(p: int) -> Modulus:
    weights = np.array([_symmetric(256**i, p) for i in range(4)], np.int8).view("<i4")
    return Modulus(1 / p, p, FLOAT_MAGIC_BITS + _symmetric(-(1 << 31), p), int(weights[0]))


def _symmetric(x: int, p: int) -> int:
    """The residue of x modulo p of least magnitude."""
    return (x + p // 2) % p - p // 2


@dataclass(frozen=True)
class Tile:
    """How a kernel is cut: what a block and a warp compute, and the stages of k on their way to it.

    Attributes
    ----------
    m, n, k : elements of the result, and numbers of the inner dimension, of a block.
    warp_m, warp_n : elements of a warp.
    stages : of k in shared memory.
    blocks : on a multiprocessor at a time.
    wgmma : whether operands are read from shared memory, by Hopper's own instructions.
    group : rows of tiles, or of clusters' tiles, that are computed together.
    cluster : blocks, one below the other, that copy columns for each other.
    """

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    stages: int
    blocks: int
    wgmma: bool = False
    group: int = 8
    cluster: int = 1

    @property
    def threads(self) -> int:
        """Of a block; on Hopper, a warp that copies is among them."""
        return 32 * ((self.m // self.warp_m) * (self.n // self.warp_n) + self.wgmma)

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        stages, staged = self.stages * (self.m + self.n) * self.k, self.m * (self.n + CHUNK)
        return stages + staged + 48 * self.stages if self.wgmma else max(stages, staged)

    @property
    def constants(self) -> dict[str, int | str]:
        """What the kernel is compiled with."""
        return {
            "BM": self.m,
            "BN": self.n,
            "BK": self.k,
            "WM": self.warp_m,
            "WN": self.warp_n,
            "STAGES": self.stages,
            "BLOCKS": self.blocks,
            "WGMMA": int(self.wgmma),
            "GROUP": self.group,
            "CLUSTER": self.cluster,
        }


class TensorMap(Struct):
    """CUtensorMap: matrices of words, as the copy engine takes them."""

    _fields_ = (("map", ctypes.c_ubyte * 128),)

    @classmethod
    def of(cls, x: Array, tile_rows: int, tile_k: int) -> TensorMap:
        """That of a four-dimensional array, to be copied in tiles."""
        images, stack, height, length = x.shape
        found = (ctypes.c_ubyte * 192)()
        aligned = ctypes.addressof(found) + -ctypes.addressof(found) % 64
        rows = x.strides[2]
        matrices = x.strides[1] if stack > 1 else rows * height  # NumPy's are anything where there is one
        images_apart = x.strides[0] if images > 1 else matrices * stack
        routine("cuTensorMapEncodeTiled")(
            *(aligned, _UINT8, 4, x.data.ptr),
            (ctypes.c_uint64 * 4)(length, height, stack, images),
            (ctypes.c_uint64 * 3)(rows, matrices, images_apart),
            (ctypes.c_uint32 * 4)(tile_k, tile_rows, 1, 1),
            (ctypes.c_uint32 * 4)(1, 1, 1, 1),
            *(_NO_INTERLEAVE, _SWIZZLE_128_BYTES, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE),
        )
        return cls(map=(ctypes.c_ubyte * 128).from_address(aligned))


_UINT8, _NO_INTERLEAVE, _SWIZZLE_128_BYTES, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE = 0, 0, 3, 2, 0

LARGE = Tile(128, 128, 128, 64, 64, 3, 2)
MIDDLE = Tile(64, 64, 64, 32, 32, 4, 4)
SMALL = Tile(32, 32, 64, 16, 16, 3, 8)
HOPPER = Tile(128, 256, 128, 16, 256, 4, 1, wgmma=True, group=8, cluster=2)
HOPPER_ALONE = replace(HOPPER, group=16, cluster=1)

_FILE = Path(__file__).with_name("fused.cu")
_ANYWHERE = Kernel(
    "multiply_residues",
    _FILE,
    tuple(tile.constants for tile in (LARGE, MIDDLE, SMALL)),
    (WordMatrices, Residues, ProductShape),
)
_ON_HOPPER = Kernel(
    "multiply_residues_wgmma",
    _FILE,
    (HOPPER.constants, HOPPER_ALONE.constants),
    (WordMatrices, Residues, ProductShape),
    architecture="sm_90a",
)


def choose_tile(m: int, n: int, products: int, hopper: bool) -> Tile:
    """The tile for so many m by n products: the largest that they fill, and that gives every
    multiprocessor, or nearly, something to do."""
    enough = multiprocessors() * 3 // 4
    for tile in (HOPPER, HOPPER_ALONE, LARGE) if hopper else (LARGE,):
        blocks = _tiles(tile, m, n) * tile.cluster * products
        if _filled(tile, m) and n > tile.n // 2 and blocks >= enough:
            return tile
    return MIDDLE if m > SMALL.m and n > SMALL.n else SMALL


def _tiles(tile: Tile, m: int, n: int) -> int:
    """Tiles of a product; of a cluster of blocks, one."""
    return -(-m // (tile.m * tile.cluster)) * -(-n // tile.n)


def _filled(tile: Tile, m: int) -> bool:
    """Whether tiles leave less than half of one empty; those of clusters less than a fifth of all."""
    rows = _tiles(tile, m, 1) * tile.m * tile.cluster
    return 5 * m > 4 * rows if tile.cluster > 1 else m > tile.m // 2


def multiply_residues(a: Array, bt: Array, moduli: tuple[int, ...], out: Array, add: bool) -> None:
    """As `ResidueEngine.multiply_residues`, of checked arrays, on CuPy's current stream."""
    images, stack, m, k = a.shape
    if out.size == 0:
        return
    if k == 0:
        if not add:
            out.fill(0)
        return
    tile = choose_tile(m, bt.shape[2], images * stack, compute_capability() == (9, 0))
    for h in range(0, k, LONGEST):
        inner = slice(h, h + LONGEST)
        launch(a[..., inner], bt[..., inner], moduli, out, add or h > 0, tile)


def check_residues(a: Array, bt: Array, moduli: tuple[int, ...], out: Array | None, add: bool) -> Array:
    """The array to write to; TypeError or ValueError where the arguments do not fit."""
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
    if out is None:
        if add:
            raise ValueError("out must be given to be added to")
        return namespace(a).empty(shape, np.int8)
    if out.shape != shape:
        raise ValueError(f"out must be of shape {shape}, got {out.shape}")
    return out


def launch(a: Array, bt: Array, moduli: tuple[int, ...], out: Array, add: bool, tile: Tile) -> None:
    """Write A·Bᵀ modulo the moduli to `out`, or add it, in tiles; none of the arrays is empty, and k is at
    most `LONGEST`."""
    images, stack, m, k = a.shape
    n = bt.shape[2]
    tiles = _tiles(tile, m, n) * images * stack
    rest = (
        WordMatrices.of(out),
        _residues(moduli),
        ProductShape(m=m, n=n, k=k, stack=stack, tiles=tiles, add=int(add)),
    )
    operands: tuple[Struct, Struct]
    if tile.wgmma:
        operands = TensorMap.of(a, tile.m, tile.k), TensorMap.of(bt, tile.n // tile.cluster, tile.k)
        clusters = min(tiles, tile.blocks * multiprocessors() // tile.cluster)
        blocks, kernel = clusters * tile.cluster, _ON_HOPPER
    else:
        operands, blocks, kernel = (WordMatrices.of(a), WordMatrices.of(bt)), tiles, _ANYWHERE
    kernel((blocks,), (tile.threads,), (*operands, *rest), shared=tile.shared, **tile.constants)
