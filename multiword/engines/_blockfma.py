"""The block FMA: one step of a tensor core, for a whole slab of results at a time.

One step computes d = c + Σ aᵢbᵢ over a block of products (algorithms 2):

1. each product is exact, with the sum of its operands' exponents as its exponent;
2. all terms are aligned to the largest exponent of the step and cut to F fraction bits;
3. they are added exactly: integers in units of 2**(largest exponent - F);
4. the sum is normalised and rounded once to the accumulator's format.

Whole slabs of results go through each line at once. The products live in float32 and their
aligned integers in int32 wherever the data's exponents allow (always for fp16), in float64
otherwise; both are exact, so the choice shows in the time alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multiword.engines._generations import Generation
from multiword.formats import Format, get_format

ZERO_EXPONENT = -4000
"""Exponent given to a zero operand: its product never decides the alignment."""

FLOOR_EXPONENT = -260
"""Below every product: a zero accumulator takes no part in the alignment. (On an H200 any floor of
-129 or lower gives the bits observed; -126, the exponent field of a zero in fp32, does not.)"""

_ROUNDERS = {"RN": np.rint, "RD": np.floor, "RU": np.ceil}
_FP32_MASK = np.int64(-1 << 29)
"""What is left of a float64's bits when its significand is cut to fp32's 24."""


@dataclass(frozen=True)
class Operands:
    """Words made ready for the block FMA: values, exponents and what is not finite.

    Attributes
    ----------
    a, b : (m, k) and (k, n) arrays of the finite words (others are 0), in `carrier`.
    ea, eb : int16 exponents of the same shapes.
    special_a, special_b : the operands with every finite value replaced by its sign, so that
        their float64 product says what Inf and NaN do; None if all is finite.
    wide : whether float64 carries the products.
    extreme : whether a product can fall among fp32's subnormals or beyond its largest number.
    """

    a: np.ndarray
    b: np.ndarray
    ea: np.ndarray
    eb: np.ndarray
    special_a: np.ndarray | None
    special_b: np.ndarray | None
    wide: bool
    extreme: bool


def exponents(x: np.ndarray, emin: int) -> np.ndarray:
    """Exponents e of float64 `x`, 2**e ≤ |x| < 2**(e+1), but emin for subnormals (int16)."""
    field = (x.view(np.int64) >> 52) & 0x7FF
    found = np.maximum(field - 1023, emin)
    return np.where(x == 0, ZERO_EXPONENT, found).astype(np.int16)


def prepare(a: np.ndarray, b: np.ndarray, word: str, generation: Generation) -> Operands:
    """Take apart the words of A, (m, k), and B, (k, n)."""
    source = get_format(word)
    left, right = a.astype(np.float64), np.ascontiguousarray(b, dtype=np.float64)
    special_a = special_b = None
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        special_a, special_b = (np.where(np.isfinite(x), np.sign(x), x) for x in (left, right))
        left, right = (np.where(np.isfinite(x), x, 0.0) for x in (left, right))
    ea, eb = exponents(left, source.emin), exponents(right, source.emin)
    lowest, highest = _range(ea, eb)
    term = int(2**generation.fraction_bits * (2 - 2.0 ** (1 - source.precision)) ** 2)
    fits = generation.widths[word] * max(term, 1) < 2**31
    extreme = lowest < -90 or highest > 100
    # Directed alignment must see the sign of a term however small: float32 would lose it.
    wide = not fits or extreme or generation.alignment in ("RD", "RU")
    carrier = np.float64 if wide else np.float32
    return Operands(left.astype(carrier), right.astype(carrier), ea, eb, special_a, special_b, wide, extreme)


def _range(ea: np.ndarray, eb: np.ndarray) -> tuple[int, int]:
    """The smallest and the largest exponent that a nonzero product can have."""
    ends = []
    for e in (ea, eb):
        nonzero = e[e != ZERO_EXPONENT]
        ends.append((int(nonzero.min()), int(nonzero.max())) if nonzero.size else (0, 0))
    return ends[0][0] + ends[1][0], ends[0][1] + ends[1][1]


class BlockFMA:
    """The step for one slab of results, with its working arrays.

    Parameters
    ----------
    generation, word : what multiplies, and which words.
    target : the accumulator's format, "fp32" or "fp16".
    shape : (rows, columns) of the slab.
    wide : as in `Operands`.
    extreme : whether a sum can fall among fp32's subnormals or overflow.
    """

    def __init__(
        self, generation: Generation, target: str, shape: tuple[int, int], wide: bool, extreme: bool
    ) -> None:
        self.generation = generation
        self.target: Format = get_format(target)
        self.wide, self.extreme = wide, extreme
        self.product = np.empty(shape, np.float64 if wide else np.float32)
        self.integer = self.product if wide else np.empty(shape, np.int32)
        self.total = np.empty(shape, self.integer.dtype)
        self.exponent, self.largest = np.empty(shape, np.int16), np.empty(shape, np.int16)
        self.value, self.power = np.empty(shape), np.empty(shape)
        rounder = _ROUNDERS.get(generation.alignment)
        # float32 to int32 truncates by itself; in float64 the truncation is spelled out
        self.align = np.trunc if wide and rounder is None else rounder

    def step(self, a: np.ndarray, b: np.ndarray, ea: np.ndarray, eb: np.ndarray, c: np.ndarray) -> None:
        """c ← c + A·B over one block: a, ea (rows, w); b, eb (w, columns); c float64, in place."""
        self._align_to_largest(ea, eb, c)
        self._add_products(a, b)
        self._add_accumulator(c)
        self._round(c)

    def _align_to_largest(self, ea: np.ndarray, eb: np.ndarray, c: np.ndarray) -> None:
        if self.extreme:
            np.copyto(self.largest, exponents(c, self.target.emin))
        else:  # c is zero or normal
            field = self.power.view(np.int64)
            np.right_shift(c.view(np.int64), 52, out=field)
            np.bitwise_and(field, 0x7FF, out=field)
            np.subtract(field, 1023, out=self.largest, casting="unsafe")
        np.maximum(self.largest, np.int16(FLOOR_EXPONENT), out=self.largest)
        for h in range(ea.shape[1]):
            np.add(ea[:, h, None], eb[h], out=self.exponent)
            np.maximum(self.largest, self.exponent, out=self.largest)

    def _add_products(self, a: np.ndarray, b: np.ndarray) -> None:
        bits = self.generation.fraction_bits
        scale: np.ndarray
        if self.wide:
            scale = _power_of_two(bits - self.largest.astype(np.int64), np.float64, self.power)
        else:
            # Below -100 every product of the slab is 0, so any finite scale will do.
            shift = bits - np.maximum(self.largest, np.int16(-100)).astype(np.int32)
            scale = _power_of_two(shift, np.float32, shift.view(np.float32))
        self.total.fill(0)
        for h in range(a.shape[1]):
            np.multiply(a[:, h, None], b[h], out=self.product)
            np.multiply(self.product, scale, out=self.product)
            if self.align is not None:
                self.align(self.product, out=self.product)
            if not self.wide:
                np.copyto(self.integer, self.product, casting="unsafe")
            np.add(self.total, self.integer, out=self.total)

    def _add_accumulator(self, c: np.ndarray) -> None:
        """Put the exact sum, in units of 2**(largest - F), into `value`; its unit into `power`."""
        bits, value = self.generation.fraction_bits, self.value
        exponent = self.largest.astype(np.int64)
        exponent -= bits
        scale = _power_of_two(-exponent, np.float64, self.power)
        np.multiply(c, scale, out=value)
        _ROUNDERS.get(self.generation.alignment, np.trunc)(value, out=value)
        np.add(value, self.total, out=value)
        if self.generation.carry_bits is not None:
            np.fmod(value, 2.0 ** (bits + 1 + self.generation.carry_bits), out=value)
        _power_of_two(exponent, np.float64, self.power)

    def _round(self, c: np.ndarray) -> None:
        """Normalise the sum and round it to the accumulator's format."""
        np.multiply(self.value, self.power, out=self.value)
        if self.target.name == "fp16":
            c[...] = self.value.astype(np.float16)
        elif self.generation.rounding == "RZ" and not self.extreme:
            np.bitwise_and(self.value.view(np.int64), _FP32_MASK, out=c.view(np.int64))
        else:
            c[...] = round_to_fp32(self.value, self.generation.rounding)


def _power_of_two(exponent: np.ndarray, dtype: type, out: np.ndarray) -> np.ndarray:
    """2**exponent in `out` (of that dtype), made from its bits."""
    integers, bias, shift = (np.int64, 1023, 52) if dtype is np.float64 else (np.int32, 127, 23)
    field = out.view(integers)
    np.add(exponent, bias, out=field)
    np.left_shift(field, shift, out=field)
    return out


def round_to_fp32(x: np.ndarray, rounding: str) -> np.ndarray:
    """Round float64 `x` to fp32 in the given direction; subnormals and overflow included.

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
