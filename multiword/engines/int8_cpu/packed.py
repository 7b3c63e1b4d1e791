"""Residues of operands and of products in the memory order of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multiword.engines.int8_cpu.kernels import INNER, LINE_BYTES, Kernel
from multiword.engines.int8_cpu.steps import GROUP
from multiword.runtime.parallel import scratch


def aligned(size: int) -> np.ndarray:
    """That many bytes, from the beginning of a line of the cache on."""
    raw = scratch((size + LINE_BYTES,), np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + size]


def spaced(size: int) -> int:
    """Bytes from one modulus to the next: an odd number of cache lines, so that these do not share a set."""
    return (-(-size // LINE_BYTES) | 1) * LINE_BYTES


@dataclass(frozen=True)
class PackedOperand:
    """The residues of a stack of matrices of one side, of `count` images and moduli.

    In memory they are (count, stack, tiles, blocks, rows of a tile, INNER) bytes on the left and
    (count, stack, tiles, blocks, columns of a tile / 16, 16, 16, 4) on the right, where byte g of lane c is
    number 16 g + c of a block. Tiles and blocks are filled up; a slice that begins with one is a view.

    Attributes
    ----------
    start, step : bytes before the first residue, and from one modulus to the next.
    matrix_bytes, tile_bytes : from one matrix to the next, and from one tile.
    """

    kernel: Kernel
    side: int
    images: int
    count: int
    stack: int
    rows: int
    inner: int
    memory: np.ndarray
    step: int
    matrix_bytes: int
    tile_bytes: int
    start: int = 0

    @classmethod
    def empty(
        cls, kernel: Kernel, side: int, images: int, count: int, shape: tuple[int, int, int]
    ) -> PackedOperand:
        """Memory for the residues of a stack of matrices, (stack, rows, inner)."""
        stack, rows, inner = shape
        tile = kernel.columns if side else kernel.rows
        tile_bytes = tile * -(-inner // INNER) * INNER
        matrix_bytes = -(-rows // tile) * tile_bytes
        step = spaced(stack * matrix_bytes)
        memory = aligned(count * step)
        return cls(kernel, side, images, count, stack, rows, inner, memory, step, matrix_bytes, tile_bytes)

    @property
    def tile(self) -> int:
        """Rows of a tile."""
        return self.kernel.columns if self.side else self.kernel.rows

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(images, moduli, rows, inner), as that of an array of words."""
        return self.images, self.count // self.images, self.stack * self.rows, self.inner

    @property
    def nbytes(self) -> int:
        """Bytes of the memory."""
        return int(self.memory.nbytes)

    def __getitem__(self, index: tuple[Any, ...]) -> PackedOperand:
        """Some rows and inner numbers of one matrix, or a block of the inner numbers of a stack."""
        rows, inner = (slice(*x.indices(size)) for x, size in zip(index[2:], self.shape[2:], strict=True))
        every_row = rows == slice(0, self.stack * self.rows, 1)
        if every_row and inner == slice(0, self.inner, 1):
            return self
        count = self.rows if every_row else rows.stop - rows.start
        length = inner.stop - inner.start
        cut = rows.start % self.tile or inner.start % INNER or (length % INNER and inner.stop < self.inner)
        if self.stack > 1 and (cut or not every_row):
            raise ValueError(
                f"a stack is cut along the inner dimension in blocks of {INNER}, got {index[2:]}"
            )
        if cut:
            return self._repacked(rows, inner)
        start = self.start + rows.start // self.tile * self.tile_bytes + inner.start * self.tile
        return replace(self, rows=count, inner=length, start=start)

    def bytes(self) -> np.ndarray:
        """The residues of the first matrix as they come, (count, rows, inner); those of the left have no sign
        but for signed kernels."""
        of_rows = self._in_order().reshape(self.count, -(-self.rows // self.tile) * self.tile, -1)
        return of_rows[:, : self.rows, : self.inner]

    def _in_order(self) -> np.ndarray:
        """A view of the first matrix whose axes, taken together, are (count, rows, inner), filled up."""
        tiles, blocks = -(-self.rows // self.tile), -(-self.inner // INNER)
        lanes: tuple[int, ...] = (self.tile, GROUP, 4)
        strides: tuple[int, ...] = (INNER, 4, 1)
        order: tuple[int, ...] = (0, 1, 3, 2, 5, 4)
        if self.side:
            lanes, strides = (self.tile // GROUP, GROUP, GROUP, 4), (GROUP * INNER, INNER, 4, 1)
            order = (0, 1, 3, 5, 2, 6, 4)
        numbers = np.lib.stride_tricks.as_strided(
            self.memory[self.start :],
            (self.count, tiles, blocks, *lanes),
            (self.step, self.tile_bytes, self.tile * INNER, *strides),
        )
        return numbers.transpose(order)

    def _repacked(self, rows: slice, inner: slice) -> PackedOperand:
        """A copy of a part that begins or ends within a tile or a block."""
        part = self.bytes()[:, rows, inner]
        found = PackedOperand.empty(self.kernel, self.side, self.images, self.count, (1, *part.shape[1:]))
        filling = ((0, 0), (0, -found.rows % found.tile), (0, -found.inner % INNER))
        numbers = found._in_order()
        numbers[...] = np.pad(part, filling).reshape(numbers.shape)
        return found
