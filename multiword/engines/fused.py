"""int8 products on an NVIDIA GPU whose int32 sums never leave the registers: how they are cut into tiles.

cuBLAS writes four bytes for every element, of which `residues` keeps one; and a launch of it is one product,
or one batch. Here one launch has the products of all images, each of a stack.
"""

from __future__ import annotations

import ctypes
from dataclasses import astuple, dataclass, replace
from functools import lru_cache

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array
from multiword.runtime.cached import cached_property
from multiword.runtime.kernels import Struct, members
from multiword.runtime.libcuda import routine
from multiword.runtime.memory import padded

CHUNK = 16
"""Bytes of a row that are copied at once: operands are aligned to them."""


class WordMatrices(Struct):
    """Matrices of words, (images, stack, rows, k); strides in bytes."""

    _fields_ = (
        ("words", ctypes.c_void_p),
        *members(ctypes.c_longlong, "row_stride", "matrix_stride", "image_stride"),
    )

    @classmethod
    def of(cls, x: Array) -> WordMatrices:
        """Return the matrices of a four-dimensional array."""
        image, matrix, row, _ = x.strides
        return cls(words=x, row_stride=row, matrix_stride=matrix, image_stride=image)


class ProductShape(Struct):
    """The sizes of the products of a launch."""

    _fields_ = members(ctypes.c_int, "m", "n", "k", "stack", "tiles", "symmetric")


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
        """Threads of a block; on Hopper, a warp that copies is among them."""
        return 32 * ((self.m // self.warp_m) * (self.n // self.warp_n) + self.wgmma)

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        stages, staged = self.stages * (self.m + self.n) * self.k, self.m * (self.n // CHUNK | 1) * CHUNK
        return stages + staged + 48 * self.stages if self.wgmma else max(stages, staged)

    @cached_property
    def constants(self) -> dict[str, int | str]:
        """The constants that the kernel is compiled with, in the order of the attributes."""
        names = "BM", "BN", "BK", "WM", "WN", "STAGES", "BLOCKS", "WGMMA", "GROUP", "CLUSTER"
        return dict(zip(names, map(int, astuple(self)), strict=True))


class TensorMap(Struct):
    """CUtensorMap: matrices of words, as the copy engine takes them."""

    _fields_ = (("map", ctypes.c_ubyte * 128),)

    @classmethod
    def of(cls, x: Array, tile_rows: int, tile_k: int) -> TensorMap:
        """Return the map of a four-dimensional array, to be copied in tiles."""
        images, stack, height, length = x.shape
        memory = (ctypes.c_ubyte * 192)()
        aligned = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
        rows = x.strides[2] if height > 1 else padded(length, CHUNK)  # NumPy's is anything where there is one
        matrices = x.strides[1] if stack > 1 else rows * height
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
HOPPER_HALF = replace(HOPPER_ALONE, n=128, warp_n=128)


def choose_tile(m: int, n: int, products: int, hopper: bool) -> Tile:
    """Return the tile for so many m by n products: the largest that they fill, and that gives three quarters
    of the multiprocessors something to do, or half of a Hopper's. Hopper's tiles are to be `narrowed`."""
    for tile in (HOPPER, HOPPER_ALONE, HOPPER_HALF) if hopper else (LARGE,):
        enough = multiprocessors() * (2 if tile.wgmma else 3) // 4
        filled = _filled(tile, m) and (tile.wgmma or n > tile.n // 2)
        if filled and count_blocks(tile, m, n) * products >= enough:
            return tile
    return MIDDLE if m > SMALL.m and n > SMALL.n else SMALL


@lru_cache
def narrowed(tile: Tile, n: int) -> Tile:
    """Return the narrowest tile of which no more are needed to cover n columns, on Hopper."""
    if not tile.wgmma:
        return tile
    width = padded(-(-n // -(-n // tile.n)), _NARROWEST)
    return replace(tile, n=width, warp_n=width)


_NARROWEST = 16
"""Columns of a tile on Hopper, which are multiples of this."""


def count_tiles(tile: Tile, m: int, n: int) -> int:
    """Return the tiles of a product; of a cluster of blocks, one."""
    return -(-m // (tile.m * tile.cluster)) * -(-n // tile.n)


def count_blocks(tile: Tile, m: int, n: int) -> int:
    """Return the blocks of a product."""
    return count_tiles(tile, m, n) * tile.cluster


def count_tiles_below_diagonal(tile: Tile, n: int) -> int:
    """Return the tiles of a symmetric product: those of squares, as wide as a tile, up to the diagonal."""
    squares = -(-n // tile.n)
    return squares * (squares + 1) // 2 * (tile.n // (tile.m * tile.cluster))


def _filled(tile: Tile, m: int) -> bool:
    """Return whether tiles leave less than half of one empty, and clusters at most a seventh more rows than
    blocks alone."""
    rows, alone = (padded(m, tile.m * blocks) for blocks in (tile.cluster, 1))
    return m > tile.m // 2 and 7 * rows <= 8 * alone
