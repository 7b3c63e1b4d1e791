"""The last step of scheme "residues": from residues of the product to its rounded value."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType

import numpy as np

from multiword.engines.moduli import ResidueSystem, digits_of
from multiword.formats import Format
from multiword.runtime.arrays import Array, is_cupy, real_parts
from multiword.runtime.compiled import compiled
from multiword.runtime.memory import padded
from multiword.runtime.parallel import compiled_block, over_rows, scratch
from multiword.tuning import ALONE_ELEMENTS, BLOCK_ELEMENTS
from ozaki.residues.reconstruct_cuda import reconstruct_on_device
from ozaki.residues.reduction import reduce
from ozaki.rounding.digits import round_digits
from ozaki.tuning import RESIDUES_AT_ONCE


def reconstruct(
    y: Array,
    system: ResidueSystem,
    scales: tuple[Array, Array],
    target: Format,
    out: Array,
    symmetric: bool = False,
) -> None:
    """Write RN(C'·2**(-s_i - t_j)) to `out`, an (m, n) array of the target's dtype or its complex.

    `y` is what `products` returned; it is destroyed. Where several products lie one below the other, the
    scales of the columns are an array with a row for each. Of a symmetric real product on a GPU, nothing
    above the diagonal is read.
    """
    if is_cupy(y):
        reconstruct_on_device(y, system, scales, target, [out], symmetric)
    else:
        _reconstruct_host(y, system, scales, target, out)


def _reconstruct_host(
    y: np.ndarray,
    system: ResidueSystem,
    scales: tuple[np.ndarray, np.ndarray],
    target: Format,
    out: np.ndarray,
) -> None:
    m, n = out.shape
    y, parts = np.ascontiguousarray(y[..., :n]), real_parts(out)
    row_scale, columns = (np.ascontiguousarray(x, np.int32) for x in (scales[0], scales[1].reshape(-1, n)))
    form = compiled(COMPILED_FORM)
    elements, alone = (BLOCK_ELEMENTS, 0) if form is None else (compiled_block(2 * m * n), ALONE_ELEMENTS)

    def work(block: slice) -> None:
        products = np.arange(block.start, block.stop) * len(columns) // m if len(columns) > 1 else slice(1)
        of_block = row_scale[block], columns[products]
        for part, (terms, rows) in zip(parts, _residues_of_parts(y, block, system), strict=True):
            round_residues(terms, rows, system, of_block, target, form, part[block])

    over_rows(work, m, 2 * n, elements, alone)


COMPILED_FORM = "ozaki.residues.reconstruct_numba"


def round_residues(
    terms: np.ndarray,
    rows: slice,
    system: ResidueSystem,
    scales: tuple[np.ndarray, np.ndarray],
    target: Format,
    form: ModuleType | None,
    out: np.ndarray,
) -> None:
    """Write the rounded values of rows of (N, m, n) residues to `out`.

    They are rounded in integers; where there is compiled code, only those that it leaves undecided.
    The scales are those of the rows, and those of the columns in one row or in one for each.
    """
    if form is None:
        value, undecided = np.empty(out.shape), np.arange(out.size)
    else:
        value, undecided = _round_compiled(form, out, terms, rows, system, scales, target)
    if len(undecided):
        n = terms.shape[2]
        residues = terms[:, rows.start + undecided // n, undecided % n].astype(np.float64)
        exponent = np.subtract(-scales[0][:, None].astype(np.int64), scales[1]).ravel()[undecided]
        value.ravel()[undecided] = _round_exactly(residues, system, exponent, target)
    if value is not out:
        np.copyto(out, value, casting="same_kind")


def _round_compiled(
    form: ModuleType,
    out: np.ndarray,
    terms: np.ndarray,
    rows: slice,
    system: ResidueSystem,
    scales: tuple[np.ndarray, np.ndarray],
    target: Format,
) -> tuple[np.ndarray, np.ndarray]:
    """Return values rounded in float64 arithmetic, in `out` if it fits, and indices of the undecided ones.

    Exact sums and a small inexact one make two bounds of C'. Where both round to the same number, that is the
    result; others are undecided, which is rare unless products are subnormal.
    """
    (count, _, n), shape = terms.shape, out.shape
    fits = out.dtype == np.float64 and out.flags.c_contiguous and out.flags.aligned
    value = out if fits else scratch(shape)
    undecided = scratch(shape, np.bool_)
    if _highest(system) <= 0:
        return value, np.arange(value.size)
    if terms.dtype != np.float64:
        terms, rows = terms[:, rows].astype(np.float64), slice(0, rows.stop - rows.start)
    table, margin = _floats(system, form.TOGETHER)
    together = max(n, min(RESIDUES_AT_ONCE // n, shape[0]) * n)
    residues = scratch((table.shape[1], together))
    residues[count:] = 0
    sums = scratch((len(table) - 1, together))
    cut = 1 << 53 - target.precision
    left = form.round_rows(
        *(terms.reshape(count, -1), rows.start, table, margin, cut - 1, max(1, cut >> 1)),
        *(2.0**target.emin, _highest(system), *scales, value, undecided, residues, sums),
    )
    return value, np.flatnonzero(undecided) if left else NONE


def _highest(system: ResidueSystem) -> int:
    """Return the exponent below which integers times powers of two do not overflow."""
    return 1000 - system.product.bit_length()


NONE = np.empty(0, np.intp)
RELATIVE_MARGIN = 2.0**-90
"""More than the relative rounding error of adding up the parts of C'."""

SHORT = 40
"""Bits below which the rest of the P/p_t is one part, whose sum with residues is not exact."""


@lru_cache(512)
def _floats(system: ResidueSystem, padding: int) -> tuple[np.ndarray, float]:
    """Return the table of `round_rows`, and a bound of the error of its last sum.

    The table has a column for each modulus, and one for P: p_t, 1/p_t, and P/p_t and P in M parts. Columns of
    zeros pad it to a multiple of `padding`.

    The sums of all parts but the last times residues, less q times those of P, are exact: parts are
    multiples of a unit each, and no sum reaches 2**53 units. The rounding of these sums when they are added
    up, below RELATIVE_MARGIN·|C'|, is not in the bound.
    """
    moduli, product = system.moduli, system.product
    count = len(moduli)
    weight = sum(moduli) + 5 * count + 2  # twice the sum of all factors, |y_t| <= p_t/2 + 2 and |q|
    # |Σ y·(P/p_t)| + |q·P| < (N + 1)·P, and the other sums are below `weight`/2 times half of a unit.
    units = [max(0, product.bit_length() + (count + 1).bit_length() - 53)]
    while units[-1] > SHORT:
        units.append(max(0, units[-1] - 53 + weight.bit_length()))
    parts: list[list[float]] = []
    for x in (*(product // p for p in moduli), product):
        parts.append([])
        for unit in units:
            multiple = (x + (1 << unit >> 1)) >> unit << unit
            parts[-1].append(float(multiple))
            x -= multiple
        parts[-1].append(float(x))
    table = np.array(parts).T
    error = (count + len(units) + 8) * float(weight << units[-1]) * 2.0**-52 if units[-1] else 0.0
    first = np.array([*moduli, 1], np.float64)
    padded_table = np.zeros((len(table) + 2, padded(count + 1, padding)))
    padded_table[:, : count + 1] = np.vstack([first, 1 / first, table])
    return padded_table, error


def _round_exactly(
    residue: np.ndarray, system: ResidueSystem, exponent: np.ndarray, target: Format
) -> np.ndarray:
    """Return the rounded values of (N, m) residues, computed in integers."""
    moduli = np.array(system.moduli, np.float64)[:, None]
    residue = reduce(residue, moduli, 1 / moduli)
    result, nonzero = np.zeros(residue.shape[1]), residue.any(axis=0)
    residue, exponent = residue[:, nonzero], exponent[nonzero]
    digits, base_bits = _digits(system)
    inverses = 1 / np.array(system.moduli, np.float64)
    quotient = np.rint((residue * inverses[:, None]).sum(axis=0))
    value = digits @ np.vstack([residue, quotient])
    result[nonzero] = round_digits(value.astype(np.int64), base_bits, exponent, target)
    return result


@lru_cache(512)
def _digits(system: ResidueSystem) -> tuple[np.ndarray, int]:
    """Return (L, N + 1) float64, the digits of every P/p_t and of -P, and the bits of a digit.

    Σ |y_t|·digit and |q|·digit stay below 2**53, and digits are short enough for `round_digits`.
    """
    moduli, product = system.moduli, system.product
    base_bits = min(30, 53 - (max(moduli) // 2).bit_length() - (len(moduli) + 1).bit_length())
    count = -(-product.bit_length() // base_bits)
    digits = [digits_of(x, base_bits, count) for x in (*(product // p for p in moduli), -product)]
    return np.array(digits, np.float64).T.copy(), base_bits


def _residues_of_parts(y: np.ndarray, rows: slice, system: ResidueSystem) -> list[tuple[np.ndarray, slice]]:
    """Return the residues of the real parts of a product, and their rows, from its images."""
    if system.images == 1:
        return [(y[0], rows)]
    images, every = y[:, :, rows].astype(np.float64, copy=False), slice(0, rows.stop - rows.start)
    if system.images == 3:
        real, imaginary, both = images
        return [(real - imaginary, every), (both - real - imaginary, every)]
    one, other = images
    difference = one - other
    moduli = np.array(system.moduli, np.float64)[:, None, None]
    reduce(difference, moduli, 1 / moduli)
    difference *= system.inverse_roots[:, None, None]
    return [(one + other, every), (difference, every)]
