"""Calls whose results are known exactly, for the fuzz on the CPU and for that of devices."""

import math
from collections.abc import Callable
from contextlib import nullcontext, suppress
from types import ModuleType
from typing import Any

import numpy as np

import ozaki
import ozaki.linalg
from multiword.runtime.arrays import namespace
from tests.fuzz.arrays import ALL_BITS, COMPLEX, FAR, INTEGERS, REAL
from tests.fuzz.device_products import Call
from tests.fuzz.draw import Draw, check, check_same, plain
from tests.fuzz.exact_products import GEMMS
from tests.fuzz.exact_statistics import MOST_ENCLOSED, enclosing_groups
from tests.fuzz.exact_sums import FLOATS, complete, dots
from tests.oracle import (
    FORMATS,
    exact_product,
    integers,
    joined,
    part_dtype,
    parts,
    real_products,
    rounded,
    rounded_product,
)
from tests.reductions import REFERENCES, covariance, variance

FLOAT64 = np.dtype(np.float64)
MODERATE = ("normal", "positive", "integers", "cancelling", "ties", "zeros", "sparse", "equal")
"""Numbers whose products neither overflow nor underflow."""


def moderate(draw: Draw) -> str:
    return MODERATE[int(draw.rng.integers(len(MODERATE)))]


def sizes(draw: Draw, *most: int) -> tuple[int, ...]:
    return tuple(draw.size(f"size {i}", 0 if draw.chance(0.05) else 1, n) for i, n in enumerate(most))


def integer_products(draw: Draw) -> Call:
    """`matmul` of integers, in a dtype of integers or modulo a number."""
    (m, k, n), batch = sizes(draw, 4, 30, 4), draw.pick("batch", (), (), (2,), (0,))
    of_a = draw.pick("shape of a", (*batch, m, k), (*batch, m, k), (k,))
    of_b = draw.pick("shape of b", (k, n), (k, n), (*batch, k, n), (k,))
    specs = {"a": draw.spec("a", of_a, INTEGERS, ALL_BITS), "b": draw.spec("b", of_b, INTEGERS, ALL_BITS)}
    p = draw.pick("mod", None, None, 2, 3, 97, 65521, 2**31 - 1, 2**53 + 1, 2**63 - 1)
    dtype, overflow = draw.pick("dtype", *INTEGERS[:-1]), draw.pick("overflow", "raise", "wrap")
    options = {"mod": p} if p else {"dtype": dtype, "overflow": overflow}

    def function(_: ModuleType, x: dict) -> list:
        try:
            return [ozaki.matmul(x["a"], x["b"], **options)]
        except OverflowError as error:
            return [str(error)]

    def oracle(x: dict, results: list) -> None:
        shape = np.matmul(*(np.zeros(x[name].shape) for name in "ab")).shape
        exact = np.matmul(*(integers(x[name])[0] for name in "ab")) if k else np.zeros(shape, object)
        limits, exact = np.iinfo(np.int64 if p else dtype), np.asarray(exact, object)
        reduced = np.asarray(exact % p if p else (exact - limits.min) % 2**limits.bits + limits.min, object)
        beyond = np.argwhere(np.asarray(exact != reduced))
        if not p and overflow == "raise" and len(beyond):
            first = beyond[0]
            message = f"element {tuple(first.tolist())} of the product is {exact[tuple(first)]},"
            check("integers: overflow", str(results[0]).startswith(message), f"{results[0]!r}: {message}")
        else:
            check_same("integers", results[0], reduced.astype(np.int64 if p else dtype))

    return Call(specs, function, oracle=oracle)


def gram(draw: Draw) -> Call:
    """`gram`: exactly symmetric, with the bits of the product of a matrix and its transpose."""
    dtype, (n, m) = draw.pick("dtype", *GEMMS), sizes(draw, 40, 9)
    accuracy = draw.pick("accuracy", None, "exact", "fp64", "fp32", "normwise", 30)
    specs = {"x": draw.spec("x", (n, m), (dtype,), draw.kind())}

    def oracle(x: dict, results: list) -> None:
        (got,), transpose = results, np.ascontiguousarray(x["x"].conj().T)
        check_same("gram", got, ozaki.matmul(transpose, x["x"], accuracy=accuracy))
        check_same("gram: symmetry", got + dtype.type(0), got.conj().T + dtype.type(0))
        if accuracy == "exact":
            check_same("gram, exact", got, rounded_product(transpose, x["x"], dtype))

    return Call(specs, lambda _, x: [ozaki.gram(x["x"], accuracy=accuracy)], oracle=oracle)


def distances(draw: Draw) -> Call:
    """`cdist_squared`, rounded once."""
    m, n, d = sizes(draw, 6, 6, 12)
    specs = {name: draw.spec(name, (rows, d), REAL, moderate(draw)) for name, rows in (("x", m), ("y", n))}

    def oracle(x: dict, results: list) -> None:
        rows, e = integers(np.concatenate([z.astype(FLOAT64) for z in x.values()]))
        expected = np.zeros((m, n))
        for i, j in np.ndindex(m, n):
            square = sum((p - q) ** 2 for p, q in zip(rows[i], rows[m + j], strict=True))
            expected[i, j] = rounded(square, 2 * e, FORMATS[FLOAT64])
        check_same("cdist_squared", results[0], expected)

    return Call(specs, lambda _, x: [ozaki.cdist_squared(x["x"], x["y"])], oracle=oracle)


def covariances(draw: Draw) -> Call:
    """`cov` and `corrcoef`: within their bounds, symmetric, variances correctly rounded."""
    m, n, ddof = draw.size("m", 1, 5), draw.size("n", 3, 40), draw.pick("ddof", 0, 1, 2)
    rowvar, accuracy = draw.pick("rowvar", True, False), draw.pick("accuracy", "fp64", "exact", "normwise")
    kind, options = draw.pick("kind", "normal", "integers", FAR), {"rowvar": rowvar, "accuracy": accuracy}
    specs = {"x": draw.spec("x", (m, n) if rowvar else (n, m), (FLOAT64,), kind)}

    def function(_: ModuleType, x: dict) -> list:
        return [ozaki.cov(x["x"], ddof=ddof, **options), ozaki.corrcoef(x["x"], **options)]

    def oracle(x: dict, results: list) -> None:
        variables = x["x"] if rowvar else x["x"].T
        rows, e = integers(variables)
        products = n * rows.dot(rows.T) - np.outer(rows.sum(axis=1), rows.sum(axis=1))  # n²·cov, exactly
        roots = np.array([math.isqrt(int(v) << 240) / 2**120 for v in products.diagonal()])
        unit = {"exact": 1.0, "normwise": math.sqrt(n), "fp64": min(n / 2, 12 * math.sqrt(n))}[accuracy]
        exact = products.astype(np.float64) / np.maximum(1, np.outer(roots, roots))
        scaled = results[0] / np.maximum(1, np.outer(roots, roots)) * (n * (n - ddof)) * 2.0 ** (-2 * e)
        for name, got, slack in (("cov", scaled, 16), ("corrcoef", results[1], 20)):
            here = np.outer(roots, roots) > 0
            error = float(np.abs(got - exact)[here].max(initial=0)) / ((unit + slack + 8) * 2.0**-53)
            check(f"{name}: above its bound", error <= 1, f"{error:.3g} of what is allowed")
        for got in results:
            check_same("cov, corrcoef: symmetry", got, got.T)
        diagonal = [variance(row, ddof, False, False, FORMATS[FLOAT64]) for row in variables]
        check_same("cov: variances", results[0].diagonal(), np.array(diagonal))

    return Call(specs, function, oracle=oracle)


CONTRACTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    **{
        f"einsum {subscripts}": (
            lambda *x, s=subscripts, **options: ozaki.einsum(s, *x, **options),
            subscripts,
        )
        for subscripts in (
            *("ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "ij,ij->", "i,j->ij", "abc,cd->abd", "ab,b->a"),
            *("aab,b->a", "ij->j", "ii->i", "ii->", "...a,...a->...", "abc->ca", "ab,cd->", "ij->"),
        )
    },
    "tensordot 0": (lambda x, y, **options: ozaki.tensordot(x, y, 0, **options), "ab,c->abc"),
    "tensordot 1": (lambda x, y, **options: ozaki.tensordot(x, y, 1, **options), "ab,bcd->acd"),
    "tensordot axes": (lambda x, y, **o: ozaki.tensordot(x, y, ((0, 2), (1, 0)), **o), "abc,cad->bd"),
    "inner": (ozaki.inner, "abk,ck->abc"),
    "outer": (ozaki.outer, "a,b->ab"),
    "vecdot": (lambda x, y, **options: ozaki.vecdot(x.conj(), y, **options), "ab,ab->a"),
    "matvec": (ozaki.matvec, "abk,ak->ab"),
}


def contractions(draw: Draw) -> Call:
    """`einsum` and its relatives in "exact": each element the exact sum of products, rounded once."""
    name = draw.pick("call", *CONTRACTIONS)
    function, subscripts = CONTRACTIONS[name]
    dtype = draw.pick("dtype", *GEMMS)
    lengths = dict(zip("abcdijk", sizes(draw, 4, 4, 4, 4, 5, 5, 5), strict=True))
    operands = subscripts.split("->")[0].replace("...", "b").split(",")
    specs = {
        f"x{i}": draw.spec(f"x{i}", tuple(lengths[label] for label in labels), (dtype,), moderate(draw))
        for i, labels in enumerate(operands)
    }

    def oracle(x: dict, results: list) -> None:
        stacked = [integers(np.stack(parts(z))) for z in x.values()]
        values, unit = [list(z) for z, _ in stacked], sum(e for _, e in stacked)

        def summed(*which: int) -> np.ndarray:
            return np.einsum(subscripts, *(z[i] for z, i in zip(values, which, strict=True)))

        if dtype.kind != "c":
            exact = [summed(*[0] * len(values))]
        elif len(values) == 1:
            exact = [summed(0), summed(1)]
        else:
            exact = [summed(0, 0) - summed(1, 1), summed(0, 1) + summed(1, 0)]
        fmt = FORMATS[part_dtype(dtype)]
        found = [np.array([rounded(int(v), unit, fmt) for v in np.ravel(z)]) for z in exact]
        check_same(name, np.asarray(results[0]) + dtype.type(0), complete(found, np.shape(exact[0]), dtype))

    return Call(specs, lambda _, x: [function(*x.values(), accuracy="exact")], oracle=oracle)


WITHOUT_NAN = ("group_nansum", "group_nanmean", "group_nanvar", "group_nanstd")
GROUPED = (
    *("group_sum", "group_mean", "group_var", "group_std", "group_dot", "ExactSum.add_groups"),
    *WITHOUT_NAN,
)


def groups(draw: Draw) -> Call:
    """Sums, means, variances and dot products of groups: each group's exact value, rounded once."""
    name = draw.pick("call", *GROUPED)
    n, count, lead = draw.size("n", 0, 60), draw.size("groups", 1, 9), draw.pick("lead", (), (2,), (0,))
    dtypes = (
        REAL if name == "ExactSum.add_groups" else (*FLOATS, *INTEGERS) if name != "group_dot" else FLOATS
    )
    lead = () if name == "ExactSum.add_groups" else lead
    specs = {"x": draw.spec("x", (*lead, n), dtypes, draw.kind())}
    if name == "group_dot":
        specs["y"] = draw.spec("y", (n,), (specs["x"].dtype,), draw.kind())
    labels, ddof = draw.rng.integers(0, count, n), draw.pick("ddof", 0, 1, 0.5)
    enclosed = draw.pick("enclosed", 0, MOST_ENCLOSED)

    @enclosing_groups(enclosed)
    def function(xp: ModuleType, x: dict) -> list:
        index = xp.asarray(labels)
        if name == "ExactSum.add_groups":
            total = ozaki.ExactSum(x["x"].dtype.newbyteorder("="), (count,)).add_groups(x["x"], index)
            return [total.round(), ozaki.group_count(index, count)]
        options = {"ddof": ddof} if name.endswith(("var", "std")) else {}
        return [getattr(ozaki, name)(*x.values(), index, count, **options), ozaki.group_count(index, count)]

    def oracle(x: dict, results: list) -> None:
        got, counts = results
        check_same("group_count", counts, np.bincount(labels, minlength=count))
        found = [
            [
                _of_group(
                    name,
                    [z[..., labels == g][index] if z.ndim > 1 else z[labels == g] for z in x.values()],
                    ddof,
                    got.dtype,
                )
                for g in range(count)
            ]
            for index in np.ndindex(*lead)
        ]
        if got.dtype.kind in "iub":
            expected = np.array(found, got.dtype).reshape(*lead, count)
        else:
            each = 1 + (got.dtype.kind == "c")
            flat = np.array(found, np.float64).reshape(-1, each)
            expected = complete(list(flat.T), (*lead, count), got.dtype)
        check_same(name, got, expected)

    return Call(specs, function, oracle=oracle)


def _of_group(name: str, rows: list[np.ndarray], ddof: float, dtype: np.dtype) -> Any:
    """The parts of one group's result, or its integer."""
    row = rows[0]
    if dtype.kind in "iub":
        return np.sum(row)
    fmt = FORMATS[part_dtype(dtype)]
    if name == "group_dot":
        return dots(*rows, fmt, False)
    of = name.removeprefix("group_") if name != "ExactSum.add_groups" else "sum"
    return REFERENCES[of](row, fmt, **({"ddof": ddof} if of.endswith(("var", "std")) else {}))


def group_covariances(draw: Draw) -> Call:
    """Covariance matrices of groups: each pair's exact value, rounded once."""
    k, n, count = draw.size("k", 1, 4), draw.size("n", 0, 60), draw.size("groups", 1, 9)
    specs = {"x": draw.spec("x", (k, n), (*REAL, *INTEGERS), draw.kind())}
    labels, ddof = draw.rng.integers(0, count, n), draw.pick("ddof", 1, 1, 0, 3, 0.5)

    def function(xp: ModuleType, x: dict) -> list:
        return [ozaki.group_cov(x["x"], xp.asarray(labels), count, ddof=ddof)]

    def oracle(x: dict, results: list) -> None:
        fmt, groups = FORMATS[results[0].dtype], [x["x"][:, labels == g] for g in range(count)]
        found = [covariance(a, b, ddof, fmt) for rows in groups for a in rows for b in rows]
        check_same("group_cov", results[0], complete([found], (count, k, k), results[0].dtype))

    return Call(specs, function, oracle=oracle)


def residuals(draw: Draw) -> Call:
    """`residual` and `two_word_product`: words of the exact result, each rounded from what is left."""
    (m, k, n), words = sizes(draw, 5, 30, 4), draw.pick("words", 1, 2, 3)
    dtypes = draw.pick("dtypes", REAL[:3], (*REAL[:3], *COMPLEX))
    specs = {
        name: draw.spec(name, shape, dtypes, moderate(draw))
        for name, shape in (("a", (m, k)), ("x", (k, n)), ("b", (m, n)))
    }

    def function(_: ModuleType, x: dict) -> list:
        found = ozaki.residual(x["a"], x["x"], x["b"], words=words)
        return [*(found if words > 1 else (found,)), *ozaki.two_word_product(x["a"], x["x"])]

    def oracle(x: dict, results: list) -> None:
        of_residual = np.result_type(*x.values(), FLOAT64)
        of_product = np.result_type(x["a"], x["x"], FLOAT64)
        a, middle, b = (z.astype(of_residual) for z in x.values())
        _check_words("residual", results[:words], np.hstack([b, a]), np.vstack([np.eye(n), -middle]))
        a, middle = (x[name].astype(of_product) for name in "ax")
        _check_words("two_word_product", results[words:], a, middle)

    return Call(specs, function, oracle=oracle)


def _check_words(name: str, words: list[np.ndarray], a: np.ndarray, b: np.ndarray) -> None:
    """The words of AB, the first rounded from it and each from what the others leave."""
    dtype = np.result_type(a, b)
    left = [exact_product(x, y) for x, y in real_products(a, b.astype(dtype))]
    for i, word in enumerate(words):
        values, rest = [], []
        for exact, e in left:
            shape = exact.shape
            value = np.array([rounded(v, e, FORMATS[FLOAT64]) for v in exact.ravel()], np.float64).reshape(
                shape
            )
            whole, unit = integers(value)
            low = min(e, unit)
            values.append(value)
            rest.append(((exact * 2 ** (e - low)) - (whole * 2 ** (unit - low)), low))
        check_same(f"{name}, word {i}", word + dtype.type(0), joined(values, dtype) + dtype.type(0))
        left = rest


def two_words(draw: Draw) -> Call:
    """`matmul` of sums of two words: both rounded from the exact product, or within the stated bound."""
    (m, k, n), accuracy = sizes(draw, 5, 30, 4), draw.pick("accuracy", "fp64", "fp64", "exact")
    gap, singles = draw.pick("gap", 0, 20, 53, 60, 200), draw.pick("single", "", "", "a", "b")
    dtypes = draw.pick("dtypes", REAL[:3], (*REAL[:3], *COMPLEX))
    specs = {
        f"{name}{i}": draw.spec(f"{name}{i}", shape, dtypes, moderate(draw))
        for name, shape in (("a", (m, k)), ("b", (k, n)))
        for i in range(1 if name == singles else 2)
    }

    def words_of(x: dict, name: str) -> tuple:
        """The second word has smaller numbers, or as large ones."""
        if name == singles:
            return (x[f"{name}0"],)
        other = x[f"{name}1"]
        return x[f"{name}0"], other.astype(np.result_type(other, FLOAT64)) * 2.0**-gap

    def function(_: ModuleType, x: dict) -> list:
        return list(ozaki.matmul(words_of(x, "a"), words_of(x, "b"), words=2, accuracy=accuracy))

    def oracle(x: dict, results: list) -> None:
        dtype = np.result_type(*x.values(), FLOAT64)
        left, right = ([z.astype(dtype) for z in words_of(x, name)] for name in "ab")
        pairs = [(y, z) for y in left for z in right]
        if accuracy == "exact":
            of_a, of_b = zip(*pairs, strict=True)
            _check_words("two words", results, np.hstack(of_a), np.vstack(of_b))
            return
        length = 2 * k if dtype.kind == "c" else k
        bound = int(min(length / 2, 12 * math.sqrt(length)) + 1)
        parts_of_words = [[real_products(y, z)[i] for y, z in pairs] for i in range(1 + (dtype.kind == "c"))]
        for part, high, low in zip(parts_of_words, *map(parts, results), strict=True):
            check("two words: low", bool((np.abs(low) <= np.spacing(np.abs(high)) / 2).all()), "too large")
            terms = [x[:, :, None] * y[None] for x, y in (map(_scaled, pair) for pair in part)]
            terms = np.add.reduce(terms) if k else np.zeros((m, 1, n), object)
            exact, size = terms.sum(axis=1), np.abs(terms).sum(axis=1)
            error = np.abs(_scaled(high, 2) + _scaled(low, 2) - exact)
            check("two words: bound", bool((error << 106 <= bound * size).all()), f"of {bound}·2**-106")

    return Call(specs, function, oracle=oracle)


def _scaled(x: np.ndarray, times: int = 1) -> np.ndarray:
    """Numbers times 2**1100, as many times as said: integers."""
    whole, e = integers(x)
    return whole << e + 1100 * times


def factorizations(draw: Draw) -> Call:
    """Linear algebra: a matrix of a stack, in any layout, has the bits that it has alone; x solves Ax = b."""
    n, m, stack = draw.size("n", 1, 12), draw.size("m", 1, 3), draw.size("stack", 1, 3)
    n = 140 if draw.chance(0.02) else n  # more than a leaf
    dtype = draw.pick("dtype", *GEMMS)
    name, kind = draw.pick("call", *LINALG), draw.pick("kind", "normal", "positive", "rows")
    specs = {
        "a": draw.spec("a", (stack, n, n), (dtype,), kind),
        "b": draw.spec("b", (stack, n, m), (dtype,), "normal"),
    }

    def attempted(a: Any, b: Any) -> list:
        """The results; none of numbers that spread so far that a pivot is lost to rounding."""
        with suppress(np.linalg.LinAlgError) if kind == "rows" else nullcontext():
            return LINALG[name](a, b)
        return []

    def function(_: ModuleType, x: dict) -> list:
        return attempted(x["a"], x["b"])

    def oracle(x: dict, results: list) -> None:
        a, b = (np.ascontiguousarray(z) for z in x.values())
        every = [attempted(a[i], b[i]) for i in range(stack)]
        if not results:
            check(f"linalg.{name}: singular", not all(every), "not one of the stack is")
            return
        for i, alone in enumerate(every):
            for got, expected in zip(results, alone, strict=True):
                check_same(f"linalg.{name}: alone", np.asarray(got)[i], expected)
        if name == "solve" and dtype.char in "dD":
            factored = [
                ozaki.linalg.lu_solve(ozaki.linalg.lu_factor(y), z) for y, z in zip(a, b, strict=True)
            ]
            check_same("linalg.lu_solve", np.stack(factored), results[0])
        if name == "qr":
            with suppress(np.linalg.LinAlgError):  # of lower rank
                found = [ozaki.linalg.lstsq(y, b[0])[0] for y in (a[0], np.asfortranarray(a[0]))]
                check_same("linalg.lstsq: layout", *found)
        if name == "solve" and dtype == FLOAT64:
            worst = max(map(_residual_of_factors, a, b, results[0]))
            check("linalg.solve: residual", worst <= 5 * n * 2.0**-53, f"{worst:.3g}")

    return Call(specs, function, oracle=oracle)


def _residual_of_factors(a: Any, b: Any, x: Any) -> float:
    """|b - Ax| over |L||U||x| + |b|, at most: what Gaussian elimination bounds (Higham 2002, theorem 9.4)."""
    lu, pivots = ozaki.linalg.lu_factor(a)
    a, b = a.copy(), b.copy()
    for j, p in enumerate(pivots):
        a[[j, p]], b[[j, p]] = a[[p, j]], b[[p, j]]
    size = (np.abs(np.tril(lu, -1)) + np.eye(len(a))) @ (np.abs(np.triu(lu)) @ np.abs(x))
    return float((np.abs(b - a @ x) / (size + np.abs(b))).max())


def _definite(a: Any) -> Any:
    """Symmetric matrices of small integers, with a large diagonal: made without arithmetic, whose zeros have
    the sign that the floating-point mode gives them."""
    xp = namespace(a)
    whole = xp.trunc(a.real.clip(-8, 8)).astype(a.dtype)
    result = xp.where(xp.tri(a.shape[-1], dtype=bool), whole, whole.swapaxes(-1, -2))
    for i in range(a.shape[-1]):
        result[..., i, i] = 20 * a.shape[-1]
    return result


def _tall(a: Any) -> Any:
    """Half of the columns."""
    return a[..., : max(1, a.shape[-1] // 2)]


LINALG: dict[str, Callable[[Any, Any], list]] = {
    "solve": lambda a, b: [ozaki.linalg.solve(a, b)],
    "inv": lambda a, b: [ozaki.linalg.inv(a)],
    "det": lambda a, b: [ozaki.linalg.det(a)],
    "slogdet": lambda a, b: list(ozaki.linalg.slogdet(a)),
    "lu_factor": lambda a, b: list(ozaki.linalg.lu_factor(a)),
    "cholesky": lambda a, b: [ozaki.linalg.cholesky(_definite(a))],
    "qr": lambda a, b: list(ozaki.linalg.qr(a)),
    "eigh": lambda a, b: [*ozaki.linalg.eigh(a), ozaki.linalg.eigvalsh(a)],
    "eigh, definite b": lambda a, b: list(ozaki.linalg.eigh(a, b=_definite(a), subset_by_index=(0, 0))),
    "pinv": lambda a, b: [ozaki.linalg.pinv(_tall(a))],
    "matrix_rank": lambda a, b: [ozaki.linalg.matrix_rank(a), ozaki.linalg.cond(a)],
    "norm": lambda a, b: [ozaki.linalg.norm(a, p, (-2, -1)) for p in (1, -np.inf, 2, "nuc")],
    "svd": lambda a, b: [*ozaki.linalg.svd(_tall(a)), ozaki.linalg.svdvals(a)],
    "solve_triangular": lambda a, b: [ozaki.linalg.solve_triangular(a, b, lower=True)],
}
"""Each function's results, of a matrix or of a stack."""

SHARED: dict[str, Callable[[Draw], Call]] = {
    "matmul, integers": integer_products,
    "gram": gram,
    "cdist_squared": distances,
    "cov, corrcoef": covariances,
    "einsum and its like": contractions,
    "groups": groups,
    "group_cov": group_covariances,
    "residual, two_word_product": residuals,
    "matmul, two words": two_words,
    "linalg": factorizations,
}


def on_cpu(family: Callable[[Draw], Call]) -> Callable[[Draw], None]:
    """The check of a family on the CPU: one call against its oracle."""

    def check_call(draw: Draw) -> None:
        call = family(draw)
        arrays = {name: spec.make(draw.rng) for name, spec in call.specs.items()}
        with np.errstate(all="ignore"):
            results = call.function(np, arrays)
            call.oracle({name: plain(x) for name, x in arrays.items()}, results)

    return check_call


CHECKS = {name: on_cpu(family) for name, family in SHARED.items()}
