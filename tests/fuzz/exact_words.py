"""`multiword` against exact references: roundings, words, the tensor-core model, and products' bounds."""

import math
from fractions import Fraction

import numpy as np

import multiword
from tests.fuzz.arrays import COMPLEX, INTEGERS, REAL, SPECIAL
from tests.fuzz.draw import SMALL_INTEGERS, Draw, check, check_same, plain
from tests.fuzz.exact_products import shapes
from tests.fuzz.rational import (
    BFLOAT16,
    FORMATS,
    exact_product,
    integers,
    joined,
    real_products,
    rounded,
    special_product,
)
from tests.reference_tensorcore import dot as reference_dot

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
    step, values = WORDS[word][1] if scaled else 0, plain(x)
    whole, e = integers(values)
    rest = [Fraction(n) * Fraction(2) ** e for n in whole.ravel().tolist()]
    beyond, sums = ~np.isfinite(values).ravel(), [Fraction(0)] * values.size
    overflowed = np.zeros(values.size, bool)
    for i, got in enumerate(words):
        found = np.asarray(got).astype(FLOAT64).ravel()
        check(
            "split: dtype",
            got.dtype == STORED[word] and got.shape == values.shape,
            f"{got.dtype} {got.shape}",
        )
        for j, r in enumerate(rest):
            if overflowed[j]:
                continue
            if beyond[j]:
                wanted = float(values.ravel()[j]) if i == 0 else 0.0
                check(
                    "split: Inf and NaN",
                    found[j] == wanted or (math.isnan(found[j]) and math.isnan(wanted)),
                    f"word {i} of {values.ravel()[j]} is {found[j]}",
                )
                continue
            n, d = r.numerator, r.denominator
            wanted = rounded(n, 1 - d.bit_length(), format_of(word), mode)
            check(
                "split",
                found[j] == wanted,
                f"word {i} of {values.ravel()[j]!r} is {found[j]!r}, expected {wanted!r}",
            )
            if abs(r) >= 2 ** (format_of(word)[2] + 1) or not math.isfinite(wanted):
                overflowed[j] = True  # what is left means nothing
                continue
            sums[j] += Fraction(wanted) / 2 ** (step * i)
            rest[j] = (r - Fraction(wanted)) * 2**step
            if rest[j] and (rest[j].denominator.bit_length() > 150 or abs(rest[j]) >= 2**128):
                overflowed[j] = True  # float32, which holds what is left, does not
    back = multiword.join(words, scaled=scaled, dtype=FLOAT64).ravel()
    for j, total in enumerate(sums):
        if not beyond[j] and not overflowed[j] and float(total) == total:
            check("join", back[j] == float(total), f"{back[j]!r}, expected {float(total)!r}")


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


UNDERFLOW = Fraction(1, 2**149)


def matmul(draw: Draw) -> None:
    """`multiword.matmul` within `error_bound` of its scheme, on data that no word underflows or overflows."""
    m, k, n = shapes(draw)
    batch = draw.shape("batch", int(draw.rng.integers(0, 2)), 3)
    types = (FLOAT32, FLOAT32, FLOAT16, BFLOAT16, *SMALL_INTEGERS)
    kinds = ("normal", "positive", "integers", "ties", "zeros", "sparse", "equal", "cancelling")
    scheme = draw.pick("scheme", None, None, *multiword.SCHEMES)
    engine = draw.pick("engine", "host", "host", "tensorcore")
    plainly = scheme is None or multiword.SCHEMES[scheme].plain
    if plainly and engine == "host":
        kinds = (*kinds, "wide", "rows", "subnormal", "powers", "full", SPECIAL)
    unscaled = not plainly and not multiword.SCHEMES[scheme].scaled_lines
    if not plainly:  # what words do not hold underflows, and in unscaled lines overflows
        kinds = (
            "normal",
            "positive",
            "integers",
            "zeros",
            "sparse",
            "equal",
            *(() if unscaled else ("cancelling",)),
        )
        types = (FLOAT32, FLOAT16, BFLOAT16) if unscaled else types
    given: dict = {}
    for name, shape in (("a", (m, k)), ("b", (k, n))):
        trans = draw.pick(f"trans_{name}", False, True)
        lead = batch if name == "b" else batch[int(draw.rng.integers(0, len(batch) + 1)) :]
        whole = (*lead, *(shape[::-1] if trans else shape))
        given[name] = draw.array(name, whole, types, kinds[int(draw.rng.integers(len(kinds)))])
        given[f"trans_{name}"] = trans
    workspace = draw.pick("workspace", None, 10_000, 10**6) if draw.chance(0.3) else None
    alpha, beta = draw.pick("alpha", 1.0, 1.0, 0.5, -3.0), draw.pick("beta", 0.0, 0.0, 1.0, -0.25)
    c = draw.array("c", (*batch, m, n), (FLOAT32,), "normal") if beta else None
    out = np.full((*batch, m, n), 9, FLOAT32)[..., ::-1] if draw.chance(0.2) else None
    try:
        got = multiword.matmul(
            **given, alpha=alpha, beta=beta, c=c, scheme=scheme, engine=engine, workspace=workspace, out=out
        )
    except MemoryError:
        check("MemoryError", workspace is not None, "MemoryError")
        return
    check(
        "multiword.matmul: shape",
        got.shape == (*batch, m, n) and got.dtype == FLOAT32,
        f"{got.dtype} {got.shape}",
    )
    check("multiword.matmul: out", out is None or got is out, "out was not returned")
    x, y = (_op(given[name], given[f"trans_{name}"]).astype(FLOAT32) for name in "ab")
    core = "H200" if engine == "tensorcore" and not plainly else None
    beta_k = multiword.error_bound(k, scheme or "fp32", generation=core)
    for index in np.ndindex(*batch):
        a = np.broadcast_to(x, (*batch, m, k))[index]
        b = np.broadcast_to(y, (*batch, k, n))[index]
        addend = beta * plain(c)[index].astype(FLOAT64) if beta else np.zeros((m, n))
        within(got[index], a, b, alpha, addend, beta_k, 2.0**-22 if unscaled else 0.0)


def _op(x: np.ndarray, trans: bool) -> np.ndarray:
    x = plain(x)
    return x.swapaxes(-1, -2) if trans else x


def within(got, a, b, alpha, addend, bound: float, words: float) -> None:
    """|got - (alpha·AB + addend)| <= bound·|alpha|·|A||B| and the roundings that follow.

    words : what words too small for their format add, in units of the row's largest elements.
    """
    k, special = a.shape[1], special_product(a, b)
    whole, e = exact_product(a, b)
    size, _ = exact_product(np.abs(a), np.abs(b))
    unit = Fraction(2) ** e
    largest = 0.0
    if words and k:
        with np.errstate(all="ignore"):
            largest = (
                2.0**-25 * k * max(float(np.abs(a).max(initial=0)) + float(np.abs(b).max(initial=0)), 1.0) * 4
            )
    for i, j in np.ndindex(*whole.shape):
        value = float(got[i, j])
        if special[i, j] != 0:
            check(
                "Inf and NaN",
                value == special[i, j] * np.sign(alpha) or (math.isnan(value) and math.isnan(special[i, j])),
                f"[{i}, {j}] is {value}, IEEE gives {special[i, j]}",
            )
            continue
        if size[i, j] * unit >= Fraction(2) ** 126:
            continue  # a partial sum may overflow, in an order that nobody promises
        exact = Fraction(alpha) * whole[i, j] * unit + Fraction(float(addend[i, j]))
        scale = abs(Fraction(alpha)) * size[i, j] * unit
        allowed = (
            Fraction(bound) * scale * Fraction(1 + 2.0**-20) + Fraction(words) * scale + Fraction(largest)
        )
        allowed += (
            4
            * Fraction(1, 2**24)
            * (scale + abs(Fraction(float(addend[i, j]))))
            * (addend[i, j] != 0 or alpha != 1)
        )
        allowed += (2 * k + 4) * UNDERFLOW * max(1, abs(Fraction(alpha)))
        error = abs(Fraction(value) - exact) if math.isfinite(value) else Fraction(2) ** 200
        shown = float(error / scale) if scale else float(error)
        check(
            "above its bound",
            error <= allowed,
            f"[{i}, {j}] is {value!r}, exact {float(exact)!r}, error {shown:.3g} |A||B|, bound {bound:.3g}",
        )


def batched(draw: Draw) -> None:
    """`batched_matmul` within its documented bound: (k + 16)·v·|A||B|, then fp32 and one rounding."""
    word = draw.pick("word", FLOAT16, BFLOAT16)
    pairs = draw.pick("half-complex", False, False, True)
    accumulate = draw.pick("accumulate", "fp32", "fp16") if word == FLOAT16 else "fp32"
    m, k, n = draw.size("m", 0, 9), draw.size("k", 0, 30), draw.size("n", 0, 9)
    batch = draw.shape("batch", int(draw.rng.integers(0, 3)), 3)
    kinds = (
        "normal",
        "positive",
        "integers",
        "sparse",
        "ties",
        "cancelling",
        "zeros",
        "wide",
        "subnormal",
        SPECIAL,
    )
    given, plain_ab = {}, []
    for name, shape in (("a", (m, k)), ("b", (k, n))):
        trans = draw.pick(f"trans_{name}", False, True, "N", "T", "C")
        turned = trans in (True, "T", "C")
        lead = batch if draw.chance(0.7) else ()
        stored = (*lead, *(shape[::-1] if turned else shape), *((2,) if pairs else ()))
        x = draw.array(name, stored, (word,), kinds[int(draw.rng.integers(len(kinds)))])
        values = plain(x).astype(FLOAT64)
        values = joined([values[..., 0], values[..., 1]], np.complex128) if pairs else values
        values = values.swapaxes(-1, -2) if turned else values
        values = values.conj() if trans == "C" else values
        plain_ab.append(values)
        given[name], given[f"trans_{name}"] = multiword.HalfComplex(x) if pairs else x, trans
    alpha, beta = draw.pick("alpha", 1.0, 1.0, 0.5, -3.0), draw.pick("beta", 0.0, 0.0, 1.0, -0.25)
    lead = np.broadcast_shapes(*(x.shape[:-2] for x in plain_ab))
    c = draw.array("c", (*lead, m, n, *((2,) if pairs else ())), (word,), "normal") if beta else None
    addend = multiword.HalfComplex(c) if pairs and beta else c
    got = multiword.batched_matmul(**given, alpha=alpha, beta=beta, c=addend, accumulate=accumulate)
    result = np.asarray(got.pairs if pairs else got)
    check(
        "batched: shape",
        result.shape == (*lead, m, n, *((2,) if pairs else ())) and result.dtype == word,
        f"{result.dtype} {result.shape}",
    )
    a, b = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in plain_ab)
    for index in np.ndindex(*lead):
        parts = [result[index][..., p] for p in (0, 1)] if pairs else [result[index]]
        adds = (
            [plain(c)[index][..., p] for p in (0, 1)]
            if pairs and beta
            else [plain(c)[index]]
            if beta
            else [None, None]
        )
        for got_part, (x, y), add in zip(parts, real_products(a[index], b[index]), adds, strict=False):
            within_batched(got_part, x, y, alpha, beta, add, accumulate, word)


def within_batched(got, a, b, alpha, beta, c, accumulate, word) -> None:
    v = Fraction(1, 2**23) if accumulate == "fp32" else Fraction(1, 2**10)
    k, special = a.shape[1], special_product(a, b)
    whole, e = exact_product(a, b)
    size, _ = exact_product(np.abs(a), np.abs(b))
    unit, (precision, emin, emax) = Fraction(2) ** e, FORMATS[word]
    top = Fraction(2) ** (emax if accumulate == "fp16" or word == FLOAT16 else 126)
    for i, j in np.ndindex(*whole.shape):
        value = float(got[i, j])
        if special[i, j] != 0:
            wanted = special[i, j] * np.sign(alpha)
            check(
                "batched: Inf and NaN",
                value == wanted or (math.isnan(value) and math.isnan(wanted)),
                f"[{i}, {j}] is {value}, IEEE gives {wanted}",
            )
            continue
        scale = size[i, j] * unit
        if 4 * scale >= top:
            continue
        add = Fraction(beta) * Fraction(float(c[i, j])) if beta else Fraction(0)
        exact = Fraction(alpha) * whole[i, j] * unit + add
        held = abs(Fraction(alpha)) * scale + abs(add)
        allowed = (k + 16) * v * abs(Fraction(alpha)) * scale + (8 * v * held if alpha != 1 or beta else 0)
        allowed += (abs(exact) + allowed) / 2**precision + Fraction(2) ** (emin - precision)
        error = abs(Fraction(value) - exact) if math.isfinite(value) else Fraction(2) ** 200
        sort = "batched: above its bound"
        small = Fraction(1, 2**149) if accumulate == "fp32" else Fraction(1, 2**24)
        if error > allowed and error <= allowed + (k + 2) * small * max(1, abs(Fraction(alpha))):
            sort = "batched: above its bound where products underflow"
        check(sort, error <= allowed, f"[{i}, {j}] is {value!r}, exact {float(exact)!r}, k = {k}")


CHECKS = {
    "multiword.matmul": matmul,
    "batched_matmul": batched,
    "round_to": round_to,
    "split, join": split_join,
    "half-complex": half_complex,
    "TensorCore.gemm": tensor_core,
    "TensorCore.gemm, others": tensor_core_int8,
}
