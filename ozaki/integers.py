"""Exact products of integer matrices.

On a GPU they are taken modulo int8 moduli (`ozaki.residues.integers`). Elsewhere, and for stacks of small
matrices, of parts whose products float64 holds:

    A = Σ_i A_i·2**(c·i),   B = Σ_j B_j·2**(d·j)      digits of least magnitude      (cut)
    T_s = Σ_{c·i + d·j = s} A_i·B_j,                  k·max|A_i|·max|B_j| <= 2**53   (multiply)
    C = Σ_s T_s·2**s                                  modulo 2**64, or modulo p      (add up)

No partial sum of a product of parts exceeds 2**53, so every order of summation is exact: on a CPU the parts
are multiplied by its BLAS, on a GPU by our own exact product of a stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    is_cupy,
    namespace,
    quietly,
)
from multiword.runtime.options import integer
from multiword.runtime.readback import anywhere
from ozaki.arguments import check_matmul_out, in_numpy_shape, matrices_of, request_of, stacks_of
from ozaki.execution.cache import captured_integers
from ozaki.execution.stacks import multiply_stacks
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.panels import in_panels
from ozaki.product.request import Request
from ozaki.residues.integers import (
    NO_MISFIT,
    IntegerResidues,
    Place,
    Target,
    integer_specification,
    magnitudes_on_device,
)
from ozaki.tuning import LARGEST_IN_A_STACK_ON_DEVICE

EXACT = 2**53
"""Integers up to this, and all below, are numbers of float64."""

LARGEST_MODULUS = 2**63 - 1
"""Residues fit in int64."""

SMALLEST_PANEL = 16
"""Rows and columns of a panel: MemoryError where the workspace does not hold them."""

MOST_PARTS = 16
"""Of a factor: parts of 4 bits leave room for inner dimensions up to 2**45."""


class Cut(NamedTuple):
    """How a factor is cut: into so many parts of so many bits, none larger than `largest`."""

    parts: int
    bits: int
    largest: int


def integer_matmul(
    a: Any, b: Any, dtype: Any, overflow: str, request_options: tuple[Any, ...], out: Array | None = None
) -> Array:
    """Return AB in an integer dtype: exact, or modulo the range of the dtype with overflow="wrap"."""
    dtype = checked_dtype(dtype, overflow)
    a, b = _arrays(a, b, dtype, out)
    (x, y, _), request = matrices_of(a, b), request_of(a, "exact", *request_options)
    checked = overflow == "raise"

    def compute(x: Array, y: Array, origin: tuple[int, ...]) -> Array:
        terms = list(products(x, y, cuts, request, bits))
        result = _wrapped(terms).astype(dtype)
        if bits is None:
            _check_fit(terms, result, x, y, origin)
        return result

    try:
        with quietly(x):
            result = _by_residues(x, y, Target(dtype), request, checked)
            if result is None:
                largest = magnitudes(x, y)
                bits = None if checked and not _surely_fit(x, y, largest, dtype) else 64
                cuts = choose_cuts(x.shape[-1], largest, bits)
                result = _in_panels(compute, x, y, cuts, request.workspace)
    except _Misfit as misfit:
        *stack, i, j = misfit.place
        index = (*stack, *[i] * (a.ndim > 1), *[j] * (b.ndim > 1))
        raise overflow_error(index, misfit.value, dtype) from None
    return in_numpy_shape(result, a, b, out)


def modular_matmul(
    a: Any, b: Any, p: Any, request_options: tuple[Any, ...], out: Array | None = None
) -> Array:
    """Return AB modulo p, as int64 from 0 to p - 1."""
    p = checked_modulus(p)
    a, b = _arrays(a, b, np.int64, out)
    (x, y, _), request = matrices_of(a, b), request_of(a, "exact", *request_options)
    with quietly(x):
        x, y = _residues(x, p), _residues(y, p)

        def compute(x: Array, y: Array, _: tuple[int, ...]) -> Array:
            return _modulo(list(products(x, y, cuts, request)), p)

        result = _by_residues(x, y, Target(np.dtype(np.int64), p), request, False)
        if result is None:
            cuts = choose_cuts(x.shape[-1], magnitudes(x, y))
            result = _in_panels(compute, x, y, cuts, request.workspace)
    return in_numpy_shape(result, a, b, out)


def are_asked(accuracy: str | int | None, dtype: Any, overflow: str, mod: Any) -> bool:
    """Return whether a product is one of integers. ValueError for options that exclude each other."""
    if overflow != "raise" and dtype is None:
        raise ValueError("overflow is that of an integer dtype: give dtype, too")
    if dtype is None and mod is None:
        return False
    if accuracy is not None or (dtype is not None and mod is not None):
        raise ValueError("dtype and mod exclude each other, and accuracy: products of integers are exact")
    return True


def checked_dtype(dtype: Any, overflow: str) -> np.dtype:
    """Return the dtype of a product. TypeError if it is none of integers, ValueError for another overflow."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        raise TypeError(f"dtype must be an integer dtype, got {dtype}; for others, convert the result")
    if overflow not in ("raise", "wrap"):
        raise ValueError(f"overflow must be 'raise' or 'wrap', got {overflow!r}")
    return dtype


def checked_modulus(p: Any) -> int:
    """Return a modulus. TypeError for what is no integer, ValueError out of range."""
    p = integer("mod", p)
    if not 2 <= p <= LARGEST_MODULUS:
        raise ValueError(f"mod must be at least 2 and below 2**63, got {p}")
    return p


def check_integers(**arrays: Any) -> None:
    """Raise TypeError for arrays, by name, that are none of integers or booleans."""
    for name, z in arrays.items():
        if z.dtype.kind not in "biu":
            raise TypeError(
                f"{name} must be an array of integers for an integer product, got dtype {z.dtype}; "
                f"{name}.astype(np.int64) cuts fractions off, if that is what you want"
            )


def overflow_error(index: tuple[int, ...], value: int, dtype: np.dtype) -> OverflowError:
    """Return the error of an element that a dtype cannot hold."""
    return OverflowError(
        f"element {index} of the product is {value}, which {dtype} cannot hold; "
        "overflow='wrap' reduces it modulo the range of the dtype, as NumPy does"
    )


def _surely_fit(x: Array, y: Array, largest: tuple[int, int], dtype: np.dtype) -> bool:
    """Return whether a dtype holds all products of integers of these largest magnitudes."""
    limits = np.iinfo(dtype)
    signs = any(z.dtype.kind == "i" and anywhere(z < 0) for z in (x, y))
    return x.shape[-1] * largest[0] * largest[1] <= limits.max and (limits.min < 0 or not signs)


def _by_residues(x: Array, y: Array, target: Target, request: Request, checked: bool) -> Array | None:
    """Return the products of stacks on a GPU's engine of int8 words; OverflowError as `checked` says.

    None if there is none, or if a stack of small matrices is faster in parts.
    """
    (m, k), n, batch = x.shape[-2:], y.shape[-1], np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    alone = math.prod(batch) == 1 or m * k * n > LARGEST_IN_A_STACK_ON_DEVICE
    has_words = is_cupy(x) and "int8" in request.engine.products and request.scheme != "slices"
    if not (has_words and alone and math.prod(batch) * m * k * n):
        return None
    xp, x, y = namespace(x), _of_64_bits(x), _of_64_bits(y)
    left, right = xp.broadcast_to(x, (*batch, m, k)), xp.broadcast_to(y, (*batch, k, n))
    replayed = None
    if math.prod(batch) == 1:
        pair = Pair(Factor(left.reshape(m, k), 0), Factor(right.reshape(k, n), 1), request)
        replayed = captured_integers(pair, target)
    if replayed is None:
        replayed = _launched(x, y, left, right, target, request)
    out, first = replayed
    out = out.reshape(*batch, m, n)
    if checked and first != NO_MISFIT:
        place = tuple(map(int, np.unravel_index(first, out.shape)))
        raise _Misfit(place, x, y, (0,) * out.ndim)
    return out.astype(target.dtype, copy=False)


def _launched(
    x: Array, y: Array, left: Array, right: Array, target: Target, request: Request
) -> tuple[Array, int]:
    """Return the products of two stacks, also given broadcast, and the first place that does not fit."""
    xp, (*batch, m, k), n = namespace(x), left.shape, right.shape[-1]
    specification = integer_specification((m, k, n), magnitudes(x, y))
    scheme = IntegerResidues(specification, "int8", request.engine)
    out, misfit = xp.empty((*batch, m, n), np.int64), xp.zeros(1, np.uint64)
    unscaled = xp.zeros(max(m, n), np.int32)
    for number, index in enumerate(np.ndindex(*batch)):
        whole = out[index]

        def reconstruct(
            products: Array, rows: slice, columns: slice, whole: Array = whole, before: int = number * m * n
        ) -> None:
            place = Place(before + rows.start * n + columns.start, n)
            scheme.integers(products, target, whole[rows, columns], place, misfit)

        pair = Pair(Factor(left[index], 0), Factor(right[index], 1), request)
        in_panels(scheme, pair, (unscaled[:m], unscaled[:n]), reconstruct)
    return out, NO_MISFIT - int(misfit[0])


def _of_64_bits(x: Array) -> Array:
    return x if x.dtype == np.uint64 else x.astype(np.int64, copy=False)


def _arrays(a: Any, b: Any, dtype: Any, out: Array | None) -> tuple[Array, Array]:
    """Return both as arrays of integers, which `out` fits, if it is given."""
    x, y = as_array(a, "a"), as_array(b, "b")
    check_same_device(a=x, b=y)
    check_integers(a=x, b=y)
    check_matmul_out(out, x, y, dtype)
    return x, y


def _residues(x: Array, p: int) -> Array:
    """Return the residues of integers modulo p of least magnitude."""
    xp = namespace(x)
    residue = xp.remainder(x, x.dtype.type(p)) if x.dtype.itemsize == 8 else x.astype(np.int64) % p
    residue = residue.astype(np.int64)
    return xp.where(residue > p // 2, residue - p, residue)


def magnitudes(x: Array, y: Array) -> tuple[int, int]:
    """Return the largest magnitudes of two arrays of integers; 0 of none.

    >>> magnitudes(np.array([-128, 5], np.int8), np.array([]))
    (128, 0)
    """
    if is_cupy(x):
        of_x, of_y = magnitudes_on_device(
            [_of_64_bits(z).reshape(math.prod(z.shape[:-1]), z.shape[-1]) for z in (x, y)]
        )
        return of_x, of_y
    on_host = (max(int(z.max()), -int(z.min())) if z.size else 0 for z in (x, y))
    return next(on_host), next(on_host)


def _in_panels(
    compute: Callable[..., Array], x: Array, y: Array, cuts: tuple[Cut, Cut], workspace: int
) -> Array:
    """Return compute(X, Y, origin) of stacks, or of panels whose temporaries fit the workspace."""
    (m, k), n, batch = x.shape[-2:], y.shape[-1], np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    of_factors = 16 * k * (cuts[0].parts + cuts[1].parts)  # of a row and a column: each part, and making it
    of_product = 8 * (len(_shifts(*cuts)) + 3)
    side = int((math.sqrt(of_factors**2 + 4 * of_product * workspace) - of_factors) / (2 * of_product))
    if math.prod(batch) * max(m, 1) * max(n, 1) <= side**2 and max(m, n) <= side:
        return compute(x, y, (0,) * (len(batch) + 2))
    if side < SMALLEST_PANEL:
        raise MemoryError(
            f"workspace must hold panels of {SMALLEST_PANEL} rows and columns, got {workspace} bytes"
        )
    xp, dtype = namespace(x), compute(x[..., :0, :], y[..., :0], ()).dtype
    out = xp.empty((*batch, m, n), dtype)
    x, y = xp.broadcast_to(x, (*batch, m, k)), xp.broadcast_to(y, (*batch, k, n))
    for *index, i in np.ndindex(*batch, -(-m // side)):
        rows, misfits = slice(i * side, (i + 1) * side), []
        for start in range(0, n, side):
            columns = slice(start, start + side)
            of_y = y[(*index, slice(None), columns)]
            try:
                out[(*index, rows, columns)] = compute(x[(*index, rows)], of_y, (*index, rows.start, start))
            except _Misfit as misfit:
                misfits.append(misfit)
        if misfits:  # of which the first is to be named
            raise min(misfits, key=lambda misfit: misfit.place)
    return out


def _shifts(left: Cut, right: Cut) -> dict[int, list[tuple[int, int]]]:
    """Return the pairs of parts whose products have the same power of two, by its exponent."""
    shifts: dict[int, list[tuple[int, int]]] = {}
    for i, j in product(range(left.parts), range(right.parts)):
        shifts.setdefault(i * left.bits + j * right.bits, []).append((i, j))
    return shifts


def products(
    x: Array, y: Array, cuts: tuple[Cut, Cut], request: Request, bits: int | None = None
) -> Iterator[tuple[int, Array]]:
    """Yield (s, T_s) with XY = Σ T_s·2**s, by rising s; modulo 2**bits, if given."""
    (left, right), shifts = cuts, _shifts(*cuts)
    of_x, of_y = _parts(x, left), _parts(y, right)
    for shift in sorted(shifts):
        if bits is None or shift < bits:
            yield shift, sum(_multiply(of_x[i], of_y[j], request) for i, j in shifts[shift])


def choose_cuts(k: int, largest: tuple[int, int], bits: int | None = None) -> tuple[Cut, Cut]:
    """Return the cuts of both factors that take the fewest exact products of parts, modulo 2**bits if given.

    >>> choose_cuts(1024, (2**20, 2**20))
    (Cut(parts=1, bits=22, largest=1048576), Cut(parts=1, bits=22, largest=1048576))
    """
    exact = []
    for left in (_cut(largest[0], parts) for parts in range(1, MOST_PARTS + 1)):
        cuts = (_cut(largest[1], parts) for parts in range(1, MOST_PARTS + 1))
        # The fewest parts of B that are exact with these of A: with more of them there are more products.
        right = next((x for x in cuts if k * left.largest * x.largest <= EXACT), None)
        if right is not None:
            exact.append((left, right))

    def cost(pair: tuple[Cut, Cut]) -> tuple[int, int]:
        left, right = pair
        shifts = (i * left.bits + j * right.bits for i, j in np.ndindex(left.parts, right.parts))
        return sum(bits is None or s < bits for s in shifts), left.parts + right.parts

    return min(exact, key=cost)


def _cut(largest: int, parts: int) -> Cut:
    """Return the cut of integers up to `largest` into digits of least magnitude, |x| <= 2**(bits - 1)."""
    bits = -(-(largest.bit_length() + 1) // parts)
    return Cut(parts, bits, largest if parts == 1 else 1 << (bits - 1))


def _parts(x: Array, cut: Cut) -> list[Array]:
    """Return the parts of integers in float64, the lowest first."""
    x = _of_64_bits(x)  # wherever there is no sign, >> fills with zeros
    bits, one, digits = x.dtype.type(cut.bits), x.dtype.type(1), []
    for _ in range(cut.parts - 1):
        carry = (x >> (bits - one)) & one
        low = (x & ((one << bits) - one)).astype(np.int64) - (carry.astype(np.int64) << np.int64(cut.bits))
        digits.append(low.astype(np.float64))
        x = (x >> bits) + carry
    return [*digits, x.astype(np.float64)]


def _multiply(x: Array, y: Array, request: Request) -> Array:
    """Return the exact products of integers in float64, no partial sum of which exceeds 2**53, as int64."""
    if not is_cupy(x):
        return np.matmul(x, y).astype(np.int64)
    return multiply_stacks(*stacks_of(x, y), request).astype(np.int64)


def _wrapped(terms: list[tuple[int, Array]]) -> Array:
    """Return Σ T_s·2**s modulo 2**64, as uint64."""
    total = terms[0][1].astype(np.uint64)
    for shift, term in terms[1:]:
        if shift < 64:
            total = total + (term.astype(np.uint64) << np.uint64(shift))
    return total


def _modulo(terms: list[tuple[int, Array]], p: int) -> Array:
    """Return Σ T_s·2**s modulo p, from 0 to p − 1, by Horner's rule.

    A step takes r to r·2**d + t − q·p, with t = T_s modulo p and q = RN((r·2**d + t)/p) in float64. Parts of
    64 bits are 33 bits apart at most: for |r| <= p·(1/2 + 2**-18) and d <= 33, q is within 1/2 + 2**-18 of
    the quotient. So the new r has that bound, too, which is below 2**63, and is right if it is computed
    modulo 2**64.
    """
    xp, result, place = namespace(terms[0][1]), 0 * terms[0][1], terms[-1][0]
    for shift, term in reversed(terms):
        up, term = place - shift, term % p
        quotient = xp.rint(result * (2.0**up / p) + term / p)
        result, place = (result << up) + term - quotient.astype(np.int64) * p, shift
    return xp.where(result < 0, result + p, result)


def _check_fit(
    terms: list[tuple[int, Array]], result: Array, x: Array, y: Array, origin: tuple[int, ...]
) -> None:
    """Raise OverflowError, with the first place, unless Σ T_s·2**s is the result everywhere.

    The difference is zero if every carry from place to place leaves nothing behind, nor does the last.
    """
    xp, wide = namespace(result), np.uint64 if result.dtype.kind == "u" else np.int64
    value, shifts = result.astype(wide), [*(shift for shift, _ in terms), terms[-1][0] + 32]
    differs, carry = xp.zeros(result.shape, np.bool_), 0
    for (shift, term), above in zip([*terms, (shifts[-1], 0)], [*shifts[1:], None], strict=True):
        digit = value >> wide(min(shift, 63)) if shift < 64 or wide is np.int64 else wide(0) * value
        if above is not None:
            digit = digit & wide((1 << above - shift) - 1)
        rest = carry + term - digit.astype(np.int64)
        if above is None:
            differs |= rest != 0
        else:
            differs |= rest & ((1 << above - shift) - 1) != 0
            carry = rest >> (above - shift)
    if anywhere(differs):
        place = np.unravel_index(int(differs.ravel().argmax()), differs.shape)
        raise _Misfit(tuple(map(int, place)), x, y, origin)


class _Misfit(OverflowError):
    """An element, at a place in panels that begin at an origin, that a dtype cannot hold."""

    def __init__(self, place: tuple[int, ...], x: Array, y: Array, origin: tuple[int, ...]) -> None:
        left, right = stacks_of(x, y)
        row, column = left[place[:-1]].tolist(), right[(*place[:-2], slice(None), place[-1])].tolist()
        self.value = sum(int(p) * int(q) for p, q in zip(row, column, strict=True))
        local = (*(0,) * (len(origin) - len(place)), *place)
        self.place = tuple(i + j for i, j in zip(origin, local, strict=True))
