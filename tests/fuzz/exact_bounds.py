"""The products of `multiword` against their bounds, with the exact product as the reference."""

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np

import multiword
from tests.fuzz.arrays import SPECIAL
from tests.fuzz.draw import SMALL_INTEGERS, Draw, check, plain
from tests.fuzz.exact_products import shapes
from tests.fuzz.exact_words import FLOAT16, FLOAT32, FLOAT64
from tests.oracle import BFLOAT16, FORMATS, exact_product, joined, real_products, special_product

UNDERFLOW = Fraction(1, 2**149)
WORD_KINDS = ("normal", "positive", "integers", "zeros", "sparse", "equal")
"""Numbers whose words neither overflow nor underflow, which `error_bound` does not cover."""
PLAIN_KINDS = (*WORD_KINDS, "ties", "cancelling")
WIDE_KINDS = ("wide", "rows", "subnormal", "powers", "full", SPECIAL)
HALF_KINDS = (*PLAIN_KINDS, "wide", "subnormal", SPECIAL)
BEYOND = Fraction(2) ** 200


def any_of(draw: Draw, kinds: tuple[str, ...]) -> str:
    return kinds[int(draw.rng.integers(len(kinds)))]


def fp32_operands(draw: Draw, batch: tuple, mkn: tuple, kinds: tuple, types: tuple) -> dict[str, Any]:
    """a, b, trans_a and trans_b; the stack of a may have fewer axes."""
    m, k, n = mkn
    given: dict[str, Any] = {}
    for name, shape in (("a", (m, k)), ("b", (k, n))):
        trans = draw.pick(f"trans_{name}", False, True)
        lead = batch if name == "b" else batch[int(draw.rng.integers(0, len(batch) + 1)) :]
        whole = (*lead, *(shape[::-1] if trans else shape))
        given[name] = draw.array(name, whole, types, any_of(draw, kinds))
        given[f"trans_{name}"] = trans
    return given


def matmul(draw: Draw) -> None:
    """`multiword.matmul` within the bound of its plan; stacks, of which a plan sees the first pair, within
    `error_bound`, on data that no word underflows or overflows."""
    m, k, n = shapes(draw)
    k = min(k, 3000)
    batch = draw.shape("batch", int(draw.rng.integers(0, 2)), 3)
    scheme = draw.pick("scheme", None, None, *multiword.SCHEMES)
    engine = draw.pick("engine", "host", "host", "tensorcore")
    worded = bool(batch) and scheme is not None and not multiword.SCHEMES[scheme].plain
    unscaled = worded and not multiword.SCHEMES[scheme].scaled_lines
    planned = not batch and scheme is not None
    wide = WIDE_KINDS if planned or engine == "host" else ()
    kinds = WORD_KINDS if worded else PLAIN_KINDS + wide
    types = (
        (FLOAT32, FLOAT16, BFLOAT16) if unscaled else (FLOAT32, FLOAT32, FLOAT16, BFLOAT16, *SMALL_INTEGERS)
    )
    given = fp32_operands(draw, batch, (m, k, n), kinds, types)
    workspace = draw.pick("workspace", None, 10_000, 10**6) if draw.chance(0.3) else None
    alpha, beta = draw.pick("alpha", 1.0, 1.0, 0.5, -3.0), draw.pick("beta", 0.0, 0.0, 1.0, -0.25)
    c = draw.array("c", (*batch, m, n), (FLOAT32,), "normal") if beta else None
    out = np.full((*batch, m, n), 9, FLOAT32)[..., ::-1] if draw.chance(0.2) else None
    options = {"alpha": alpha, "beta": beta, "c": c, "out": out, "workspace": workspace}
    try:
        got = multiword.matmul(**given, **options, scheme=scheme, engine=engine)
    except MemoryError:
        check("MemoryError", workspace is not None, "MemoryError")
        return
    form = got.shape == (*batch, m, n) and got.dtype == FLOAT32
    check("multiword.matmul: shape", form, f"{got.dtype} {got.shape}")
    check("multiword.matmul: out", out is None or got is out, "out was not returned")
    if (planned or scheme is None) and got.size and k:
        with warnings.catch_warnings(action="ignore"):
            bound = multiword.matmul_plan(**given, scheme=scheme, engine=engine).bound
    else:
        generation = "H200" if engine == "tensorcore" and worded else None
        bound = multiword.error_bound(k, scheme or "fp32", generation=generation)
    a, b = (_op(given[name], given[f"trans_{name}"]) for name in "ab")
    a, b = np.broadcast_to(a, (*batch, m, k)), np.broadcast_to(b, (*batch, k, n))
    for index in np.ndindex(*batch):
        addend = beta * plain(c)[index].astype(FLOAT64) if beta else np.zeros((m, n))
        within(got[index], a[index], b[index], alpha, addend, bound, 2.0**-22 if unscaled else 0.0)


def _op(x: np.ndarray, trans: bool) -> np.ndarray:
    x = plain(x).astype(FLOAT32)
    return x.swapaxes(-1, -2) if trans else x


def agrees(value: float, wanted: float) -> bool:
    """Equal, or both NaN."""
    return value == wanted or (math.isnan(value) and math.isnan(wanted))


def within(got, a, b, alpha, addend, bound: float, words: float) -> None:
    """|got - (alpha·AB + addend)| <= bound·|alpha|·|A||B| and the roundings that follow.

    words : what words too small for their format add, in units of the row's largest elements.
    """
    k, special = a.shape[1], special_product(a, b)
    whole, e = exact_product(a, b)
    size, _ = exact_product(np.abs(a), np.abs(b))
    unit, factor = Fraction(2) ** e, abs(Fraction(alpha))
    largest = Fraction(0)
    if words and k:
        top = float(np.abs(a).max(initial=0)) + float(np.abs(b).max(initial=0))
        largest = Fraction(4 * 2.0**-25 * k * max(top, 1.0)) if math.isfinite(top) else Fraction(0)
    for i, j in np.ndindex(*whole.shape):
        value = float(got[i, j])
        if special[i, j] != 0:
            wanted = special[i, j] * np.sign(alpha)
            check("Inf and NaN", agrees(value, wanted), f"[{i}, {j}] is {value}, IEEE gives {wanted}")
            continue
        if bound == math.inf or size[i, j] * unit >= Fraction(2) ** 126:
            continue  # a partial sum may overflow, in an order that nobody promises
        add = Fraction(float(addend[i, j]))
        exact, scale = Fraction(alpha) * whole[i, j] * unit + add, factor * size[i, j] * unit
        allowed = (Fraction(bound) * Fraction(1 + 2.0**-20) + Fraction(words)) * scale + largest
        allowed += 4 * Fraction(1, 2**24) * (scale + abs(add)) * (add != 0 or alpha != 1)
        allowed += (2 * k + 4) * UNDERFLOW * max(1, factor)
        error = abs(Fraction(value) - exact) if math.isfinite(value) else BEYOND
        shown = f"exact {float(exact)!r}, error {float(error / scale) if scale else float(error):.3g} |A||B|"
        check("above its bound", error <= allowed, f"[{i}, {j}] is {value!r}, {shown}, bound {bound:.3g}")


def half_operand(draw: Draw, name: str, word: np.dtype, shape: tuple, batch: tuple, pairs: bool) -> tuple:
    """An operand of a batch, its transposition, and op() of it in float64 or complex128."""
    trans = draw.pick(f"trans_{name}", False, True, "N", "T", "C")
    turned = trans in (True, "T", "C")
    lead = batch if draw.chance(0.7) else ()
    stored = (*lead, *(shape[::-1] if turned else shape), *((2,) if pairs else ()))
    x = draw.array(name, stored, (word,), any_of(draw, HALF_KINDS))
    values = as_complex(plain(x)) if pairs else plain(x).astype(FLOAT64)
    values = values.swapaxes(-1, -2) if turned else values
    values = values.conj() if trans == "C" else values
    return multiword.HalfComplex(x) if pairs else x, trans, values


def as_complex(pairs: np.ndarray) -> np.ndarray:
    """The complex numbers of half-complex pairs."""
    wide = pairs.astype(FLOAT64)
    return joined([wide[..., 0], wide[..., 1]], np.complex128)


def batched(draw: Draw) -> None:
    """`batched_matmul` within its documented bound: (k + 16)·v·|A||B|, then fp32 and one rounding."""
    word, pairs = draw.pick("word", FLOAT16, BFLOAT16), draw.pick("half-complex", False, False, True)
    accumulate = draw.pick("accumulate", "fp32", "fp16") if word == FLOAT16 else "fp32"
    m, k, n = draw.size("m", 0, 9), draw.size("k", 0, 30), draw.size("n", 0, 9)
    batch = draw.shape("batch", int(draw.rng.integers(0, 3)), 3)
    a, trans_a, left = half_operand(draw, "a", word, (m, k), batch, pairs)
    b, trans_b, right = half_operand(draw, "b", word, (k, n), batch, pairs)
    large = (2.0**90,) if word == BFLOAT16 else ()
    alpha, beta = draw.pick("alpha", 1.0, 1.0, 0.5, -3.0, *large), draw.pick("beta", 0.0, 0.0, 1.0, -0.25)
    tail, lead = (2,) if pairs else (), np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    c = draw.array("c", (*lead, m, n, *tail), (word,), "normal") if beta else None
    options = {"alpha": alpha, "beta": beta, "c": multiword.HalfComplex(c) if pairs and beta else c}
    options |= {"trans_a": trans_a, "trans_b": trans_b, "accumulate": accumulate}
    got = multiword.batched_matmul(a, b, **options)
    result = np.asarray(got.pairs if pairs else got)
    form = result.shape == (*lead, m, n, *tail) and result.dtype == word
    check("batched: shape", form, f"{result.dtype} {result.shape}")
    left, right = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (left, right))
    for index in np.ndindex(*lead):
        for i, (x, y) in enumerate(real_products(left[index], right[index])):
            part = (*index, ..., i) if pairs else index
            add = plain(c)[part] if beta else None
            within_batched(result[part], x, y, alpha, beta, add, accumulate, word)


def within_batched(got, a, b, alpha, beta, c, accumulate, word) -> None:
    """The bound of `batched_matmul`'s documentation, for one real product."""
    v = Fraction(1, 2**23) if accumulate == "fp32" else Fraction(1, 2**10)
    k, special, factor = a.shape[1], special_product(a, b), abs(Fraction(alpha))
    whole, e = exact_product(a, b)
    size, _ = exact_product(np.abs(a), np.abs(b))
    unit, (precision, emin, emax) = Fraction(2) ** e, FORMATS[word]
    top = Fraction(2) ** (emax if word == FLOAT16 else 126)
    small = (k + 2) * (UNDERFLOW if accumulate == "fp32" else Fraction(1, 2**24)) * max(1, factor)
    for i, j in np.ndindex(*whole.shape):
        value = float(got[i, j])
        if special[i, j] != 0:
            wanted = special[i, j] * np.sign(alpha)
            check(
                "batched: Inf and NaN", agrees(value, wanted), f"[{i}, {j}] is {value}, IEEE gives {wanted}"
            )
            continue
        scale = size[i, j] * unit
        if max(4, factor) * scale >= top:
            continue
        add = Fraction(beta) * Fraction(float(c[i, j])) if beta else Fraction(0)
        exact, held = Fraction(alpha) * whole[i, j] * unit + add, factor * scale + abs(add)
        allowed = (k + 16) * v * factor * scale + (8 * v * held if alpha != 1 or beta else 0)
        allowed += (abs(exact) + allowed) / 2**precision + Fraction(2) ** (emin - precision)
        allowed += small
        error = abs(Fraction(value) - exact) if math.isfinite(value) else BEYOND
        shown = f"[{i}, {j}] is {value!r}, exact {float(exact)!r}, k = {k}"
        check("batched: above its bound", error <= allowed, shown)


CHECKS = {"multiword.matmul": matmul, "batched_matmul": batched}
