"""The last step of scheme "residues": from residues of the product to its rounded value."""

from __future__ import annotations

from functools import lru_cache, partial
from types import ModuleType

import numpy as np

from multiword.formats import Format
from multiword.runtime.arrays import Array, is_cupy, real_parts
from multiword.runtime.compiled import compiled
from multiword.runtime.memory import padded
from multiword.runtime.parallel import ALONE_ELEMENTS, BLOCK_ELEMENTS, compiled_block, over_rows, scratch
from ozaki.residues.reconstruct_cuda import reconstruct_on_device
from ozaki.residues.system import ResidueSystem, digits_of, reduce
from ozaki.rounding.digits import round_digits

SMALL_PRODUCT = 1 << 17
"""Multiplications in a product that OpenBLAS computes in one thread (it does up to 2**18)."""


def reconstruct(
    y: Array, system: ResidueSystem, scales: tuple[Array, Array], target: Format, out: Array
) -> None:
    """Write RN(C'·2**(-s_i - t_j)) to `out`, an (m, n) array of the target's dtype or its complex.

    `y` is what `products` returned; it is destroyed. Where several products lie one below the other, the
    scales of the columns are an array with a row for each.
    """
    make = reconstruct_on_device if is_cupy(y) else _reconstruct_host
    make(y, system, scales, target, out)


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
    form = compiled(COMPILED_FORM) if y.dtype == np.float64 else None
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
    """Write the rounded values of rows of (N, m, n) residues to `out`, in NumPy's form or a compiled one.

    The scales are those of the rows, and those of the columns in one row or in one for each.
    """
    round_floats = _round_floats if form is None else partial(_round_compiled, form, out)
    value, doubtful = round_floats(terms, rows, system, scales, target)
    if len(doubtful):
        n = terms.shape[2]
        few = terms[:, rows.start + doubtful // n, doubtful % n].astype(np.float64)
        exponent = np.subtract(-scales[0][:, None].astype(np.int64), scales[1]).ravel()[doubtful]
        value.ravel()[doubtful] = _round_exactly(few, system, exponent, target)
    if value is not out:
        np.copyto(out, value, casting="same_kind")


def _round_floats(
    terms: np.ndarray,
    rows: slice,
    system: ResidueSystem,
    scales: tuple[np.ndarray, np.ndarray],
    target: Format,
) -> tuple[np.ndarray, np.ndarray]:
    """The rounded values of rows of (N, m, n) residues in float64 arithmetic, and which of them may be wrong.

    Exact sums and a small inexact one make two bounds of C'. What rounds to the same number from both
    is that number; the flat indices of all others are returned: few, unless products vanish
    or are subnormal.
    """
    terms = terms[:, rows]
    shape = terms.shape[1:]
    exponents = -scales[0][:, None].astype(np.int64), -scales[1].astype(np.int64)
    lowest, highest = ([f(x) for x in exponents] for f in (np.min, np.max))
    if min(*lowest, sum(lowest)) < target.emin or max(0, *highest, sum(highest)) >= _highest(system):
        return scratch(shape), np.arange(terms[0].size)
    residue, spare = scratch((2, *terms.shape))
    moduli = np.array(system.moduli, np.float64)[:, None, None]
    reduce(terms, moduli, 1 / moduli, spare, residue)
    spare = scratch(shape)
    table, margin = _floats(system)
    of_moduli, of_product = table[1:, :-1], table[2:, -1]
    quotient, *parts = sums = scratch((len(of_moduli), *shape))
    _small_products(of_moduli, residue.reshape(len(residue), -1), sums.reshape(len(sums), -1))
    np.rint(quotient, out=quotient)
    for x, part in zip(parts, of_product, strict=True):
        x -= np.multiply(quotient, part, out=spare)
    leading, *others, low = parts
    for x in others:
        # An error-free sum, because `leading` is a multiple of the last place of the next part.
        total = np.add(leading, x, out=spare)
        leading -= total
        x += leading
        low += x
        leading, spare = total, leading
    margin += RELATIVE_MARGIN * max(leading.max(), -leading.min())
    upper = np.add(low, margin, out=spare)
    low -= margin
    upper += leading
    low += leading
    doubtful = upper != low
    cut = 53 - target.precision
    if cut:  # numbers half way between two of the target may stand for others, on either side
        doubtful |= (low.view(np.int64) & ((1 << cut) - 1)) == 1 << (cut - 1)
    for exponent in exponents:
        low *= np.ldexp(1.0, exponent)
    return low, np.flatnonzero(doubtful)


def _round_compiled(
    form: ModuleType,
    out: np.ndarray,
    terms: np.ndarray,
    rows: slice,
    system: ResidueSystem,
    scales: tuple[np.ndarray, np.ndarray],
    target: Format,
) -> tuple[np.ndarray, np.ndarray]:
    """The same as `_round_floats`, compiled: single numbers are left to be rounded in integers, not all.

    The values are in `out`, if that may be.
    """
    (count, _, n), shape = terms.shape, out.shape
    fits = out.dtype == np.float64 and out.flags.c_contiguous and out.flags.aligned
    value = out if fits else scratch(shape)
    doubtful = scratch(shape, np.bool_)
    if _highest(system) <= 0:
        return value, np.arange(value.size)
    table, margin = _floats(system, form.TOGETHER)
    together = max(n, min(AT_ONCE // n, shape[0]) * n)
    residues = scratch((table.shape[1], together))
    residues[count:] = 0
    sums = scratch((len(table) - 1, together))
    cut = 1 << 53 - target.precision
    found = form.round_rows(
        *(terms.reshape(count, -1), rows.start, table, margin, cut - 1, max(1, cut >> 1)),
        *(target.emin, _highest(system), *scales, value, doubtful, residues, sums),
    )
    return value, np.flatnonzero(doubtful) if found else NONE


def _highest(system: ResidueSystem) -> int:
    """Integers times powers of two below this do not overflow."""
    return 1000 - system.product.bit_length()


NONE = np.empty(0, np.intp)
AT_ONCE = 1 << 10
"""Numbers that are rounded together in compiled code, or a row: what belongs to them stays in the cache."""

RELATIVE_MARGIN = 2.0**-90
"""More than what adding the parts of C' up is rounded by, relative to it."""

SHORT = 40
"""Bits below which what is left of the P/p_t is one part, whose sum with residues is not exact."""


@lru_cache(512)
def _floats(system: ResidueSystem, padding: int = 1) -> tuple[np.ndarray, float]:
    """A table for `_round_floats`, and a bound of the last sum's error.

    The table has a column for each modulus, and one for P: p_t, 1/p_t, and P/p_t and P in M parts. Columns of
    zeros pad it to a multiple of `padding`.

    The sums of all parts but the last times residues, less q times those of P, are exact: parts are
    multiples of a unit each, and no sum reaches 2**53 units. What the sums are rounded by when they
    are added up, a few times 2**-106·|C'|, is not in the bound.
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
    whole = np.zeros((len(table) + 2, padded(count + 1, padding)))
    whole[:, : count + 1] = np.vstack([first, 1 / first, table])
    return whole, error


def _round_exactly(
    residue: np.ndarray, system: ResidueSystem, exponent: np.ndarray, target: Format
) -> np.ndarray:
    """The rounded values of (N, m) residues, in integers."""
    moduli = np.array(system.moduli, np.float64)[:, None]
    residue = reduce(residue, moduli, 1 / moduli)
    result, nonzero = np.zeros(residue.shape[1]), residue.any(axis=0)
    residue, exponent = residue[:, nonzero], exponent[nonzero]
    digits, base_bits = _digits(system)
    inverses = 1 / np.array(system.moduli, np.float64)
    quotient = np.rint((residue * inverses[:, None]).sum(axis=0))
    value = _small_products(digits, np.vstack([residue, quotient]), np.empty((len(digits), len(quotient))))
    result[nonzero] = round_digits(value.astype(np.int64), base_bits, exponent, target)
    return result


@lru_cache(512)
def _digits(system: ResidueSystem) -> tuple[np.ndarray, int]:
    """(L, N + 1) float64, the digits of every P/p_t and of -P, and the bits of a digit.

    Σ |y_t|·digit and |q|·digit stay below 2**53, and digits are short enough for `round_digits`.
    """
    moduli, whole = system.moduli, system.product
    base_bits = min(30, 53 - (max(moduli) // 2).bit_length() - (len(moduli) + 1).bit_length())
    count = -(-whole.bit_length() // base_bits)
    digits = [digits_of(x, base_bits, count) for x in (*(whole // p for p in moduli), -whole)]
    return np.array(digits, np.float64).T.copy(), base_bits


def _small_products(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    """left·right in pieces that the BLAS leaves to the thread that asks: its own would be in our way."""
    step = max(1, SMALL_PRODUCT // left.size)
    for h in range(0, right.shape[1], step):
        np.matmul(left, right[:, h : h + step], out=out[:, h : h + step])
    return out


def _residues_of_parts(y: np.ndarray, rows: slice, system: ResidueSystem) -> list[tuple[np.ndarray, slice]]:
    """The residues of the real parts of a product, and their rows, from its images."""
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
