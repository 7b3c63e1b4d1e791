"""Random calls of products for both kinds of arrays: what is called, on which arrays, what is compared."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import multiword
import ozaki
from tests.fuzz.arrays import COMPLEX, LAYOUTS, MIXED, REAL, SPECIAL, Spec
from tests.fuzz.draw import SMALL_INTEGERS, Draw, check, plain
from tests.fuzz.exact_bounds import as_complex, within, within_batched
from tests.fuzz.exact_products import GEMMS, sources
from tests.oracle import BFLOAT16, real_products

LONGEST, GROUP = 70, 9
"""Inner dimensions go from 0 to the first; so many of a sweep share layouts."""

CASES_OF_A_WIDTH = 2 * (LONGEST + 1)
"""Every inner dimension, of real and of complex matrices."""

SWEEPS = {
    "bits, int8 words": ("residues", "int8", 3, 57),
    "bits, fp64 words": ("residues", "fp64", 6, 72),
    "slices, int8 words": ("slices", "int8", 7, 10),
    "slices, fp64 words": ("slices", "fp64", 11, 8),
    "slices, fp16 words": ("slices", "fp16", 9, 8),
}
"""Scheme, word, step and count of the widths: with every inner dimension, so every number of moduli."""


@dataclass(frozen=True)
class Call:
    """Arrays to be made, again and again, and what is done with them on either side.

    Attributes
    ----------
    specs : the arrays by name.
    function : (xp, arrays) to a list of results: arrays, numbers, strings, bytes.
    judge : (arrays on the host, results) for functions whose bits may differ; raises Mismatch.
    oracle : (arrays on the host, results) for results that are known exactly; raises Mismatch.
    one_nan : whether all NaNs must have the same bits; not where they are passed on.
    """

    specs: dict[str, Spec]
    function: Callable[[ModuleType, dict[str, Any]], list[Any]]
    judge: Callable[[dict[str, np.ndarray], list[np.ndarray]], None] | None = None
    one_nan: bool = True
    oracle: Callable[[dict[str, np.ndarray], list[Any]], None] | None = None


def sweep(name: str) -> Callable[[Draw], Call]:
    """Products of a fixed number of bits: width, inner dimension, and real or complex by the case's number.

    Layouts and dtypes are those of a whole `GROUP` of inner dimensions, for each needs kernels of its own.
    """
    scheme, word, step, _ = SWEEPS[name]

    def family(draw: Draw) -> Call:
        (i, rest), is_complex = divmod(draw.case // 2, LONGEST + 1), draw.case % 2
        width, k, group = 1 + step * i, rest, (i, rest // GROUP, is_complex)
        alike = np.random.default_rng([*np.atleast_1d(draw.seed)[:2], *group])
        dtype = [t for t in GEMMS if (t.kind == "c") == is_complex][int(alike.integers(2))]
        m, n = draw.size("m", 1, 20), draw.size("n", 1, 40)
        draw.notes.append(f"accuracy={width}, scheme={scheme!r}, word={word!r}, k={k}")
        specs = {}
        for operand, shape in (("a", (m, k)), ("b", (k, n))):
            octaves = int(draw.rng.choice([3, 20, 100, 500]))
            specs[operand] = Spec(shape, dtype, _tame(draw), str(alike.choice(LAYOUTS)), octaves)
            draw.notes.append(f"{operand}: {specs[operand]}")

        def function(_: ModuleType, x: dict) -> list:
            return [GEMMS[dtype](x["a"], x["b"], accuracy=width, scheme=scheme, word=word)]

        return Call(specs, function)

    return family


def _tame(draw: Draw) -> str:
    kinds = ("normal", "positive", "rows", "rows", "edge", "equal", "wide", "cancelling", "ties", "subnormal")
    return kinds[int(draw.rng.integers(len(kinds)))]


def _narrow(draw: Draw) -> str:
    """Numbers of one size: what spreads far takes tens of thousands of products of slices."""
    kinds = (
        "normal",
        "positive",
        "integers",
        "edge",
        "equal",
        "cancelling",
        "ties",
        "subnormal",
        "zeros",
        SPECIAL,
    )
    return kinds[int(draw.rng.integers(len(kinds)))]


def _kinds(draw: Draw, options: dict) -> tuple[str, str]:
    """Those of the left and of the right operand."""
    return (_narrow(draw), _narrow(draw)) if options["scheme"] == "slices" else draw.kinds()


def _sizes(draw: Draw) -> tuple[int, int, int]:
    k = int(draw.rng.integers(0, LONGEST + 1))
    m, n = (int(draw.rng.choice([1, 2, 3, int(draw.rng.integers(1, 50))])) for _ in range(2))
    if draw.chance(0.08):
        m, k, n = draw.pick("empty", (0, k, n), (m, 0, n), (m, k, 0), (0, 0, 0))
    if draw.chance(0.04):
        k = int(draw.rng.integers(71, 3000))
    elif draw.chance(0.04):  # many short rows, or columns
        many, few = int(10 ** draw.rng.uniform(2, 5)), int(draw.rng.integers(1, 18))
        m, k, n = draw.pick("many", (many, k % 40, few), (few, k % 40, many))
    draw.notes.append(f"m, k, n = {m}, {k}, {n}")
    return m, k, n


def _ways(draw: Draw) -> dict:
    accuracy = draw.pick("accuracy", "fp64", "fp64", "fp32", "normwise", "exact", 10, 40, 53, 90)
    scheme = "auto" if accuracy == "exact" else draw.pick("scheme", "auto", "auto", "residues", "slices")
    words = (None, None, "int8", "fp64", "fp16") if scheme == "slices" else (None, None, "int8", "fp64")
    return {"accuracy": accuracy, "scheme": scheme, "word": draw.pick("word", *words)}


def gemm(draw: Draw) -> Call:
    """One product with everything that a call may have."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = _sizes(draw)
    options = _ways(draw)
    specs, kinds = {}, _kinds(draw, options)
    for name, shape, kind in (("a", (m, k), kinds[0]), ("b", (k, n), kinds[1])):
        trans = draw.pick(f"trans_{name}", False, False, True, *(("C",) if dtype.kind == "c" else ()))
        options[f"trans_{name}"] = trans
        dtypes = (dtype,) if draw.chance(0.6) else sources(dtype)
        specs[name] = draw.spec(name, shape[::-1] if trans else shape, dtypes, kind)
    if draw.chance(0.4):
        factors = (0.0, -1.0, 0.1, 3, 1e30, 1e-40) + ((1 + 2j,) if dtype.kind == "c" else ())
        options["alpha"], options["beta"] = draw.pick("alpha", *factors), draw.pick("beta", *factors)
        specs["c"] = draw.spec("c", (m, n), (dtype,))
    if draw.chance(0.3):
        specs["out"] = writable(draw, (m, n), dtype)
    if draw.chance(0.2):
        options["workspace"] = draw.pick("workspace", 20_000, 200_000, 2_000_000)

    def function(_: ModuleType, x: dict) -> list:
        return [GEMMS[dtype](x["a"], x["b"], c=x.get("c"), out=x.get("out"), **options)]

    return Call(specs, function)


def writable(draw: Draw, shape: tuple[int, ...], dtype: Any) -> Spec:
    return Spec(shape, np.dtype(dtype), "normal", draw.pick("out", "C", "F", "strided", "reversed"))


def prepared(draw: Draw) -> Call:
    """A prepared operand, multiplied by three others, and planned."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = _sizes(draw)
    options, side = _ways(draw), draw.pick("prepared", "left", "right")
    (kind_a, kind_b), other = _kinds(draw, options), "b" if side == "left" else "a"
    given = {"a": ((m, k), kind_a), "b": ((k, n), kind_b)}
    given |= {"other0": given[other], "other1": (given[other][0], _kinds(draw, options)[0])}
    specs = {name: draw.spec(name, shape, (dtype,), kind) for name, (shape, kind) in given.items()}

    def function(_: ModuleType, x: dict) -> list:
        held = ozaki.prepare(x["a"] if side == "left" else x["b"], side)
        others = [x["b"] if side == "left" else x["a"], x["other0"], x["other1"]]
        pairs = [(held, y) if side == "left" else (y, held) for y in others]
        return [GEMMS[dtype](*pair, **options) for pair in pairs]

    return Call(specs, function)


def planned(draw: Draw) -> Call:
    """What a plan says of the definition: widths and the certified error."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = _sizes(draw)
    options = {**_ways(draw), "word": draw.pick("word", "int8", "fp64")}
    kinds = _kinds(draw, options)
    specs = {
        "a": draw.spec("a", (m, k), (dtype,), kinds[0]),
        "b": draw.spec("b", (k, n), (dtype,), kinds[1]),
    }

    def function(_: ModuleType, x: dict) -> list:
        plan = ozaki.plan(x["a"], x["b"], **options)
        return [np.array([*plan.width, plan.bound], np.float64)]

    return Call(specs, function)


def matmul(draw: Draw) -> Call:
    """Stacks and vectors."""
    m, k, n = _sizes(draw)
    m, n = min(m, 12), min(n, 12)
    batch = draw.pick("batch", (), (1,), (3,), (17,), (40,), (2, 3), (4, 5), (0,), (3, 0))
    dtypes = (draw.pick("dtype", *GEMMS),) if draw.chance(0.6) else (*REAL, *COMPLEX, *SMALL_INTEGERS)
    lead = batch[int(draw.rng.integers(0, len(batch) + 1)) :] if draw.chance(0.3) else batch
    accuracy = draw.pick("accuracy", None, None, "exact", "fp32", 40)
    scheme = draw.pick("scheme", "auto", "residues")
    wide = accuracy != "exact" and draw.chance(0.4)
    kind = draw.kinds()[0] if wide else _narrow(draw)
    specs, mixed = {}, len(batch) > 0 and draw.chance(0.4)
    for name, shape in (("a", (*lead, m, k)), ("b", (*batch, k, n))):
        if draw.chance(0.1):
            specs[name] = draw.spec(name, (k,), dtypes, kind)
        else:
            specs[name] = draw.spec(name, shape, dtypes, MIXED if mixed else kind)

    def function(_: ModuleType, x: dict) -> list:
        return [ozaki.matmul(x["a"], x["b"], accuracy=accuracy, scheme=scheme)]

    return Call(specs, function)


def mukunoki(draw: Draw) -> Call:
    """The paper's algorithms: slices, their number, products."""
    m, k, n = _sizes(draw)
    specs = {
        "a": draw.spec("a", (m, k), REAL, _narrow(draw)),
        "b": draw.spec("b", (k, n), REAL, _narrow(draw)),
    }
    options = {
        "summation": draw.pick("summation", "fp64", "nearsum"),
        "slices": draw.pick("slices", None, 2, 4, "estimated"),
        "fast": draw.pick("fast", False, True),
    }
    part = draw.pick("call", "dgemm", "dgemm", "split", "count")

    def function(_: ModuleType, x: dict) -> list:
        if part == "count":
            return [ozaki.slice_count(x["a"], x["b"])]
        if part == "split":
            split = ozaki.mukunoki_split(x["a"], options["slices"] if options["slices"] != "estimated" else 3)
            return [*split.slices, *split.exponents, split.bits]
        return [ozaki.mukunoki_dgemm(x["a"], x["b"], **options)]

    return Call(specs, function)


FP32_KINDS = (
    "normal",
    "positive",
    "integers",
    "zeros",
    "sparse",
    "equal",
    "cancelling",
    "ties",
    "rows",
    "wide",
)


def fp32_matmul(draw: Draw) -> Call:
    """`multiword.matmul` within its bound; which bits, is the library's choice of kernel."""
    m, k, n = _sizes(draw)
    m, n, float32 = min(m, 24), min(n, 24), (np.dtype(np.float32),)
    batch = draw.pick("batch", (), (), (3,), (0,))
    scheme = draw.pick("scheme", None, None, None, *multiword.SCHEMES)
    worded = scheme is not None and not multiword.SCHEMES[scheme].plain
    unscaled = worded and not multiword.SCHEMES[scheme].scaled_lines
    # A scheme's bound does not cover words that underflow, which only the choice of one looks out for.
    kinds = FP32_KINDS[: 6 if unscaled else 7] if worded else (*FP32_KINDS, SPECIAL)
    kinds = (*kinds, "subnormal") if scheme is None else kinds
    specs = {
        "a": draw.spec("a", (*batch, m, k), float32, kinds[int(draw.rng.integers(len(kinds)))]),
        "b": draw.spec("b", (*batch, k, n), float32, kinds[int(draw.rng.integers(len(kinds)))]),
    }
    alpha = draw.pick("alpha", 1.0, 1.0, -3.0)

    def judge(x: dict, results: list) -> None:
        (got,) = results
        core = "H200" if worded else None
        bound = multiword.error_bound(k, scheme or "fp32", generation=core)
        for index in np.ndindex(*batch):
            within(
                got[index],
                plain(x["a"])[index],
                plain(x["b"])[index],
                alpha,
                np.zeros((m, n)),
                bound,
                2.0**-22 if unscaled else 0.0,
            )

    return Call(specs, lambda _, x: [multiword.matmul(x["a"], x["b"], scheme=scheme, alpha=alpha)], judge)


def batched(draw: Draw) -> Call:
    """`batched_matmul` within its bound."""
    word = draw.pick("word", np.dtype(np.float16), BFLOAT16)
    accumulate = draw.pick("accumulate", "fp32", "fp16") if word == np.float16 else "fp32"
    pairs, batch = (
        draw.pick("half-complex", False, False, True),
        draw.pick("batch", (), (1,), (5,), (33,), (2, 3), (0,)),
    )
    m, k, n = (draw.size(name, 0 if draw.chance(0.05) else 1, 40) for name in "mkn")
    tail, alpha = (2,) if pairs else (), draw.pick("alpha", 1.0, 1.0, 0.5)
    kinds = ("normal", "positive", "integers", "sparse", "ties", "zeros", "subnormal", "wide", SPECIAL)
    specs = {
        "a": draw.spec("a", (*batch, m, k, *tail), (word,), kinds[int(draw.rng.integers(len(kinds)))]),
        "b": draw.spec("b", (*batch, k, n, *tail), (word,), kinds[int(draw.rng.integers(len(kinds)))]),
    }

    def function(_: ModuleType, x: dict) -> list:
        a, b = (multiword.HalfComplex(x[name]) if pairs else x[name] for name in "ab")
        got = multiword.batched_matmul(a, b, alpha=alpha, accumulate=accumulate)
        return [got.pairs if pairs else got]

    def judge(x: dict, results: list) -> None:
        (got,) = results
        check(
            "batched: shape",
            got.shape == (*batch, m, n, *tail) and got.dtype == word,
            f"{got.dtype} {got.shape}",
        )
        a, b = (as_complex(plain(x[name])) if pairs else plain(x[name]).astype(float) for name in "ab")
        for index in list(np.ndindex(*batch))[:3]:
            parts = [got[index][..., p] for p in (0, 1)] if pairs else [got[index]]
            for part, (left, right) in zip(parts, real_products(a[index], b[index]), strict=True):
                within_batched(part, left, right, alpha, 0.0, None, accumulate, word)

    return Call(specs, function, judge)


PRODUCTS: dict[str, Callable[[Draw], Call]] = {
    **{name: sweep(name) for name in SWEEPS},
    "gemm": gemm,
    "prepare": prepared,
    "plan": planned,
    "matmul": matmul,
    "mukunoki": mukunoki,
    "multiword.matmul": fp32_matmul,
    "batched_matmul": batched,
}
