"""The tensor core once more, one result at a time in rational numbers: what the model must equal.

Written from the text of algorithms.md, section 2, and the papers alone; it shares no code with
the model and uses no floating-point arithmetic between reading the operands and rounding.
"""

import math
from fractions import Fraction

EMIN = {"fp16": -14, "bf16": -126, "tf32": -126, "fp32": -126, "fp64": -1022}
PRECISION = {"fp16": 11, "fp32": 24, "fp64": 53}
EMAX = {"fp16": 15, "fp32": 127, "fp64": 1023}


def exponent(x: Fraction, emin: int) -> int:
    """e with 2**e <= |x| < 2**(e+1), but not below emin."""
    n, d = abs(x.numerator), x.denominator
    e = n.bit_length() - d.bit_length()
    if Fraction(n, d) < Fraction(2) ** e:
        e -= 1
    return max(e, emin)


def to_integer(x: Fraction, rounding: str) -> int:
    if rounding == "RZ":
        return math.trunc(x)
    if rounding == "RD":
        return math.floor(x)
    if rounding == "RU":
        return math.ceil(x)
    return round(x)  # to even


def round_to(x: Fraction, form: str, rounding: str):
    """x rounded to the format; a float, infinite from 2**(emax+1) on (or where RN takes it there)."""
    if x == 0:
        return 0.0
    if abs(x) >= Fraction(2) ** (EMAX[form] + 1):
        return math.copysign(math.inf, x)
    unit = Fraction(2) ** (exponent(x, EMIN[form]) - PRECISION[form] + 1)
    rounded = to_integer(x / unit, rounding) * unit
    if abs(rounded) >= Fraction(2) ** (EMAX[form] + 1):
        return math.copysign(math.inf, x)
    return float(rounded)


def special_sum(a, b, c):
    """What Inf and NaN make of a step, or None if all is finite."""
    terms = [
        float(x) * float(y) for x, y in zip(a, b, strict=True) if not math.isfinite(x) or not math.isfinite(y)
    ]
    if not math.isfinite(c):
        terms.append(c)
    return sum(terms) if terms else None


def step(a, b, c, word, target, generation):
    """d = c + sum of a_i b_i over one block; a, b, c are Python floats."""
    special = special_sum(a, b, c)
    if special is not None:
        return special
    terms = [(Fraction(c), exponent(Fraction(c), EMIN[target]) if c else -9999)]
    for x, y in zip(a, b, strict=True):
        if x and y:
            fx, fy = Fraction(x), Fraction(y)
            terms.append((fx * fy, exponent(fx, EMIN[word]) + exponent(fy, EMIN[word])))
    largest = max(-133, max(e for _, e in terms))  # measured on an H200
    unit = Fraction(2) ** (largest - generation.fraction_bits)
    total = sum(to_integer(t / unit, generation.alignment) for t, _ in terms)
    if generation.carry_bits is not None:
        top = 2 ** (generation.fraction_bits + 1 + generation.carry_bits)
        total = int(math.copysign(abs(total) % top, total))
    return round_to(total * unit, target, "RN" if target == "fp16" else generation.rounding)


def dot(a, b, c, word, target, generation):
    """The whole inner dimension, block after block."""
    width = generation.widths[word]
    for h in range(0, len(a), width):
        c = step(a[h : h + width], b[h : h + width], c, word, target, generation)
    return c
