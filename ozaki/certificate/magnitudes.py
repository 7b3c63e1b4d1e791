"""Products of magnitudes in seven bits (`ozaki.rounding.truncation`): what the pairwise bound is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from multiword.engines import Engine, get_word
from multiword.engines.words import INT8_K_BLOCK
from multiword.runtime.arrays import Array, is_cupy
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel
from multiword.runtime.memory import padded
from multiword.runtime.parallel import (
    as_rows,
    compiled_block,
    contiguous_rows,
    empty_beside,
    over_rows,
    scale_rows,
    scratch,
)
from multiword.runtime.tiles import StridedParts, strided_parts, tile_count, tile_rows
from multiword.tuning import ALONE_ELEMENTS
from ozaki.definition.decision import LARGEST
from ozaki.rounding.truncation import FURTHEST, TRUNCATION_CONSTANTS, empty_magnitudes
from ozaki.scaling.scales import zero_nonfinite
from ozaki.scaling.statistics import NONFINITE_ROW

_EXACT = {"int8": INT8_K_BLOCK, "fp32": (1 << 24) // LARGEST**2, "fp64": 1 << 38}
"""Terms up to which sums of products of magnitudes are exact in what each word's products are added up in."""

COMPILED_FORM = "ozaki.certificate.pairwise_numba"


class Magnitudes:
    """Products of magnitudes, as `in_panels` computes them; the scales are truncation scales.

    Words of A are (1, 1, r', parts·k'), a part beside the other; rows of complex B are 3k' long, for the
    first part comes again: the real part of AB sums the products of like parts, the imaginary part those of
    unlike ones. Products are (parts, 1, m', n'). Of a stack, both have an axis more before the last two.
    """

    name = "magnitudes"
    system = None
    shares_words = False
    tile = 1, 1, 1

    def __init__(self, parts: int, word: str) -> None:
        self.word = get_word(word)
        self.k_block = _EXACT[word] // parts
        self.parts = parts

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        """Return the magnitudes of an operand's parts."""
        rows, columns = (padded(size, padding) for size in parts[0].shape)
        out = empty_magnitudes(parts[0], rows, columns, len(parts), side, self.word.dtype)
        (_split_device if is_cupy(out) else _split_host)(parts, scale, out[0, 0], columns)
        return out

    def multiply(self, a: Array, b: Array, engine: Engine, earlier: Array | None) -> Array:
        """Return the products, added to those of earlier blocks of the inner dimension."""
        shape = self.parts, 1, *a.shape[2:-1], b.shape[-2]
        out = empty_beside(a, shape, self.word.result)
        length = a.shape[-1]
        for component, y in enumerate(out):
            start = component * (length // self.parts)
            engine.multiply(self.word.name, a[0, 0], b[0, 0, ..., start : start + length], out=y[0])
        return out if earlier is None else earlier.astype(np.float64, copy=False) + out

    def operand_bytes(self) -> int:
        """Return the bytes for each element of an operand, at most."""
        return (2 * self.parts - 1) * self.word.dtype.itemsize

    def product_bytes(self) -> int:
        """Return the bytes for each element of the result, float64 where the inner dimension is cut."""
        return self.parts * 8


def _split_host(parts: list[np.ndarray], scale: np.ndarray, out: np.ndarray, step: int) -> None:
    rows, columns = parts[0].shape
    out[rows:] = 0
    form = compiled(COMPILED_FORM)
    if form is not None and out.dtype.name in form.truncate:
        _truncate_compiled(form.truncate[out.dtype.name], parts, scale, out, step)
        return

    def work(block: slice) -> None:
        (x,) = scratch((1, block.stop - block.start, columns))
        for part, numbers in enumerate(parts):
            np.abs(contiguous_rows(numbers, block, x), out=x)
            scale_rows(x, np.minimum(zero_nonfinite(x, scale[block]), FURTHEST))
            np.minimum(np.floor(x, out=x), LARGEST, out=x)
            for start in range(part * step, out.shape[1], len(parts) * step):
                np.copyto(out[block, start : start + columns], x, casting="unsafe")
                out[block, start + columns : start + step] = 0

    over_rows(work, rows, columns)


def _truncate_compiled(
    truncate: Callable[..., None], parts: list[np.ndarray], scale: np.ndarray, out: np.ndarray, step: int
) -> None:
    rows, columns = parts[0].shape

    def work(block: slice) -> None:
        for part, numbers in enumerate(parts):
            x = as_rows([numbers], block)
            for start in range(part * step, out.shape[1], len(parts) * step):
                truncate(x, scale[block], start, out[block])
                out[block, start + columns : start + step] = 0

    over_rows(work, rows, columns, compiled_block(rows * columns), ALONE_ELEMENTS)


_WORDS: dict[str, dict[str, Any]] = {
    "int8": {"WORD": "signed char", "RUN": 16},
    "float64": {"WORD": "double", "RUN": 4},
}


def _constants(word: str, parts: int, columns: int) -> dict[str, Any]:
    run = _WORDS[word]["RUN"] // parts
    return {
        **_WORDS[word],
        **tile_rows(run, columns, 16 // parts),
        "RUN": run,
        "PARTS": parts,
        **TRUNCATION_CONSTANTS,
        "NONFINITE_ROW": NONFINITE_ROW,
    }


_MAGNITUDES = Kernel(
    "magnitudes",
    Path(__file__).with_suffix(".cu"),
    tuple(
        {**_constants(word, parts, columns), "ALIGNED": aligned} | {"ALONG_K": along, "UNIT": 1, "REAL": t}
        for word, parts, columns, t, aligned in (
            ("int8", 1, 4096, "double", 1),
            ("int8", 1, 16, "double", 1),
            ("int8", 2, 4096, "float", 0),
            ("float64", 2, 16, "double", 0),
        )
        for along in (0, 1)
    ),
    (StridedParts,),
    equals="ozaki.definition.decision.pairwise_error",
)


def _split_device(parts: list[Array], scale: Array, out: Array, step: int) -> None:
    operand, layout = strided_parts(parts)
    rows, length = out.shape
    constants = {**_constants(out.dtype.name, len(parts), step), **layout}
    constants["ALIGNED"] = int(step % constants["RUN"] == 0)
    arguments = (operand, scale, out, np.int32(rows), np.int32(step), np.int32(length))
    _MAGNITUDES((tile_count(constants, rows, step),), (256,), arguments, **constants)
