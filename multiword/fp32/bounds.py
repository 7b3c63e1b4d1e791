"""A priori bounds of the componentwise error of multiword products."""

from __future__ import annotations

import math
from dataclasses import dataclass

from multiword.engines.generations import Generation, get_generation
from multiword.formats import get_format
from multiword.fp32.schemes import Scheme, get_scheme
from multiword.public import public_in
from multiword.runtime.options import check_choice, integer, scalar

AMPLIFICATION = 8.0
"""The largest |A'||B'| relative to |A||B| after centring: more is rejected after the product."""

ALIGNMENT = 1.11
"""The truncation of products where they are aligned with the sum takes a tenth more from it: the best
factor on the model is 1.09 to 1.16, whatever the data, for blocks of 512 to 4096."""

U32, U64 = 2.0**-24, 2.0**-53


def drift_per_step(generation: Generation) -> float:
    """Return κ, the mean loss of a sum of no definite sign by one step's truncation, relative to the sum.

    A tensor core adds w terms at a time and truncates the sum to fp32, which drops F - 23 bits: the mean
    loss of a step is (1 - 2^(23-F))/2 units in the last place. Fitted linearly to the sum S (least squares
    over a binade) it is κ·S with κ = 2^-23·(1 - 2^(23-F))/3; the truncation of the products makes it
    `ALIGNMENT` times that.
    """
    return ALIGNMENT * 2.0**-23 * (1 - 2.0 ** (23 - generation.fraction_bits)) / 3


@public_in("multiword", "Words and their error")
def error_bound(
    k: int,
    scheme: str | Scheme = "double-fp16",
    *,
    kind: str = "worst",
    generation: str | Generation | None = None,
    confidence: float = 1.0,
) -> float:
    """Return β such that |C - Ĉ|_ij ≤ β·(|A||B|)_ij for a product of inner dimension k.

    Parameters
    ----------
    k : inner dimension.
    scheme : a `Scheme` or the name of one. Its words must not underflow (`Scheme.scaled_lines`).
    kind : "worst", or "probabilistic", in which √k stands for k wherever the rounding is to
        nearest: rounding errors of mean zero are assumed (toward zero they are not).
    generation : tensor cores to bound, by name or as a `Generation`; None for the papers' model,
        an error of at most 2⁻²⁴ for each addition, whatever the hardware. Toward zero, a step of
        w products with F fraction bits costs at most 2⁻²³ + (w + 1)·2^-F.
    confidence : λ of the probabilistic bound, which holds with probability at least
        1 - 2k·exp(-λ²/2) in theory; λ = 1 describes what is observed.

    Returns
    -------
    The bound, first and higher orders; `inf` if k·u reaches 1.

    Raises
    ------
    ValueError : unknown scheme, kind or generation, or a negative k. TypeError : k no integer.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, Theorem 2.1 and section 4.4: (p+1)·u_low^p + γ_{k+p²-1};
    FABsum v1 (b + k/b)·2⁻²⁴ and v2 b·2⁻²⁴ + (k/b)·2⁻⁵³. Higham and Mary, "A new approach to
    probabilistic rounding error analysis" (2019), Theorem 2.4.

    >>> error_bound(4096, "fp32") == 4096 * 2.0**-24 / (1 - 4096 * 2.0**-24)
    True
    >>> error_bound(2**20, "fabsum-v2") < error_bound(2**20, "fabsum-v1") < error_bound(2**20)
    True
    """
    s, k = get_scheme(scheme), integer("k", k)
    if k < 0:
        raise ValueError(f"k must not be negative, got {k}")
    check_choice("kind", kind, ("worst", "probabilistic"))
    chance = float(scalar("confidence", confidence, float)) if kind == "probabilistic" else None
    if s.plain:
        u = get_format(s.word).unit_roundoff
        return _gamma(k, u, chance) + (U32 if s.word == "fp64" else 0.0)
    core = get_generation(generation) if generation is not None else None
    inner = min(s.block or k, k)
    sums = _tensor_core(inner, s.word, core, chance)
    outer = -(-k // inner) if inner else 0
    # What is added outside the tensor core: the blocks, and the other products.
    outside = (outer if s.block else 0) + len(s.pairs) - 1
    sums += _gamma(outside, U64 if s.accumulate == "fp64" else U32, chance)
    if s.accumulate == "fp64" or s.scaled_lines:
        sums += U32
    u_low = get_format(s.word).unit_roundoff
    if s.block and s.blocked == "first":
        # The cross products, 2·u_low of the first one, are summed over all of k.
        sums += 2 * u_low * _tensor_core(k, s.word, core, chance)
    if s.compensated and core is not None:
        sums += drift_per_step(core) * math.ceil(inner / core.widths.get(s.word, 1))
    total = conversion_bound(s) + (1 + u_low) ** 2 * sums
    return total * (1 + AMPLIFICATION if s.centred else 1.0)


@public_in("multiword", "Words and their error")
def conversion_bound(scheme: str | Scheme) -> float:
    """Return the part of the bound that is due to p words and a selection of their p² products.

    As `multiword.error_bound`; differs in leaving out the sums: (p + 1)·u_low^p for the triangle of products.

    >>> conversion_bound("double-fp16") == 3 * 2.0**-22
    True
    """
    s = get_scheme(scheme)
    if s.plain:
        return 0.0
    # One rounding to nearest is half as far off as one toward zero.
    u = get_format(s.word).unit_roundoff * (2.0 if s.rounding == "RZ" else 1.0)
    p = s.words
    if s.products == "all":
        return 2 * u**p + u ** (2 * p)
    if s.products == "pair" and p > 1:
        return u + 2 * u**p
    return (p + 1) * u**p


def _gamma(n: int, u: float, confidence: float | None) -> float:
    """Return γ_n = nu/(1 - nu), or its probabilistic counterpart, for n roundings to nearest."""
    if confidence is not None:
        return math.expm1(confidence * math.sqrt(n) * u + n * u * u / (1 - u))
    return n * u / (1 - n * u) if n * u < 1 else math.inf


def _tensor_core(n: int, word: str, core: Generation | None, confidence: float | None) -> float:
    """Return the error of an inner product of length n on the tensor core, relative to |a||b|."""
    if core is None:
        return _gamma(n, U32, confidence)
    if word not in core.widths:
        raise ValueError(f"{core.name} does not multiply {word} words")
    width, bits = core.widths[word], core.fraction_bits
    step = 2.0**-23 + (width + 1) * 2.0**-bits
    nearest = confidence is not None and core.rounding == "RN"
    return _gamma(math.ceil(n / width), step, confidence if nearest else None)


@public_in("multiword", "Words and their error")
@dataclass(frozen=True)
class BoundRow:
    """A row of Table 2.1: `conversion` + k·2⁻²⁴, which it evaluates to when called with k.

    Attributes
    ----------
    name : as in the paper.
    word, words : the format of the words, and how many of them.
    conversion : the error of the split, relative to |A||B|.
    accumulation : the error of one addition, 2⁻²⁴.

    >>> bound_table()[0](1024) == 2.0**-10 + 2.0**-14
    True
    """

    name: str
    word: str
    words: int
    conversion: float
    accumulation: float = U32

    def __call__(self, k: int) -> float:
        """Return the bound's dominant term for inner dimension k."""
        return self.conversion + k * self.accumulation


@public_in("multiword", "Words and their error")
def bound_table() -> tuple[BoundRow, ...]:
    """Return Table 2.1 of Fasi et al.: the dominant term of the bound for each choice of words.

    Returns
    -------
    The rows. A conversion error of a few units of fp32 is left out beside k·2⁻²⁴.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, Table 2.1.

    >>> [(row.name, row.conversion) for row in bound_table()][:2]
    [('fp16', 0.0009765625), ('double-fp16', 0.0)]
    """
    rows = []
    for word, words in (("fp16", 1), ("fp16", 2), ("bf16", 1), ("bf16", 2), ("bf16", 3)):
        name = ("", "double-", "triple-")[words - 1] + word
        conversion = conversion_bound(Scheme(word, words))
        rows.append(BoundRow(name, word, words, conversion if conversion > 16 * U32 else 0.0))
    return tuple(rows)
