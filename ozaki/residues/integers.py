"""Scheme "residues" for matrices that are integers already: nothing is scaled, and nothing is rounded.

    C = AB = Σ_t Y_t·(P/p_t) - q·P,   |C| <= k·max|A|·max|B| < P/2

as in `ozaki.residues.scheme`, of which everything but the ends is taken: A and B are 64-bit integers, and C
is reduced modulo 2**64 or modulo p where it is reconstructed, in integers of as many limbs as it needs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.engines.moduli import ResidueSystem, residue_system
from multiword.formats import FORMATS
from multiword.runtime.arrays import Array, is_cupy, namespace
from multiword.runtime.kernels import Kernel, Struct, members
from multiword.runtime.memory import padded
from multiword.runtime.readback import Readback
from ozaki.residues.reconstruct_cuda import (
    ResidueProducts,
    launch_shape,
    reconstruction_constants,
    residue_products,
)
from ozaki.residues.scheme import Residues
from ozaki.residues.split import residues_on_device
from ozaki.schemes import ProductSpecification


class Place(NamedTuple):
    """Where a panel lies in the whole: the index of its first element, and how much more that of a row is."""

    first: int
    stride: int


class Target(NamedTuple):
    """What integers become: of a dtype, modulo its range, or residues modulo `modulus`, from 0, as int64."""

    dtype: np.dtype
    modulus: int = 0


NO_MISFIT = 2**63 - 1
"""In place of the index of an element that does not fit: there is none."""


def integer_specification(shape: tuple[int, int, int], largest: Sequence[int]) -> ProductSpecification:
    """Return the specification of a product of integers, none of which exceeds the largest magnitudes."""
    bits = math.log2(max(1, shape[1] * largest[0] * largest[1])) + 2.0**-20
    left, right = (x.bit_length() for x in largest)
    return ProductSpecification(shape, 1, 1, (left, right), bits, FORMATS["fp64"])


class IntegerResidues(Residues):
    """The scheme for integers: as `Residues`, but for `split` of 64-bit integers and `integers` last."""

    def split(self, parts: list[Array], scale: Array, side: int, padding: int) -> Array:
        """Return the residues of (r, k) integers, int64 or uint64; of A times the weights w_t."""
        (x,), (rows, columns) = parts, parts[0].shape
        shape = 1, len(self.system.moduli), padded(rows, padding), padded(columns, padding)
        out = namespace(x).empty(shape, self.system.word.dtype)
        if is_cupy(x):
            sign, width = 1 if x.dtype.kind == "i" else -1, self.specification.widths[side]
            residues_on_device([x.view(np.float64)], scale, self.system, side == 0, width, out, sign)
        else:
            _split_host(x, self.system, side == 0, out)
        return out

    def integers(self, y: Array, target: Target, out: Array, place: Place, misfit: Array) -> None:
        """Write C, modulo 2**64 or modulo p, to (m, n) int64.

        misfit[0] becomes `NO_MISFIT` less the index of the first element that is not of the target's dtype,
        if that is more.
        """
        if is_cupy(y):
            _reconstruct_device(y, self.system, target, out, place, misfit)
        else:
            _reconstruct_host(y, self.system, target, out, place, misfit)


def _split_host(x: np.ndarray, system: ResidueSystem, weighted: bool, out: np.ndarray) -> None:
    out[...] = 0
    for t, (p, (weight,)) in enumerate(system.weights_of_parts(weighted)):
        residue = (x % x.dtype.type(p)).astype(np.int64) * weight % p
        out[0, t, : x.shape[0], : x.shape[1]] = np.where(2 * residue >= p, residue - p, residue)


def _reconstruct_host(
    y: np.ndarray, system: ResidueSystem, target: Target, out: np.ndarray, place: Place, misfit: np.ndarray
) -> None:
    """The definition, in Python's integers."""
    (m, n), product = out.shape, system.product
    terms = (
        y[0, t, :m, :n].astype(np.int64).astype(object) * (product // p) for t, p in enumerate(system.moduli)
    )
    value: Any = (sum(terms) + product // 2) % product - product // 2
    if target.modulus:
        out[...] = value % target.modulus
        return
    limits = np.iinfo(target.dtype)
    for i, j in np.argwhere((value < limits.min) | (value > limits.max))[:1].tolist():
        misfit[0] = max(int(misfit[0]), NO_MISFIT - (place.first + i * place.stride + j))
    out[...] = (value & (2**64 - 1)).astype(np.uint64).view(np.int64)


class Range(Struct):
    """What becomes of the integers of a launch, and where the first that does not fit is told."""

    _fields_ = (
        *members(ctypes.c_int, "bits", "is_unsigned", "rows", "columns"),
        *members(ctypes.c_longlong, "modulus", "first", "stride"),
        ("misfit", ctypes.c_void_p),
    )


_RECONSTRUCT_INTEGERS = Kernel(
    "reconstruct_integers",
    Path(__file__).with_name("reconstruct_integers.cu"),
    tuple(
        {
            **reconstruction_constants(residue_system("int8", bits, 4096)),
            "PARTS": 1,
            "VECTOR": vector,
            "PRODUCT": product,
            "MODULAR": modular,
        }
        for bits, vector, product, modular in (
            (20.0, 2, "int", 0),
            (75.0, 4, "signed char", 1),
            (140.0, 4, "signed char", 0),
        )
    ),
    (ResidueProducts, Range),
    equals="ozaki.definition.remainders.reconstructed",
)


def _reconstruct_device(
    y: Array, system: ResidueSystem, target: Target, out: Array, place: Place, misfit: Array
) -> None:
    (m, n), dtype = out.shape, target.dtype
    result = out if out.flags.c_contiguous else namespace(y).empty((m, n), out.dtype)
    grid, block, shape = launch_shape(y, m, n)
    constants = {
        **reconstruction_constants(system),
        **shape,
        "PARTS": 1,
        "MODULAR": int(target.modulus > 0),
    }
    fit = Range(
        bits=8 * dtype.itemsize,
        is_unsigned=int(dtype.kind == "u"),
        modulus=target.modulus,
        rows=m,
        columns=n,
        first=place.first,
        stride=place.stride,
        misfit=misfit,
    )
    _RECONSTRUCT_INTEGERS(grid, block, (residue_products(y, system), fit, result), **constants)
    if result is not out:
        out[...] = result


_LARGEST_MAGNITUDE = Kernel(
    "largest_magnitude",
    Path(__file__).with_name("largest_magnitude.cu"),
    equals="ozaki.definition.remainders.reconstructed",
)
_TELL = Kernel(
    "tell",
    Path(__file__).with_name("largest_magnitude.cu"),
    equals="ozaki.definition.remainders.reconstructed",
)


def note_magnitude(x: Array, largest: Array) -> None:
    """Raise largest[0], a uint64 on a GPU, to the largest magnitude of integers of 64 bits in a matrix."""
    steps = sorted(zip(x.strides, x.shape, strict=True), key=lambda axis: abs(axis[0]))
    (inner, columns), (outer, rows) = ((stride // 8, count) for stride, count in steps)
    sizes = (np.int64(z) for z in (rows, columns, outer, inner))
    grid = min(-(-rows // 8), 4 * multiprocessors())
    _LARGEST_MAGNITUDE((grid,), (32, 8), (x, *sizes, np.int32(x.dtype.kind == "i"), largest))


def magnitudes_on_device(matrices: Sequence[Array]) -> tuple[int, ...]:
    """Return the largest magnitudes of matrices of integers of 64 bits on a GPU, which is waited for."""
    noted = namespace(matrices[0]).zeros(len(matrices), np.uint64)
    for i, x in enumerate(matrices):
        note_magnitude(x, noted[i : i + 1])
    return tuple(map(int, noted.tolist()))


def read_back(noted: Array) -> Readback:
    """Return numbers, uint64 on a GPU, on their way to the host; from a graph, at every replay."""
    readback = Readback(noted.size, np.uint64)
    _TELL((1,), (noted.size,), (noted, readback.address))
    readback.send()
    return readback
