"""Residues of products on an NVIDIA GPU: products of int8 residues, reduced before they leave the registers.

cuBLAS writes four bytes for every modulus and element, of which the residue keeps one; and a launch of it
is one product, or one batch. Here one launch has the products for all moduli, and writes the residues.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array
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
    weights = [_symmetric(256**i, p) for i in range(4)]
    # 128 and -128 are one residue modulo 256; only the latter is a byte with a sign.
    packed = np.where(np.array(weights) == 128, -128, weights).astype(np.int8).view("<i4")
    return Modulus(1 / p, p, FLOAT_MAGIC_BITS + _symmetric(-(1 << 31), p), int(packed[0]))


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
    """

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    stages: int
    blocks: int
    wgmma: bool = False

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * (self.m // self.warp_m) * (self.n // self.warp_n)

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        stages, staged = self.stages * (self.m + self.n) * self.k, self.m * (self.n + CHUNK)
        return stages + staged + 8 * self.stages if self.wgmma else max(stages, staged)

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
            "GROUP": 8,
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
            *(_NO_INTERLEAVE, _SWIZZLE_128_BYTES, _PROMOTE_TO_256_BYTES, _ZEROS_OUTSIDE),
        )
        return cls(map=(ctypes.c_ubyte * 128).from_address(aligned))


_UINT8, _NO_INTERLEAVE, _SWIZZLE_128_BYTES, _PROMOTE_TO_256_BYTES, _ZEROS_OUTSIDE = 0, 0, 3, 3, 0

LARGE = Tile(128, 128, 128, 64, 64, 3, 2)
MIDDLE = Tile(64, 64, 64, 32, 32, 4, 4)
SMALL = Tile(32, 32, 64, 16, 16, 3, 8)
HOPPER = Tile(128, 256, 128, 16, 256, 4, 1, wgmma=True)
HOPPER_SMALL = Tile(128, 128, 128, 16, 128, 6, 1, wgmma=True)

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
    tuple(tile.constants for tile in (HOPPER, HOPPER_SMALL)),
    (WordMatrices, Residues, ProductShape),
    architecture="sm_90a",
)


def launch(a: Array, bt: Array, moduli: tuple[int, ...], out: Array, add: bool, tile: Tile) -> None:
    """Write A·Bᵀ modulo the moduli to `out`, or add it; arrays as of `multiply_residues`, in one block of k."""
    images, stack, m, k = a.shape
    n = bt.shape[2]
    tiles = -(-m // tile.m) * -(-n // tile.n) * images * stack
    rest = (
        WordMatrices.of(out),
        _residues(moduli),
        ProductShape(m=m, n=n, k=k, stack=stack, tiles=tiles, add=int(add)),
    )
    if tile.wgmma:
        operands = TensorMap.of(a, tile.m, tile.k), TensorMap.of(bt, tile.n, tile.k)
        blocks, kernel = min(tiles, tile.blocks * multiprocessors()), _ON_HOPPER
    else:
        operands, blocks, kernel = (WordMatrices.of(a), WordMatrices.of(bt)), tiles, _ANYWHERE
    kernel((blocks,), (tile.threads,), (*operands, *rest), shared=tile.shared, **tile.constants)
