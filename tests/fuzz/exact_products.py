"""The products of `ozaki` against their definition in Python's integers."""

from fractions import Fraction
from unittest.mock import patch

import numpy as np

import ozaki
from multiword.engines.int8_cpu.kernels import available_kernels
from multiword.runtime.compiled import numpy_forms
from ozaki.execution import executors, in_floats, thin
from ozaki.execution.in_floats import Floats
from tests.fuzz.arrays import COMPLEX, REAL
from tests.fuzz.draw import (
    SMALL_INTEGERS,
    Draw,
    Mismatch,
    check,
    check_one_nan,
    check_same,
    difference,
    plain,
)
from tests.matrices import FACES
from tests.oracle import (
    FORMATS,
    exact_product,
    fixed_product,
    joined,
    part_dtype,
    parts,
    real_products,
    rounded_product,
)

GEMMS = {np.dtype(name): gemm for name, gemm in FACES.items()}
TARGETS = {8: "fp64", 4: "fp32"}


def sources(dtype) -> tuple[np.dtype, ...]:
    """The dtypes that convert to that of a product without rounding, the usual ones more than once."""
    part = part_dtype(dtype)
    real = tuple(t for t in REAL if t.itemsize <= part.itemsize)
    whole = (
        SMALL_INTEGERS if part.itemsize == 4 else (*SMALL_INTEGERS, np.dtype(np.int32), np.dtype(np.int64))
    )
    pairs = tuple(t for t in COMPLEX if t.itemsize <= 2 * part.itemsize) if dtype.kind == "c" else ()
    return (*real, *real, *real, *whole, *(5 * pairs))


def shapes(draw: Draw, most_k: int = 40) -> tuple[int, int, int]:
    m, n = draw.shape("(m, n)", 2, 7)
    k = int(
        draw.rng.choice([0, 1, 2, 3, int(draw.rng.integers(1, most_k + 1)), int(draw.rng.integers(1, 9))])
    )
    if draw.chance(0.02):
        k, m, n = int(draw.rng.integers(200, 3000)), min(m, 2), min(n, 2)
    if draw.chance(0.002):
        k, m, n = int(draw.rng.integers(2**17 - 20, 2**17 + 2000)), min(m, 1), min(n, 1)  # int32 is full
    draw.notes.append(f"m, k, n = {m}, {k}, {n}")
    return m, k, n


def operands(draw: Draw, dtype, m: int, k: int, n: int, kind: str | None = None) -> dict:
    """a, b, trans_a and trans_b for op(A) of (m, k) and op(B) of (k, n)."""
    given: dict = {}
    kinds = (kind, kind) if kind else draw.kinds()
    for name, shape, of_name in (("a", (m, k), kinds[0]), ("b", (k, n), kinds[1])):
        choices = (False, False, True, "C") if dtype.kind == "c" else (False, False, True)
        trans = draw.pick(f"trans_{name}", *choices)
        given[name] = draw.array(name, shape[::-1] if trans else shape, sources(dtype), of_name)
        given[f"trans_{name}"] = trans
    return given


def op(x: np.ndarray, trans, dtype) -> np.ndarray:
    x = plain(x).astype(dtype)
    x = x.T if trans else x
    return x.conj() if trans == "C" else x


def ways(draw: Draw, wide: bool = False) -> dict:
    """How the product is to be computed: nothing that may change a bit."""
    scheme = "auto" if wide else draw.pick("scheme", "auto", "residues", "slices")
    words = ("int8", "fp64", "fp16") if scheme == "slices" else ("int8", "fp64")
    word = draw.pick("word", None, *words)
    engines = ("auto", "host") if word == "fp16" and scheme != "slices" else ("auto", "host", "tensorcore")
    engines += tuple(f"int8_cpu:{kernel.name}" for kernel in available_kernels())
    options = {"scheme": scheme, "word": word, "engine": draw.pick("engine", *engines)}
    if draw.chance(0.3):
        options["workspace"] = draw.pick("workspace", 2000, 20_000, 200_000, 2**30)
    return options


def call(gemm, given: dict, **options):
    """The product; None where the workspace was too small, which an error has to say."""
    try:
        return gemm(**given, **options)
    except MemoryError:
        if options.get("workspace", 2**30) < 2**20:
            return None
        raise


def fixed_bits(draw: Draw) -> None:
    """A number of bits: the definition, bit for bit."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = shapes(draw)
    given = operands(draw, dtype, m, k, n)
    width = int(
        draw.rng.choice(
            [draw.rng.integers(1, 60), draw.rng.integers(60, 300), draw.rng.integers(300, 2201)],
            p=[0.7, 0.2, 0.1],
        )
    )
    draw.notes.append(f"accuracy={width}")
    got = call(GEMMS[dtype], given, accuracy=width, **ways(draw, wide=width > 100))
    if got is not None:
        a, b = op(given["a"], given["trans_a"], dtype), op(given["b"], given["trans_b"], dtype)
        expected = fixed_product(a, b, width, dtype)
        check_same("bits", got, expected)
        check_one_nan("bits: NaN", got)


def exact(draw: Draw) -> None:
    """ "exact": the correctly rounded product."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = shapes(draw)
    given = operands(draw, dtype, m, k, n)
    got = call(GEMMS[dtype], given, accuracy="exact", **ways(draw, wide=True))
    if got is not None:
        a, b = op(given["a"], given["trans_a"], dtype), op(given["b"], given["trans_b"], dtype)
        check_same("exact", got, rounded_product(a, b, dtype))
        check_one_nan("exact: NaN", got)


def scaled(x: np.ndarray, factor, dtype) -> np.ndarray:
    """factor·x, every real product and sum rounded once."""
    with np.errstate(all="ignore"):
        if dtype.kind != "c":
            return x * dtype.type(factor)
        f = np.dtype(dtype).type(factor)
        real = x.real * f.real - x.imag * f.imag
        return joined([real, x.real * f.imag + x.imag * f.real], dtype)


def alpha_beta_c(draw: Draw) -> None:
    """alpha, beta, c and out: rounded in turn."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = shapes(draw, 12)
    given = operands(draw, dtype, m, k, n)
    factors = [
        1.0,
        0.0,
        -1.0,
        0.1,
        3,
        -2.5,
        1e-30,
        1e30,
        float("inf"),
        float("nan"),
        np.float32(0.3),
        True,
        np.int64(7),
    ]
    factors += [1 + 2j, 1e-20 - 3j] if dtype.kind == "c" else []
    alpha, beta = draw.pick("alpha", *factors), draw.pick("beta", *factors)
    c = draw.array("c", (m, n), sources(dtype), draw.kind())
    out = draw.array("out", (m, n), (dtype,), "normal") if draw.chance(0.4) else None
    if out is not None and (not out.flags.writeable or out.dtype != dtype or 0 in out.strides):
        out = None
    got = GEMMS[dtype](**given, alpha=alpha, beta=beta, c=c, out=out, accuracy="exact")
    check("alpha, beta, c: out", out is None or got is out, "out was not returned")
    a, b = op(given["a"], given["trans_a"], dtype), op(given["b"], given["trans_b"], dtype)
    expected = rounded_product(a, b, dtype)
    if alpha != 1:
        expected = scaled(expected, alpha, dtype)
    if beta != 0:
        with np.errstate(all="ignore"):
            addend = plain(c).astype(dtype)
            addend = addend if beta == 1 else scaled(addend, beta, dtype)
            expected = joined([x + y for x, y in zip(parts(expected), parts(addend), strict=True)], dtype)
    check_same("alpha, beta, c", got, expected)
    check_one_nan("alpha, beta, c: NaN", got)


def certified(draw: Draw) -> None:
    """ "fp64" and "fp32": the error is within the bound of the plan, which is below k·u."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = shapes(draw, 60)
    given = operands(draw, dtype, m, k, n)
    accuracy = draw.pick("accuracy", "fp64", "fp32", 20, 53)
    got = GEMMS[dtype](**given, accuracy=accuracy)
    if 0 in (m, k, n):
        check_same("empty", got, np.zeros((m, n), dtype))
        return
    a, b = op(given["a"], given["trans_a"], dtype), op(given["b"], given["trans_b"], dtype)
    planned = ozaki.plan(a, b, accuracy=accuracy)
    length = k * (2 if dtype.kind == "c" else 1)
    if isinstance(accuracy, str):
        unit = 2.0 ** -FORMATS[np.dtype({"fp64": np.float64, "fp32": np.float32}[accuracy])][0]
        check(
            "bound above k·u",
            planned.bound <= length * unit,
            f"bound {planned.bound / unit:.3g} u, k = {length}",
        )
    check("plan", planned.shape == (m, k, n) and planned.dtype == dtype.name and str(planned), repr(planned))
    check_error(got, a, b, planned.bound, dtype)


def check_error(got: np.ndarray, a: np.ndarray, b: np.ndarray, bound: float, dtype) -> None:
    """|C - AB| <= bound·|A||B| and half a unit in the last place of C; Inf and NaN as IEEE has them."""
    precision, emin, emax = FORMATS[part_dtype(dtype)]
    for (x, y), c in zip(real_products(a, b), parts(got), strict=True):
        expected = rounded_product(x, y, part_dtype(dtype))
        whole, unit = exact_product(x, y)
        magnitude, _ = exact_product(np.abs(x), np.abs(y))
        rows, columns = np.isfinite(x).all(axis=1), np.isfinite(y).all(axis=0)
        allowed = Fraction(bound) if np.isfinite(bound) else None
        for i, j in np.ndindex(*whole.shape):
            value, want = float(c[i, j]), float(expected[i, j])
            if not (rows[i] and columns[j]):
                check(
                    "Inf and NaN",
                    value == want or (np.isnan(value) and np.isnan(want)),
                    f"[{i}, {j}] is {value}, IEEE gives {want}",
                )
                continue
            if value == want or allowed is None:
                continue
            step = Fraction(2) ** unit
            if not np.isfinite(value):
                largest = Fraction(2) ** (emax + 1) * (1 - Fraction(2) ** (-precision - 1))
                error = largest - abs(whole[i, j]) * step
                last = 0
            else:
                error = abs(Fraction(value) - whole[i, j] * step)
                last = max(int(np.frexp(value)[1]) if value else emin, emin + 1) - precision
            if error > allowed * magnitude[i, j] * step + Fraction(2) ** last / 2:
                scale = float(error / (magnitude[i, j] * step)) if magnitude[i, j] else np.inf
                raise Mismatch(
                    "error above its bound",
                    f"[{i}, {j}] is {value!r}, exact {want!r}, error {scale:.3g} |A||B|, bound {bound:.3g}",
                )


def invariant(draw: Draw) -> None:
    """Schemes, words, engines, panels, layouts, prepared operands: the same bits."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = shapes(draw, 60)
    given = operands(draw, dtype, m, k, n)
    accuracy = draw.pick("accuracy", "fp64", "fp32", 30, 53, 70, "exact")
    reference = GEMMS[dtype](**given, accuracy=accuracy)
    a, b = op(given["a"], given["trans_a"], dtype), op(given["b"], given["trans_b"], dtype)
    check_same("layout or dtype changes bits", GEMMS[dtype](a, b, accuracy=accuracy), reference)
    spread = isinstance(accuracy, str) and any(
        x.size and np.isfinite(x).all() and _octaves(x) > 150 for x in (a, b)
    )
    got = call(GEMMS[dtype], given, accuracy=accuracy, **ways(draw, wide=spread))
    if got is not None:
        check_same("scheme, word, engine or panels change bits", got, reference)
    trans = draw.pick("prepared, trans", False, True, *(("C",) if dtype.kind == "c" else ()))
    left, right = ozaki.prepare(turned(a, trans), trans=trans), ozaki.prepare(b, "right")
    prepared = [("left", (left, b)), ("both", (left, right)), ("right", (a, right)), ("again", (left, right))]
    for note, pair in prepared:
        check_same("a prepared operand changes bits", GEMMS[dtype](*pair, accuracy=accuracy), reference, note)


def turned(x: np.ndarray, trans) -> np.ndarray:
    """What op() makes x of."""
    return x.conj().T if trans == "C" else x.T if trans else x


def _octaves(x: np.ndarray) -> int:
    exponents = [np.frexp(p[p != 0])[1] for p in parts(x)]
    together = np.concatenate([e.ravel() for e in exponents])
    return int(together.max() - together.min()) if together.size else 0


def permuted_rows(draw: Draw) -> None:
    """The order of the rows of A and of the columns of B moves the results and changes none."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = shapes(draw, 60)
    kinds = draw.kinds()
    a, b = draw.array("a", (m, k), (dtype,), kinds[0]), draw.array("b", (k, n), (dtype,), kinds[1])
    accuracy = draw.pick("accuracy", "fp64", "fp32", 40, "exact")
    rows, columns = draw.rng.permutation(m), draw.rng.permutation(n)
    reference = GEMMS[dtype](a, b, accuracy=accuracy)
    got = GEMMS[dtype](a[rows], b[:, columns], accuracy=accuracy)
    check_same("order of rows", got, reference[rows][:, columns])
    shift = draw.size("shift", -20, 20)
    other = shifted(plain(a), shift)
    if difference(shifted(other, -shift), plain(a)) is not None or not np.isfinite(other).all():
        return
    moved = GEMMS[dtype](other, b, accuracy=accuracy)
    smallest = float(np.finfo(part_dtype(dtype)).tiny) * 2.0**21
    both = [p for x in (moved, reference) for p in parts(x)]
    if all(np.isfinite(p).all() and (np.abs(p[p != 0]) > smallest).all() for p in both):
        check_same("power of two", shifted(moved, -shift), reference)


def shifted(x: np.ndarray, shift: int) -> np.ndarray:
    """x·2**shift, part by part."""
    with np.errstate(all="ignore"):
        return joined([np.ldexp(p, shift) for p in parts(x)], x.dtype)


def permuted_inner(draw: Draw) -> None:
    """The order of the inner dimension changes no bit."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = shapes(draw, 60)
    k = int(draw.rng.choice([k, draw.rng.integers(250, 700)], p=[0.7, 0.3]))
    kinds = draw.kinds()
    a, b = draw.array("a", (m, k), (dtype,), kinds[0]), draw.array("b", (k, n), (dtype,), kinds[1])
    accuracy = draw.pick("accuracy", "fp64", "fp32", 40, "exact")
    order = draw.rng.permutation(k)
    reference = GEMMS[dtype](a, b, accuracy=accuracy)
    check_same(f"order of k, {accuracy}", GEMMS[dtype](a[:, order], b[order], accuracy=accuracy), reference)


def without_nonfinite(draw: Draw) -> None:
    """Rows with an Inf or NaN change nothing in the others."""
    dtype = draw.pick("dtype", *GEMMS)
    m, k, n = draw.size("m", 2, 8), draw.size("k", 1, 30), draw.size("n", 2, 8)
    kind = draw.kinds(0)[0]
    a, b = (plain(draw.array(name, s, (dtype,), kind)) for name, s in (("a", (m, k)), ("b", (k, n))))
    accuracy = draw.pick("accuracy", "fp64", "fp32", 40, "exact")
    row, column = int(draw.rng.integers(m)), int(draw.rng.integers(n))
    reference = GEMMS[dtype](np.delete(a, row, 0), np.delete(b, column, 1), accuracy=accuracy)
    a[row, int(draw.rng.integers(k))] = draw.pick("there", np.inf, -np.inf, np.nan)
    b[int(draw.rng.integers(k)), column] = np.inf
    got = GEMMS[dtype](a, b, accuracy=accuracy)
    check_same("Inf disturbs other rows", np.delete(np.delete(got, row, 0), column, 1), reference)


def _near_ties(draw: Draw, dtype, m: int, k: int, n: int) -> dict:
    """Rows whose sums are ties, or next to them, beside terms that cancel, in any order."""
    rng, p = draw.rng, FORMATS[dtype][0]
    cancels = np.exp2(rng.integers(-20, 90, m))
    terms = [
        1 + rng.integers(0, 4, m) * 2.0 ** (1 - p),
        rng.choice([-1, 1], m) * 2.0**-p,
        rng.choice([-1, 0, 1], m) * np.exp2(-rng.integers(p + 1, 3 * p + 20, m)),
        cancels,
        -cancels,
    ]
    a, b = np.zeros((m, k)), np.full((k, n), 2.0 ** rng.integers(-3, 3))
    for column, term in zip(rng.permutation(k), terms, strict=False):
        a[:, column] = term
    if draw.chance(0.5):
        shifts = np.exp2(rng.integers(-30, 30, k))
        a, b = a * shifts, b / shifts[:, None]
    a, b = (a, b) if draw.chance(0.7) else (b.T[:, :k], a.T)
    return {"a": a.astype(dtype), "b": b.astype(dtype)}


def row_by_row(draw: Draw) -> None:
    """Short rows, and few columns, on a CPU, also fewer than would be taken so: the bits of NumPy's forms."""
    dtype = draw.pick("dtype", *(x for x in GEMMS if x.kind == "f"))
    m, short = int(draw.rng.integers(1, 150)), draw.chance(0.6)
    k = int(draw.rng.integers(1, 17) if short else draw.rng.integers(17, 200))
    most = min(256 // k, 256 if draw.chance(0.1) else 6) if short else 4
    n = int(draw.rng.integers(1, most + 1))
    m, n = (m, n) if draw.chance(0.7) else (n, m)
    draw.notes.append(f"m, k, n = {m}, {k}, {n}")
    given = operands(draw, dtype, m, k, n) if draw.chance(0.7) else _near_ties(draw, dtype, m, k, n)
    options = draw.pick("options", {}, {}, {"accuracy": "normwise"}, {"accuracy": "exact"})
    with (
        patch.object(Floats, "cost", -1.0),
        patch.object(in_floats, "_pays_by_rows", lambda *_: True),
        patch.object(thin, "LARGEST_TO_DECIDE", draw.pick("decided by small products", 0, 1 << 15)),
        patch.object(executors, "chosen", executors.chosen.__wrapped__),
    ):
        got = GEMMS[dtype](**given, **options)
    with numpy_forms():
        expected = GEMMS[dtype](**given, **options)
    check_same("row by row", got, expected)


CHECKS = {
    "gemm, bits": fixed_bits,
    "gemm, row by row": row_by_row,
    "gemm, exact": exact,
    "gemm, alpha beta c out": alpha_beta_c,
    "gemm, certified": certified,
    "gemm, same bits": invariant,
    "gemm, order of rows": permuted_rows,
    "gemm, order of k": permuted_inner,
    "gemm, Inf and NaN": without_nonfinite,
}
