"""Magnitudes in seven bits, and their products: what the pairwise bound is made of.

    |x| is at least min(127, floor(|x|·2**s))·2**-s

with s, the *truncation scale* of its row. What is larger than 127 there is taken as 127, not as the large
number it is: that keeps sums exact in int32, and still from below.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines import Engine, get_product
from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.kernels import Kernel
from multiword.runtime.memory import padded
from multiword.runtime.parallel import contiguous_rows, empty_beside, over_rows, scale_rows, scratch
from multiword.runtime.tiles import StridedParts, strided_parts, tile_count
from ozaki.residues.system import INT8_K_BLOCK
from ozaki.scaling.scales import zero_nonfinite
from ozaki.scaling.statistics import NONFINITE_ROW

LARGEST = 127
"""The largest magnitude."""

_FURTHEST = 2046
"""Beyond it, a shift makes any number but 0 LARGEST, and is no longer two powers of two."""

_EXACT = 1 << 38
"""Inner dimension up to which sums of products of magnitudes are exact in float64."""


class Magnitudes:
    """Products of magnitudes, as `in_panels` computes them; the scales are truncation scales.

    Words are (1, parts, r', k') arrays. Products are (parts, 1, m', n'): the real part of AB sums the
    products of like parts, the imaginary part those of unlike ones. Of a stack, both have an axis more
    before the last two.
    """

    name = "magnitudes"
    system = None

    def __init__(self, parts: int, word: str) -> None:
        self.word = word
        self.k_block = _EXACT if word == "fp64" else INT8_K_BLOCK // parts
        self._parts = parts

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        """The magnitudes of an operand's parts, of either side."""
        del side
        rows, columns = (padded(size, padding) for size in parts[0].shape)
        shape = 1, len(parts), rows, columns
        out = empty_beside(parts[0], shape, get_product(self.word).word)
        (_split_device if is_cupy(out) else _split_host)(parts, scale, out)
        return out

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """The products, added to those of other parts of the inner dimension."""
        _, parts, *rows, _ = a.shape
        out = empty_beside(a, (parts, 1, *rows, b.shape[-2]), get_product(self.word).result)
        for component, part in product(range(parts), repeat=2):
            left, right = a[0, part], b[0, (part + component) % parts]
            engine.multiply(self.word, left, right, out=out[component, 0], beta=float(part > 0))
        return out if earlier is None else earlier.astype(np.float64, copy=False) + out

    def operand_bytes(self) -> int:
        """Bytes for each element of an operand."""
        return self._parts * get_product(self.word).word.itemsize

    def product_bytes(self) -> int:
        """Bytes for each element of the result, which is float64 where the inner dimension is cut."""
        return self._parts * 8


def _split_host(parts: list[np.ndarray], scale: np.ndarray, out: np.ndarray) -> None:
    rows, columns = parts[0].shape
    out[:, :, rows:] = 0
    out[..., columns:] = 0

    def work(block: slice) -> None:
        (x,) = scratch("magnitudes", (1, block.stop - block.start, columns))
        for part, numbers in enumerate(parts):
            np.abs(contiguous_rows(numbers, block, x), out=x)
            scale_rows(x, np.minimum(zero_nonfinite(x, scale[block]), _FURTHEST))
            np.minimum(np.floor(x, out=x), LARGEST, out=x)
            np.copyto(out[0, part, block, :columns], x, casting="unsafe")

    over_rows(work, rows, columns)


_WORDS: dict[str, dict[str, Any]] = {
    "int8": {"WORD": "signed char", "RUN": 16},
    "float64": {"WORD": "double", "RUN": 4},
}


def _constants(word: str, parts: int) -> dict[str, Any]:
    run = _WORDS[word]["RUN"] // parts
    return {
        **_WORDS[word],
        "RUN": run,
        "LANES": 16 // parts,
        "PARTS": parts,
        "LARGEST": LARGEST,
        "FURTHEST": _FURTHEST,
        "NONFINITE_ROW": NONFINITE_ROW,
    }


_MAGNITUDES = Kernel(
    "magnitudes",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {**_constants(word, parts), "ALIGNED": aligned} | {"ALONG_K": along, "UNIT": 1, "REAL": t}
        for word, parts, t, aligned in (
            ("int8", 1, "double", 1),
            ("int8", 2, "float", 0),
            ("float64", 2, "double", 0),
        )
        for along in (0, 1)
    ),
    (StridedParts,),
)


def _split_device(parts: list[Array], scale: Array, out: Array) -> None:
    operand, layout = strided_parts(parts)
    padded_rows, padded_columns = out.shape[2:]
    constants = {**_constants(out.dtype.name, len(parts)), **layout}
    constants["ALIGNED"] = int(padded_columns % constants["RUN"] == 0)
    arguments = (operand, scale, out, np.int32(padded_rows), np.int32(padded_columns))
    _MAGNITUDES((tile_count(constants, padded_rows, padded_columns),), (256,), arguments, **constants)
