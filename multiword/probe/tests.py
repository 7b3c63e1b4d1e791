"""The tests of the paper, each by chosen inner products, for hardware with any number of extra bits.

First the width of a step and the number F of fraction bits are measured; every later constant is a
multiple of the last bit, 2**-F. All terms of a test lie in one step, except the accumulator c, which an
earlier step prepares, since an engine's contract has no other way to set it.

References
----------
Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer
Science 7:e330 (2021), section "Results".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from multiword.engines import Engine
from multiword.engines.generations import Generation
from multiword.formats import get_format
from multiword.probe.findings import Findings
from multiword.probe.order import accumulates_in_half, infer_blocking
from multiword.probe.products import Term, array_module, diagonal, term
from multiword.public import public_in

_ONE: Term = (1.0, 1.0)


@public_in("multiword.probe", "Probes")
def probe(engine: Engine, word: str = "fp16", *, size: int = 256) -> Findings:
    """Return how an engine adds the products of a word format, measured.

    Parameters
    ----------
    engine : any `Engine` that has the format, `TensorCore` or the one on the GPU.
    word : "fp16", "bf16" or "tf32".
    size : m, n and k of the products used. A GPU's library chooses its kernel by it; one that
        accumulates the inner dimension in a single chain is needed.

    Returns
    -------
    `Findings`, from which `Findings.generation` makes the model's `Generation`.

    Raises
    ------
    ValueError : unknown format; or the engine adds one term after another, or in parts, or rounds
        terms upward, so that there is no block FMA to be seen at this size.

    References
    ----------
    Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores" (2021), the subsections
    of "Results" listed in Table 2.

    >>> from multiword import TensorCore
    >>> findings = probe(TensorCore("A100"), "fp16", size=64)
    >>> findings.width, findings.fraction_bits, findings.alignment, findings.rounding
    (8, 24, 'RZ', 'RZ')
    """
    blocking = infer_blocking(engine, word, size, size, size)
    width = blocking.step or 1
    if width < 2 or blocking.block_k is not None:
        raise ValueError(f"engine {engine.name!r} shows no block FMA at size {size}: it adds by {blocking}")
    if width == size:
        raise ValueError(
            f"engine {engine.name!r} seems to add {size} terms in one step: size must be larger than a step, "
            "whose carry bits must hold a sum of ones"
        )
    steps = _Steps(engine, word, size, width)
    bits = fraction_bits(steps)
    if bits is None:
        raise ValueError(
            f"engine {engine.name!r} keeps terms of any size: no alignment to a largest exponent"
        )
    carry, least = carry_bits(steps)
    half = accumulates_in_half(engine, word)
    return Findings(
        engine=describe(engine),
        word=word,
        result="fp16" if half else "fp32",
        width=width,
        fraction_bits=bits,
        alignment=alignment_rounding(steps, bits),
        rounding=half_rounding(steps) if half else result_rounding(steps),
        carry_bits=carry,
        carry_bits_at_least=least,
        exponent_is_sum=exponent_is_sum(steps, bits),
        products_exact=products_exact(steps),
        subnormal_inputs=subnormal_inputs(steps),
        subnormal_sums=subnormal_sums(steps, half),
        # An accumulator of 11 bits is too short to see the rest with.
        subnormal_accumulator=None if half else subnormal_accumulator(steps),
        order_matters=None if half else order_matters(steps, bits),
        normalised_in_addition=None if half else normalised_in_addition(steps, bits),
        normalised_in_subtraction=None if half else normalised_in_subtraction(steps, bits),
        monotone=None if half else monotone(steps, bits),
    )


def describe(engine: Engine) -> str:
    """Return the generation of a model, the name of any other engine."""
    generation = getattr(engine, "generation", None)
    return generation.name if isinstance(generation, Generation) else engine.name


class _Steps:
    """Inner products given step by step: a list of lists of products, each at most `width` long.

    They are the diagonal of a product of that size, by which a GPU's library chooses its kernel. At 256
    cuBLAS takes, on an H200, one that accumulates the whole inner dimension in one chain, in all formats.
    """

    def __init__(self, engine: Engine, word: str, size: int, width: int) -> None:
        self.engine, self.word, self.size, self.width = engine, word, size, width

    def sums(self, rows: Sequence[Sequence[Sequence[Term]]]) -> np.ndarray:
        a, b = np.zeros((2, len(rows), self.size), np.float32)
        for r, row in enumerate(rows):
            if max(len(step) for step in row) > self.width:
                raise ValueError(f"a step of {self.width} products cannot hold {max(map(len, row))}")
            if len(row) * self.width > self.size:
                raise ValueError(f"size must be at least {len(row) * self.width}, got {self.size}")
            for s, step in enumerate(row):
                for i, product in enumerate(step, s * self.width):
                    a[r, i], b[r, i] = product
        xp = array_module(self.engine)
        return diagonal(self.engine, self.word, xp.asarray(a), xp.asarray(b), self.size, self.size)

    def sum(self, *row: Sequence[Term]) -> float:
        return float(self.sums([row])[0])


_TOP = 14
"""The exponent of the 1 and the -1 around a small term: what is left of it is then a number of fp16 too."""


def _beside_one(value: float, exponent: int) -> list[Term]:
    """Return 2**14·(1, -1, value·2**exponent) as one step."""
    return [term(1.0, _TOP), term(-1.0, _TOP), term(value, _TOP + exponent)]


def fraction_bits(steps: _Steps) -> int | None:
    """Return F: the smallest term that survives beside 1 and -1 is 2**-F ("Extra bits in the alignment")."""
    exponents = range(8, 38)
    survives = steps.sums([[_beside_one(1.0, -q)] for q in exponents]) != 0
    if survives.all() or not survives[0]:
        return None
    return exponents[int(np.argmin(survives)) - 1]


def alignment_rounding(steps: _Steps, bits: int) -> str:
    """Return how a term beside 1 and -1 is cut: ±1.5 and 0.5 times half the last bit."""
    rows = [[_beside_one(value, -bits - 1)] for value in (1.5, -1.5, 0.5)]
    return _direction(*(steps.sums(rows) != 0))


def result_rounding(steps: _Steps) -> str:
    """Return how the exact sum is rounded to fp32: 4 + ¾ and 4 + ¼ of its last bit, and their negatives.

    ("Rounding modes in tensor core computations": the paper's 2 + 2⁻²³ + 2⁻²⁴ does not survive the
    alignment where F = 23; a sum that gained two bits by carries tests the rounding alone.)
    """
    rows = [
        [[(1.5 * sign, 1.0), (1.5 * sign, 1.0), (1.0 * sign, 1.0), term(sign * part, -23)]]
        for sign, part in ((1, 3.0), (-1, 3.0), (1, 1.0))
    ]
    up, down, little = np.abs(steps.sums(rows)) > 4
    return _direction(up, down, little)


def _direction(positive: bool, negative: bool, little: bool) -> str:
    """Return the rounding that takes large fractions outward for these signs, and small ones or not."""
    if positive != negative:
        return "RU" if positive else "RD"
    if not positive:
        return "RZ"
    return "away from zero" if little else "RN"


def exponent_is_sum(steps: _Steps, bits: int) -> bool:
    """Return whether 1.5·1.5 aligns by the exponent 0 of its factors, not by the 1 of its value."""
    up = 2.0 ** (_TOP // 2)
    return steps.sum([(1.5 * up, 1.5 * up), (-1.5 * up, 1.5 * up), term(1.0, _TOP - bits)]) != 0


def products_exact(steps: _Steps) -> bool:
    """Return whether (1 - u)² is exact, whose last bit 11 bits lose ("Accuracy of the dot products")."""
    u = get_format(steps.word).unit_roundoff
    alone = steps.sum([(1 - u, 1 - u)]) in ((1 - u) ** 2, 1 - 2 * u)  # the latter as an fp16 result
    return alone and steps.sum([(1 - u, 1 - u), (1 - u, u)]) == 1 - u


def order_matters(steps: _Steps, bits: int) -> bool:
    """Return whether a 1 among terms of half the last bit gives anything but 1, at any position."""
    small = term(1.0, -bits - 1)
    rows = [[[_ONE if i == j else small for j in range(steps.width)]] for i in range(steps.width)]
    rows.append([[_ONE], [small] * steps.width])  # the 1 in the accumulator
    return bool((steps.sums(rows) != 1).any())


def _below_one() -> list[Term]:
    """Return a step whose result is 1 - 2⁻²⁴: its exponents are -1, so even F = 23 keeps the last bit."""
    return [term(1.0, -1), term(1.0, -1), term(-1.0, -24)]


def normalised_in_addition(steps: _Steps, bits: int) -> bool:
    """Return whether c = 1 - 2⁻²⁴ loses bits as soon as its sum reaches 1, in any order of the terms."""
    t = 2.0 ** (-bits - 1)
    rest = term((3 * 2.0**-24 - t) / t, -bits - 1)
    orders = permutations([rest, term(1.0, -bits - 1)]) if rest[0] else [(term(3.0, -24),)]
    return bool((steps.sums([[_below_one(), list(order)] for order in orders]) != 1 + 2.0**-23).any())


def normalised_in_subtraction(steps: _Steps, bits: int) -> bool:
    """Return whether 1 - (1 - 2⁻²³), left small, lets in a term below the last bit."""
    c = [term(-1.0, -1), term(-1.0, -1), term(1.0, -23)]
    rows = [[c, list(order)] for order in permutations([_ONE, term(-1.0, -bits - 1)])]
    return bool((steps.sums(rows) == 2.0**-23 - 2.0 ** (-bits - 1)).any())


def carry_bits(steps: _Steps) -> tuple[int | None, int]:
    """Return the bits above the largest exponent's: exactly, if a sum overflows them, and at least.

    ("Extra bits for carry out". Terms of nearly 4 with exponent 0, as many as a step has.)
    """
    u = get_format(steps.word).unit_roundoff
    largest = (2 - 2 * u, 2 - 2 * u)
    value = largest[0] ** 2
    counts = range(1, steps.width + 1)
    sums = steps.sums([[[largest] * n] for n in counts])
    exact = np.array([n * value for n in counts])
    wrong = np.abs(sums - exact) > 1
    if wrong.any():
        lost = exact[np.argmax(wrong)] - sums[np.argmax(wrong)]
        bits = int(np.rint(np.log2(lost))) - 1
        return bits, bits
    return None, int(np.floor(np.log2(exact[-1])))


def monotone(steps: _Steps, bits: int) -> bool:
    """Return whether a larger accumulator, or the same sum, never gives less ("Monotonicity").

    Two pairs: the paper's (c = 1 - 2⁻²⁴ and c = 1, with as many terms of half the last bit as it
    takes) where a step is wide enough; and 1.5·1.5 against 1.125·2, equal products whose exponents
    differ, which needs four terms only.
    """
    count = 3 << max(0, bits - 23)
    if count <= steps.width:
        small = [term(1.0, -bits - 1)] * count
        less, more = steps.sums([[_below_one(), small], [[_ONE], small]])
        if less > more:
            return False
    rest = [term(2.0 ** (bits - 22) - 2, -bits), term(1.0, -bits), term(1.0, -bits)]
    same, spread = steps.sums([[[(1.125, 2.0), *rest]], [[(1.5, 1.5), *rest]]])
    return bool(same == spread)


def subnormal_inputs(steps: _Steps) -> bool:
    """Return whether the smallest subnormal word, times 4, arrives."""
    tiny = get_format(steps.word).smallest_subnormal
    return steps.sum([(tiny, 4.0)]) == 4 * tiny and steps.sum([(4.0, tiny)]) == 4 * tiny


def subnormal_sums(steps: _Steps, half: bool) -> bool | None:
    """Return whether normal words give a subnormal result; None where all their products are normal."""
    if steps.word == "fp16":
        return steps.sum([(2.0**-14, 2.0**-1)]) == 2.0**-15 if half else None
    return steps.sum([(2.0**-126, 2.0**-1)]) == 2.0**-127


def subnormal_accumulator(steps: _Steps) -> bool | None:
    """Return whether a subnormal c survives a later step; None in fp16, which cannot make one."""
    if steps.word == "fp16":
        return None
    return steps.sum([(2.0**-75, 2.0**-74)], [(0.0, 0.0)]) == 2.0**-149


def half_rounding(steps: _Steps) -> str:
    """Return how a sum is rounded to fp16: ¾ and ¼ of its smallest subnormal, 2⁻²⁴ ("Rounding modes")."""
    rows = [[[(x, 0.5), (x, 0.25)]] for x in (2.0**-24, -(2.0**-24))]
    rows.append([[(2.0**-24, 0.25)]])
    return _direction(*(steps.sums(rows) != 0))
