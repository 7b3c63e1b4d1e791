"""The first step of scheme "residues": integers, and their residues modulo every modulus."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from multiword.engines import C_TYPES, Word, get_word
from multiword.engines.moduli import ResidueSystem, residue_system
from multiword.engines.words import FLOAT_MAGIC_BITS, symmetric
from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.compiled import compiled
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.memory import padded
from multiword.runtime.parallel import (
    as_rows,
    compiled_block,
    empty_beside,
    over_rows,
    scratch,
)
from multiword.runtime.tiles import THREADS, StridedParts, extent, strided_parts, tile_count, tile_rows
from multiword.tuning import ALONE_ELEMENTS
from ozaki.residues.reduction import SPLIT, on_device, reduce
from ozaki.rounding.truncation import TRUNCATION_CONSTANTS
from ozaki.scaling.scales import zero_nonfinite
from ozaki.scaling.statistics import NONFINITE_ROW
from ozaki.tuning import RESIDUES_AT_ONCE


@lru_cache(512)
def narrow_bits(system: ResidueSystem) -> int:
    """Return the bits up to which integers are reduced from their value; wider ones from 53 bits times 2**x.

    The value's upper half times a residue, and the lower half times another, must add up to less than 2**53,
    and to less than 2**51 where residues are to be of least magnitude (see `reduce`).
    """
    lower, exact = 1 << (SPLIT - 1), 1 << (53 if system.word.residue_moduli.excess else 51)
    widths = range(54, COMPILED_BITS + 1)
    return max(w for w in widths if ((1 << (w - SPLIT)) + lower) * (max(system.moduli) // 2) < exact)


Truncated = tuple[Array, Array]
"""Truncation scales, and where magnitudes go, (1, 1, r', length): see `ozaki.rounding.truncation`."""

COMPILED_FORM = "ozaki.residues.split_numba"

COMPILED_BITS = 78
"""Compiled code takes integers up to these many bits: their upper half has 51, and is itself reduced first
where that makes the difference."""


def residues(
    parts: list[Array],
    scale: Array,
    system: ResidueSystem,
    padding: int,
    weighted: bool,
    width: int,
    truncated: Truncated | None = None,
) -> Array:
    """Return the residues of an operand's integers A', in the system's words.

    Parameters
    ----------
    parts : (r, k) float32 or float64 real parts; on a GPU also (s, r, k).
    scale : (r,) int32; rows with the scale `NONFINITE_ROW` are taken as zero.
    padding : the row count and row length are filled up with zeros to multiples of this.
    weighted : whether to take w_t in (one side of a product must, the other must not).
    width : |A'| <= 2**width.
    truncated : where a GPU writes magnitudes, too, with int8 words.

    Returns
    -------
    (images, N, r', k') array: those of the system, for which products are taken one by one.
    """
    rows, columns = extent(parts)
    shape = (system.images, len(system.moduli), padded(rows, padding), padded(columns, padding))
    out = empty_beside(parts[0], shape, system.word.dtype)
    make: Callable[..., None] = _residues_host
    if is_cupy(parts[0]):
        make = partial(residues_on_device, truncated=truncated)
    if make is _residues_host and out.dtype == np.float64 and width <= COMPILED_BITS and padding == 1:
        form = compiled(COMPILED_FORM)
        make = make if form is None else partial(_residues_compiled, form)
    make(parts, scale, system, weighted, width, out)
    return out


def split_factors(system: ResidueSystem, weighted: int) -> np.ndarray:
    """Return (N, 2 + 2·parts) float64: p, 1/p, and for each real part the symmetric residues of its weight w
    and of w·2**SPLIT."""
    rows = []
    for p, weights in system.weights_of_parts(bool(weighted)):
        pairs = ((symmetric(w, p), symmetric(w << SPLIT, p)) for w in weights)
        rows.append((p, 1 / p, *(f for pair in pairs for f in pair)))
    return np.array(rows, dtype=np.float64)


def powers_of_two(system: ResidueSystem, count: int) -> np.ndarray:
    """Return (N, count) float64: the symmetric residues of 2**x, for wide integers."""
    moduli = np.array(system.moduli)
    powers = np.ones((count, len(moduli)), np.int64)
    for before, after in pairwise(powers):
        np.remainder(2 * before, moduli, out=after)
    return np.ascontiguousarray(np.where(powers > moduli // 2, powers - moduli, powers).T, np.float64)


def _residues_host(
    parts: list[np.ndarray],
    scale: np.ndarray,
    system: ResidueSystem,
    weighted: bool,
    width: int,
    out: np.ndarray,
) -> None:
    """Write A'·w_t mod p_t, from A' = (high·2**SPLIT + low)·2**power: every step is exact in float64."""
    rows, columns = parts[0].shape
    factors, powers = split_factors(system, weighted), powers_of_two(system, max(1, width - 51))
    out[:, :, rows:] = 0
    out[:, :, :, columns:] = 0

    def work(block: slice) -> None:
        integers = [_integer_halves(x[block], scale[block]) for x in parts]
        for t, (p, inverse, *weights) in enumerate(factors):
            y = []
            for (high, low, power), low_factor, high_factor in zip(
                integers, weights[::2], weights[1::2], strict=True
            ):
                x = reduce(high * high_factor + low * low_factor, p, inverse)
                y.append(reduce(x * powers[t][power], p, inverse))
            if system.images > 1:
                sums = (y[0] + y[1],) if system.images == 3 else (y[0] + y[1], y[0] - y[1])
                y = [*(y if system.images == 3 else ()), *(reduce(x, p, inverse) for x in sums)]
            for target, x in zip(out[:, t, block, :columns], y, strict=True):
                # 128 and -128 are one residue modulo 256; only the latter is an int8.
                np.copyto(target, np.where(x == 128, -128, x) if p == 256 else x, casting="unsafe")

    over_rows(work, rows, columns)


def _integer_halves(x: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return high and low, of 26 bits, and power: A' = RN(x·2**scale) = (high·2**SPLIT + low)·2**power."""
    value = x.astype(np.float64)
    scale = zero_nonfinite(value, scale)[:, None]
    power = np.maximum(np.frexp(value)[1] + scale - FORMATS["fp64"].precision, 0)
    power[value == 0] = 0
    value = np.rint(np.ldexp(value, scale - power))
    high = np.rint(np.ldexp(value, -SPLIT))
    return high, value - np.ldexp(high, SPLIT), power


def _residues_compiled(
    form: ModuleType,
    parts: list[np.ndarray],
    scale: np.ndarray,
    system: ResidueSystem,
    weighted: bool,
    width: int,
    out: np.ndarray,
) -> None:
    of_parts, long = _factors_of_parts(system, weighted), width > narrow_bits(system)
    scale, (rows, columns) = np.ascontiguousarray(scale, np.int32), parts[0].shape
    flat = out.reshape(*out.shape[:2], -1)  # nothing is padded on the host

    def work(block: slice) -> None:
        together = max(columns, min(RESIDUES_AT_ONCE // columns, block.stop - block.start) * columns)
        halves = scratch((2, together))
        for x, y, of_part in zip(parts, flat, of_parts, strict=True):
            x = as_rows([x], block)
            form.split_rows(x, scale[block], of_part, long, block.start * columns, y, halves)
        if len(parts) == 2:
            moduli, images = of_parts[0][:, :1, None], out[:, :, block]
            _to_images(images, moduli, 1 / moduli, scratch((2, *images.shape[1:])))

    over_rows(work, rows, columns, compiled_block(rows * columns), ALONE_ELEMENTS)


@lru_cache(512)
def _factors_of_parts(system: ResidueSystem, weighted: bool) -> list[np.ndarray]:
    """Return for each real part (N, 4): p, 1/p, and its two factors."""
    factors = split_factors(system, weighted)
    return [np.ascontiguousarray(factors[:, [0, 1, i, i + 1]]) for i in range(2, factors.shape[1], 2)]


def _to_images(x: np.ndarray, p: np.ndarray, inverse: np.ndarray, spare: np.ndarray) -> None:
    """Replace the weighted residues of both real parts by the two images modulo p."""
    difference = np.subtract(x[0], x[1], out=spare[1])
    x[0] += x[1]
    reduce(x[0], p, inverse, spare[0])
    reduce(difference, p, inverse, spare[0], x[1])


class SplitTables(Struct):
    """The scales of the rows and, for fp64 words, the tables of the system."""

    _fields_ = (
        *members(ctypes.c_void_p, "scales", "factors", "powers"),
        ("wide", ctypes.c_int),
    )


def _run(word: Word, parts: int) -> int:
    """Return the numbers of each part to a thread: with integer words, as many as fill its longest store."""
    return 4 if word.floating else 16 // parts


@lru_cache(512)
def split_constants(
    system: ResidueSystem,
    weighted: tuple[bool, ...],
    width: int,
    parts: int,
    aligned: bool,
    integers: int = 0,
) -> dict[str, Any]:
    """Return the constants of kernels that split factors, each `weighted` or not, but for those of tiles."""
    constants: dict[str, Any] = {
        "SPLIT": SPLIT,
        "NONFINITE_ROW": NONFINITE_ROW,
        "WORD": C_TYPES[system.word.dtype.name],
        "FLOATING": int(system.word.floating),
        "MODULI": len(system.moduli),
        "PARTS": parts,
        "IMAGES": system.images,
        "RUN": _run(system.word, parts),
        "INTEGERS": integers,
    }
    if system.word.floating:
        return {**constants, "WIDE": int(width > narrow_bits(system))}
    words = -(-(width + 2) // 32)  # ±2**width in two's complement
    tables = [[_modulus(p, w, words) for p, w in system.weights_of_parts(x)] for x in weighted]
    return {**constants, "ALIGNED": int(aligned), "WORDS": words, "TABLE": _initializer(tables)}


def _tile_rows(word: Word, parts: int, columns: int) -> dict[str, int]:
    return tile_rows(_run(word, parts), columns, 32 if word.floating else 16 // parts)


def tiled_constants(
    system: ResidueSystem, weighted: bool, width: int, parts: int, columns: int, integers: int = 0
) -> dict[str, Any]:
    """Return the constants of a kernel that splits one factor in tiles, into rows of so many residues."""
    aligned = columns % _run(system.word, parts) == 0
    constants = split_constants(system, (weighted,), width, parts, aligned, integers)
    return {**constants, **_tile_rows(system.word, parts, columns)}


def _modulus(p: int, weights: tuple[int, ...], words: int) -> list[Any]:
    """Return the kernel's `Modulus`: 1/p, p, and for each real part where its sum starts, and the weights of
    all bytes, four to an int."""
    starts = [symmetric(-w << (32 * words - 1), p) for w in weights]
    starts[0] += FLOAT_MAGIC_BITS
    of_bytes = np.array([[symmetric(w << 8 * i, p) for i in range(4 * words)] for w in weights])
    # 128 and -128 are one residue modulo 256; only the latter is a byte with a sign.
    packed = np.where(of_bytes == 128, -128, of_bytes).astype(np.int8).view("<i4")
    return [f"{float(np.float32(1 / p)).hex()}f", p, starts, packed.tolist()]


def _initializer(x: Any) -> str:
    """Return nested lists as an initializer of C."""
    return f"{{{','.join(map(_initializer, x))}}}" if isinstance(x, list) else str(x)


_SPLIT_RESIDUES = Kernel(
    "split_residues",
    Path(__file__).with_name("split.cu"),
    tuple(
        {
            **split_constants(
                residue_system(word, bits, 4096, parts), (True,), width, parts, width < 99, integers
            ),
            **_tile_rows(get_word(word), parts, columns),
            **TRUNCATION_CONSTANTS,
            "ALONG_K": along,
            "UNIT": 2 - parts,
            "REAL": t,
            "TRUNCATED": int((word, along, integers) == ("int8", 1, 0)),
        }
        for along in (0, 1)
        for word, bits, t, parts, width, columns, integers in (
            ("int8", 109.2, "double", 1, 55, 4096, 0),
            ("int8", 109.2, "double", 1, 55, 16, 0),
            ("int8", 54.6, "float", 2, 28, 64, 0),
            ("int8", 38.8, "Float16", 1, 20, 4096, 0),
            ("int8", 30.8, "BFloat16", 1, 16, 4096, 0),
            ("int8", 300.0, "double", 2, 150, 4096, 0),
            ("int8", 140.0, "double", 1, 63, 4096, 1),
            ("int8", 140.0, "double", 1, 64, 4096, -1),
            ("fp64", 109.2, "float", 1, 55, 16, 0),
            ("fp64", 900.0, "double", 2, 450, 4096, 0),
        )
    ),
    (StridedParts, SplitTables),
    equals="ozaki.definition.remainders.symmetric_residue",
)


def residues_on_device(
    parts: list[Array],
    scale: Array,
    system: ResidueSystem,
    weighted: bool,
    width: int,
    out: Array,
    integers: int = 0,
    truncated: Truncated | None = None,
) -> None:
    """Write the residues of A', or of the integers in 64 bits of each, with a sign (1) or without (-1); and
    magnitudes."""
    operand, layout = strided_parts(parts)
    padded_rows, padded_columns = out.shape[2:]
    constants = {
        **tiled_constants(system, weighted, width, len(parts), padded_columns, integers),
        **TRUNCATION_CONSTANTS,
        **layout,
        "TRUNCATED": int(truncated is not None),
    }
    wide = width if constants.get("WIDE") else 0
    factors = powers = scale  # not read with integer words: the kernel has its tables
    if system.word.floating:
        factors = on_device(split_factors, system, int(weighted), namespace(out))
        powers = on_device(powers_of_two, system, wide, namespace(out)) if wide else factors
    tables = SplitTables(scales=scale, factors=factors, powers=powers, wide=wide)
    truncation_scale, magnitudes = truncated or (scale, out)
    length = np.int32(magnitudes.shape[-1])
    sizes = np.int32(padded_rows), np.int32(padded_columns)
    arguments = operand, tables, out, *sizes, truncation_scale, magnitudes, length
    blocks = tile_count(constants, padded_rows, padded_columns)
    _SPLIT_RESIDUES((blocks,), (THREADS,), arguments, **constants)
