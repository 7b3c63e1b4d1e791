"""`multiword` against exact references: roundings, words and the tensor-core model."""

import math
from fractions import Fraction

import numpy as np

import multiword
from tests.fuzz.arrays import COMPLEX, INTEGERS, REAL
from tests.fuzz.draw import Draw, check, check_same, plain
from tests.multiword.engines.scalar_tensorcore import dot as reference_dot
from tests.oracle import (
    BFLOAT16,
    FORMATS,
    integers,
    rounded,
)

FLOAT16, FLOAT32, FLOAT64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
WORDS = {"fp16": (FLOAT16, 11), "bf16": (BFLOAT16, 8), "tf32": (FLOAT32, 11)}
TF32 = (11, -126, 127)
STORED = {"fp16": FLOAT16, "bf16": BFLOAT16, "tf32": FLOAT32, "fp32": FLOAT32, "fp64": FLOAT64}


def format_of(name: str) -> tuple[int, int, int]:
    return TF32 if name == "tf32" else FORMATS[STORED[name]]


def rounded_array(x: np.ndarray, name: str, mode: str) -> np.ndarray:
    """Every element rounded once; signs of zeros, Inf and NaN stay."""
    whole, e = integers(x)
    wide = x.astype(FLOAT64)
    found = []
    for n, v in zip(whole.ravel().tolist(), wide.ravel().tolist(), strict=True):
        exact = rounded(n, e, format_of(name), mode)
        found.append(v if not math.isfinite(v) else math.copysign(exact, v))
    with np.errstate(over="ignore"):
        return np.array(found, FLOAT64).reshape(x.shape).astype(STORED[name])


def round_to(draw: Draw) -> None:
    """`round_to`, every format and rounding."""
    name, mode = draw.pick("format", *STORED), draw.pick("rounding", "RN", "RZ", "RNA")
    kinds = tuple(t for t in INTEGERS if t.itemsize < 8)
    x = draw.array(
        "x", draw.shape("shape", int(draw.rng.integers(0, 3)), 9), (*REAL, *REAL, *kinds), draw.kind()
    )
    check_same("round_to", multiword.round_to(x, name, mode), rounded_array(plain(x), name, mode))


def split_join(draw: Draw) -> None:
    """`split`: each word the rounding of what is left; `join`: their sum, rounded once."""
    word, count = draw.pick("word", *WORDS), draw.size("words", 1, 4)
    mode, scaled = draw.pick("rounding", "RN", "RZ", "RNA"), draw.pick("scaled", False, True)
    shape = draw.shape("shape", int(draw.rng.integers(0, 3)), 9)
    x = draw.array("x", shape, (FLOAT32,), draw.kind())
    words = multiword.split(x, word, count, scaled=scaled, rounding=mode)
    for got in words:
        form = f"{got.dtype} {got.shape}"
        check("split: dtype", got.dtype == STORED[word] and got.shape == x.shape, form)
    back = multiword.join(words, scaled=scaled, dtype=FLOAT64).ravel()
    step, whole = WORDS[word][1] if scaled else 0, integers(plain(x))
    for j, (v, n) in enumerate(zip(plain(x).ravel().tolist(), whole[0].ravel().tolist(), strict=True)):
        found = [float(np.asarray(got).ravel()[j]) for got in words]
        if not math.isfinite(v):
            same = found[0] == v or (math.isnan(v) and math.isnan(found[0]))
            check("split: Inf and NaN", same and not any(found[1:]), f"{v} is {found}")
            continue
        total = _check_words(v, Fraction(n) * Fraction(2) ** whole[1], found, word, mode, step)
        if total is not None and Fraction(float(total)) == total:
            check("join", back[j] == float(total), f"{back[j]!r}, expected {float(total)!r}")


def _check_words(v: float, rest: Fraction, found: list, word: str, mode: str, step: int) -> Fraction | None:
    """The words of one number, and their sum; None where a word or what is left overflows."""
    fmt, total = format_of(word), Fraction(0)
    for i, got in enumerate(found):
        wanted = rounded(rest.numerator, 1 - rest.denominator.bit_length(), fmt, mode)
        check("split", got == wanted, f"word {i} of {v!r} is {got!r}, expected {wanted!r}")
        if abs(rest) >= 2 ** (fmt[2] + 1) or not math.isfinite(wanted):
            return None
        total += Fraction(wanted) / 2 ** (step * i)
        rest = (rest - Fraction(wanted)) * 2**step
        if rest and (rest.denominator.bit_length() > 150 or abs(rest) >= 2**128):
            return None  # float32, which holds what is left, does not
    return total


def half_complex(draw: Draw) -> None:
    """`from_complex`, `from_planes`, `to_complex`: both parts rounded once, and back exactly."""
    word = draw.pick("word", "fp16", "bf16")
    z = draw.array("z", draw.shape("shape", int(draw.rng.integers(0, 3)), 9), (*COMPLEX, *REAL), draw.kind())
    values = plain(z)
    pairs = multiword.from_complex(z, word)
    for name, got, part in (("real", pairs.real, values.real), ("imag", pairs.imag, values.imag)):
        check_same(f"from_complex, {name}", got, rounded_array(np.asarray(part), word, "RN"))
    back = multiword.to_complex(pairs)
    check_same("to_complex", back.real, np.asarray(pairs.real).astype(FLOAT32))
    check_same("from_planes", multiword.from_planes(pairs.real, pairs.imag).pairs, pairs.pairs)


def tensor_core(draw: Draw) -> None:
    """The model of the tensor core against the rational one, on tiny products."""
    chip = multiword.GENERATIONS[draw.pick("generation", *multiword.GENERATIONS)]
    word = draw.pick("word", *chip.widths)
    target = draw.pick("accumulate", "fp32", "fp16") if word == "fp16" else "fp32"
    m, k, n = draw.size("m", 0, 3), draw.size("k", 0, 40), draw.size("n", 0, 3)
    storage = FLOAT32 if word == "tf32" else STORED[word]
    kinds = [draw.kind(0.15) for _ in range(3)]
    a, b = draw.array("a", (m, k), (storage,), kinds[0]), draw.array("b", (k, n), (storage,), kinds[1])
    c = (
        draw.array("c", (m, n), (FLOAT32 if target == "fp32" else FLOAT16,), kinds[2])
        if draw.chance(0.6)
        else None
    )
    got = multiword.TensorCore(chip, accumulate=target).gemm(a, b, c, word=word)
    if k == 0 and c is not None:
        return  # without a step c is returned as it is
    left, right = (rounded_array(plain(x), word, "RN").astype(FLOAT64) for x in (a, b))
    start = np.zeros((m, n)) if c is None else plain(c).astype(FLOAT64)
    wanted = np.zeros((m, n), got.dtype)
    with np.errstate(all="ignore"):
        for i, j in np.ndindex(m, n):
            wanted[i, j] = reference_dot(
                left[i].tolist(), right[:, j].tolist(), float(start[i, j]), word, target, chip
            )
    check("tensor core: dtype", got.dtype == (FLOAT32 if target == "fp32" else FLOAT16), str(got.dtype))
    check_same("tensor core", got, wanted)


def tensor_core_int8(draw: Draw) -> None:
    """int8 products of the model are exact modulo 2**32; fp32 and fp64 are fused steps in order."""
    m, k, n = draw.size("m", 0, 4), draw.size("k", 0, 70), draw.size("n", 0, 4)
    a, b = (draw.array(name, s, (np.dtype(np.int8),), "wide") for name, s in (("a", (m, k)), ("b", (k, n))))
    got = multiword.TensorCore().gemm(a, b, word="int8")
    check_same(
        "tensor core int8", got, plain(a).astype(np.int64).dot(plain(b).astype(np.int64)).astype(np.int32)
    )
    word = draw.pick("word", "fp32", "fp64")
    x, y = (
        draw.array(name, s, (STORED[word],), draw.kind())
        for name, s in (("x", (m, min(k, 12))), ("y", (min(k, 12), n)))
    )
    got = multiword.TensorCore().gemm(x, y, word=word)
    wanted = np.zeros((m, n), got.dtype)
    with np.errstate(all="ignore"):
        for i, j in np.ndindex(m, n):
            wanted[i, j] = _fused(plain(x)[i].tolist(), plain(y)[:, j].tolist(), word)
    check_same(f"tensor core {word}", got, wanted)


def _fused(row: list, column: list, word: str) -> float:
    """Σ row·column from left to right, every step rounded once."""
    total = 0.0
    for p, q in zip(row, column, strict=True):
        product = np.float64(p) * np.float64(q)
        if not (math.isfinite(p) and math.isfinite(q) and math.isfinite(total)):
            finite = math.isfinite(p) and math.isfinite(q)
            total = total if finite else float(product + total)
            continue
        exact = Fraction(p) * Fraction(q) + Fraction(total)
        if exact:
            total = rounded(exact.numerator, 1 - exact.denominator.bit_length(), format_of(word))
        else:
            minus = p * q == 0 and math.copysign(1, p) * math.copysign(1, q) < 0
            total = -0.0 if minus and math.copysign(1, total) < 0 else 0.0
    return total


CHECKS = {
    "round_to": round_to,
    "split, join": split_join,
    "half-complex": half_complex,
    "TensorCore.gemm": tensor_core,
    "TensorCore.gemm, others": tensor_core_int8,
}
