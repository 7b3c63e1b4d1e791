"""The block FMA: one step of a tensor core, for a slab of results at a time.

One step computes d = c + Σ aᵢbᵢ over a block of products (algorithms 2):

1. each product is exact, with the sum of its operands' exponents as its exponent;
2. all terms are aligned to the largest exponent of the step and cut to F fraction bits;
3. they are added exactly: integers in units of 2**(largest exponent - F);
4. the sum is normalised and rounded once to the accumulator's format.

A slab of results goes through each line at once. The products live in float32 and their
aligned integers in int32 wherever the data's exponents allow (always for fp16), in float64
otherwise; both are exact, so the choice shows in the time alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multiword.engines.generations import Generation
from multiword.formats import Format, get_format

ZERO_EXPONENT = -4000
"""Exponent given to a zero operand: its product never decides the alignment."""

FLOOR_EXPONENT = -133
"""A step aligns to this at least, so bits below 2**(-133 - F) are cut however small all its terms are.
Measured on an H200 (bf16: terms down to 2**-158 count, 2**-159 do not); lower than any product in
fp16, so the older generations' floor shows in no result."""

NARROW_FLOOR = -100
"""The same where float32 carries the products: they are multiples of 2**-110, so a step of zeros may
align here."""

_ROUNDERS = {"RN": np.rint, "RD": np.floor, "RU": np.ceil}
_FP32_MASK = np.int64(-1 << 29)
"""The bits of a float64 whose significand is cut to fp32's 24."""


@dataclass(frozen=True)
class Operands:
    """Words made ready for the block FMA: values, exponents and what is not finite.

    Attributes
    ----------
    a, b : (k, m) and (k, n) arrays of the finite words of Aᵀ and B (others are 0), float32 or float64.
    ea, eb : their exponents, int16 of the same shapes.
    special_a, special_b : (k, m) and (k, n), Aᵀ and B with every finite value replaced by its sign,
        so that their float64 product says what Inf and NaN do; None if all is finite.
    wide : whether float64 carries the products: because float32 cannot, or because a sum can
        fall among fp32's subnormals or overflow.
    """

    a: np.ndarray
    b: np.ndarray
    ea: np.ndarray
    eb: np.ndarray
    special_a: np.ndarray | None
    special_b: np.ndarray | None
    wide: bool


def exponents(x: np.ndarray, emin: int) -> np.ndarray:
    """Return the exponents e of float64 `x`, 2**e ≤ |x| < 2**(e+1), but emin for subnormals (int16)."""
    field = (x.view(np.int64) >> 52) & 0x7FF
    normal = np.maximum(field - 1023, emin)
    return np.where(x == 0, ZERO_EXPONENT, normal).astype(np.int16)


def prepare(a: np.ndarray, b: np.ndarray, word: str, generation: Generation, wide: bool) -> Operands:
    """Take apart the words of A, (m, k), and B, (k, n); `wide` to have float64 in any case."""
    source = get_format(word)
    left, right = (np.ascontiguousarray(x, dtype=np.float64) for x in (a.T, b))
    special_a = special_b = None
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        special_a, special_b = (np.where(np.isfinite(x), np.sign(x), x) for x in (left, right))
        left, right = (np.where(np.isfinite(x), x, 0.0) for x in (left, right))
    ea, eb = exponents(left, source.emin), exponents(right, source.emin)
    lowest, highest = _range(ea, eb)
    term = int(2**generation.fraction_bits * (2 - 2.0 ** (1 - source.precision)) ** 2)
    fits = generation.widths[word] * max(term, 1) < 2**31
    # Directed alignment must see the sign of a term however small: float32 would lose it.
    directed = generation.alignment in ("RD", "RU")
    wide = wide or not fits or directed or lowest < -90 or highest > 100
    carrier = np.float64 if wide else np.float32
    return Operands(left.astype(carrier), right.astype(carrier), ea, eb, special_a, special_b, wide)


def _range(ea: np.ndarray, eb: np.ndarray) -> tuple[int, int]:
    """Return the smallest and the largest exponent that a nonzero product can have."""
    ends = []
    for e in (ea, eb):
        nonzero = e[e != ZERO_EXPONENT]
        ends.append((int(nonzero.min()), int(nonzero.max())) if nonzero.size else (0, 0))
    return ends[0][0] + ends[1][0], ends[0][1] + ends[1][1]


class BlockFMA:
    """The step for one slab of results, with its working arrays.

    Parameters
    ----------
    generation : what multiplies.
    target : the accumulator's format, "fp32" or "fp16".
    shape : (rows, columns) of the slab.
    width : the largest number of products in a step.
    wide : as in `Operands`.
    """

    def __init__(
        self, generation: Generation, target: str, shape: tuple[int, int], width: int, wide: bool
    ) -> None:
        self.generation = generation
        self.target: Format = get_format(target)
        self.wide = wide
        self.carrier = np.float64 if wide else np.float32
        self.integers = np.int64 if wide else np.int32
        block = (width, *shape)
        self.product, self.exponent = np.empty(block, self.carrier), np.empty(block, np.int16)
        self.aligned = self.product if wide else np.empty(block, np.int32)
        self.total = np.empty(shape, self.aligned.dtype)
        self.largest, self.block_largest = np.empty(shape, np.int16), np.empty(shape, np.int16)
        self.field = np.empty(shape, self.integers)
        self.scale, self.addend = np.empty(shape, self.carrier), np.empty(shape, self.carrier)
        self.value = np.empty(shape)
        rounder = _ROUNDERS.get(generation.alignment)
        # float32 to int32 truncates by itself; in float64 the truncation is spelled out
        self.align = np.trunc if wide and rounder is None else rounder

    def step(self, a: np.ndarray, b: np.ndarray, ea: np.ndarray, eb: np.ndarray, c: np.ndarray) -> None:
        """Add A·B to c, in place, over one block: a, ea (w, rows); b, eb (w, columns)."""
        self._find_largest(ea, eb, c)
        self._add_products(a, b)
        self._add_accumulator(c)
        self._round(c)

    def _find_largest(self, ea: np.ndarray, eb: np.ndarray, c: np.ndarray) -> None:
        if self.wide:
            np.copyto(self.largest, exponents(c, self.target.emin))
        else:  # c is zero or normal in fp32
            np.right_shift(c.view(np.int32), 23, out=self.field)
            np.bitwise_and(self.field, 0xFF, out=self.field)
            np.subtract(self.field, 127, out=self.largest, casting="unsafe")
        floor = FLOOR_EXPONENT if self.wide else NARROW_FLOOR
        np.maximum(self.largest, np.int16(floor), out=self.largest)
        sums = np.add(ea[:, :, None], eb[:, None], out=self.exponent[: len(ea)])
        np.maximum.reduce(sums, axis=0, out=self.block_largest)
        np.maximum(self.largest, self.block_largest, out=self.largest)

    def _add_products(self, a: np.ndarray, b: np.ndarray) -> None:
        """Write the exact sum of the aligned products, in units of 2**(largest - F), to `total`."""
        np.subtract(self.generation.fraction_bits, self.largest, out=self.field)
        _power_of_two(self.field, self.scale)
        product, aligned = self.product[: len(a)], self.aligned[: len(a)]
        np.multiply(a[:, :, None], b[:, None], out=product)
        np.multiply(product, self.scale, out=product)
        if self.align is not None:
            self.align(product, out=product)
        if not self.wide:
            np.copyto(aligned, product, casting="unsafe")
        np.add.reduce(aligned, axis=0, out=self.total)

    def _add_accumulator(self, c: np.ndarray) -> None:
        """Write the exact sum with c, in the same units, to `value`."""
        np.multiply(c, self.scale, out=self.addend)
        _ROUNDERS.get(self.generation.alignment, np.trunc)(self.addend, out=self.addend)
        np.add(self.addend, self.total, out=self.value)
        if self.generation.carry_bits is not None:
            top = self.generation.fraction_bits + 1 + self.generation.carry_bits
            np.fmod(self.value, 2.0**top, out=self.value)
            np.add(self.value, 0.0, out=self.value)  # the hardware returns no negative zero

    def _round(self, c: np.ndarray) -> None:
        """Normalise the sum and round it to the accumulator's format."""
        np.negative(self.field, out=self.field)
        unit = _power_of_two(self.field, self.scale)
        if self.wide:
            np.multiply(self.value, unit, out=self.value)
            half = self.target.name == "fp16"
            rounded = self.value.astype(np.float16) if half else self._to_fp32(self.value)
            np.add(rounded, 0.0, out=c, dtype=np.float64)  # the hardware returns no negative zero
            return
        # Neither subnormal nor infinite, so the integer may be rounded before it is scaled.
        if self.generation.rounding == "RZ":
            np.bitwise_and(self.value.view(np.int64), _FP32_MASK, out=self.value.view(np.int64))
            np.copyto(c, self.value, casting="same_kind")
        else:
            c[...] = self._to_fp32(self.value)
        np.multiply(c, unit, out=c)

    def _to_fp32(self, x: np.ndarray) -> np.ndarray:
        return round_to_fp32(x, self.generation.rounding)


def _power_of_two(exponent: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write 2**exponent to `out`, from its bits; int64 exponents for float64, int32 for float32."""
    bias, shift = (1023, 52) if out.dtype == np.float64 else (127, 23)
    field = out.view(exponent.dtype)
    np.add(exponent, bias, out=field)
    np.left_shift(field, shift, out=field)
    return out


def round_to_fp32(x: np.ndarray, rounding: str) -> np.ndarray:
    """Return float64 `x` rounded to fp32 in a direction, subnormals and overflow included.

    A magnitude of 2**128 or more is infinite in every direction.
    """
    nearest = x.astype(np.float32)
    if rounding == "RN":
        return nearest
    back = nearest.astype(np.float64)
    if rounding == "RZ":
        wrong, toward = np.abs(back) > np.abs(x), np.float32(0)
    elif rounding == "RD":
        wrong, toward = back > x, np.float32(-np.inf)
    else:
        wrong, toward = back < x, np.float32(np.inf)
    stepped = np.where(wrong, np.nextafter(nearest, toward), nearest)
    return np.where(np.abs(x) >= 2.0**128, np.copysign(np.float32(np.inf), x), stepped).astype(np.float32)
