"""Sparse matrices, Krylov methods and random numbers, for the fuzz on the CPU and for that of devices."""

from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

import ozaki.random
import ozaki.sparse.linalg
from multiword.runtime.floats import default_mode
from tests.fuzz.device_products import Call
from tests.fuzz.draw import Draw, check_same
from tests.fuzz.exact_products import GEMMS
from tests.fuzz.shared import MODERATE, moderate, on_cpu

FORMATS = "csr", "csc", "coo"
METHODS = "cg", "minres", "bicgstab", "gmres", "lsqr"


def matrix(xp: ModuleType, values: Any, places: np.ndarray, shape: tuple[int, int], form: str) -> Any:
    """A sparse matrix of SciPy's, or of CuPy's, with no two values in one place."""
    if xp is np:
        from scipy.sparse import coo_array as coo
    else:
        from cupyx.scipy.sparse import coo_matrix as coo
    values = xp.array(values, values.dtype.newbyteorder("="))
    return coo((values, tuple(map(xp.asarray, places))), shape).asformat(form)


def places(draw: Draw, m: int, n: int) -> np.ndarray:
    """Rows and columns of some elements, each once, in any order."""
    chosen = draw.rng.permutation(m * n)[: draw.size("entries", 0, min(m * n, 60))]
    return np.stack(np.divmod(chosen, n)).astype(np.int32)


def products(draw: Draw) -> Call:
    """A·X, A·x, b - Ax and sums, every element as of the dense matrix, exactly and rounded once."""
    m, n, form = draw.size("m", 1, 12), draw.size("n", 1, 12), draw.pick("format", *FORMATS)
    where, dtype = places(draw, m, n), draw.pick("dtype", *GEMMS)
    right = draw.pick("right", (n,), (n, 1), (n, 5))
    specs = {
        "v": draw.spec("v", (where.shape[1],), (dtype,), moderate(draw)),
        "x": draw.spec("x", right, (dtype,), moderate(draw)),
        "b": draw.spec("b", (m, *right[1:]), (np.result_type(dtype, np.float64),), moderate(draw)),
    }

    def function(xp: ModuleType, x: dict) -> list:
        a = matrix(xp, x["v"], where, (m, n), form)
        return [ozaki.matmul(a, x["x"]), ozaki.residual(a, x["x"], x["b"]), ozaki.sum(a), ozaki.norm(a)]

    def oracle(x: dict, results: list) -> None:
        dense = np.zeros((m, n), dtype)
        dense[tuple(where)] = x["v"]
        expected = {
            "matmul": ozaki.matmul(dense, x["x"], accuracy="exact"),
            "residual": ozaki.residual(dense, x["x"], x["b"]),
            "sum": ozaki.sum(dense),
            "norm": ozaki.norm(dense),
        }
        for got, (name, of_dense) in zip(results, expected.items(), strict=True):
            check_same(f"sparse: {name}", got + 0, of_dense + 0)  # zeros of one sign: the dense have more

    return Call(specs, function, oracle=oracle)


def krylov(draw: Draw) -> Call:
    """Some iterations of each method: the same bits in any format, and for any numbering of the unknowns."""
    n, form, method = draw.size("n", 1, 20), draw.pick("format", *FORMATS), draw.pick("method", *METHODS)
    where, steps = places(draw, n, n), draw.size("steps", 1, 8)
    if method in ("cg", "minres"):
        where = np.unique(np.hstack([where, where[::-1]]), axis=1)
    kind = MODERATE[int(draw.rng.integers(3))]
    specs = {
        "v": draw.spec("v", (where.shape[1],), (np.dtype(np.float64),), kind),
        "b": draw.spec("b", (n,), (np.dtype(np.float64),), "normal"),
    }

    def solved(xp: ModuleType, v: Any, where: np.ndarray, b: Any, form: str) -> list:
        if method in ("cg", "minres"):  # the larger of a pair's values, and a large diagonal
            v = abs(v)
        a = matrix(xp, v, where, (n, n), form)
        if method in ("cg", "minres"):
            with default_mode():  # SciPy adds in the thread's own
                a = a + a.T
        solver = getattr(ozaki.sparse.linalg, method)
        names = {"lsqr": {"iter_lim": steps}, "minres": {"maxiter": steps}}
        options = names.get(method, {"maxiter": steps, "rtol": 1e-12})
        return [solver(a, b, **options)[0]]

    def function(xp: ModuleType, x: dict) -> list:
        return solved(xp, x["v"], where, x["b"], form)

    def oracle(x: dict, results: list) -> None:
        order = np.random.default_rng(n).permutation(n)
        back = np.argsort(order)
        for other in FORMATS:
            (again,) = solved(np, x["v"], back[where], x["b"][order], other)
            check_same(f"sparse.linalg.{method}: numbering", results[0][order], again)

    return Call(specs, function, oracle=oracle)


def numbers(draw: Draw) -> Call:
    """Random numbers are those of their places, from wherever they are drawn."""
    seed, calls, n = draw.size("seed", 0, 2**62), draw.size("calls", 0, 3), draw.size("n", 0, 70)
    first, dtype = draw.size("first", 0, 2**40), draw.pick("dtype", np.float32, np.float64)
    name = draw.pick("call", "random", "standard_normal", "integers", "bernoulli")
    specs = {"like": draw.spec("like", (1,), (np.dtype(np.float64),), "normal")}

    def drawn(like: Any, first: int, n: int) -> Any:
        generator = ozaki.random.default_rng(seed, like)
        for _ in range(calls):
            generator.random()
        if name == "integers":
            return generator.integers(-7, 2**40, n, first=first)
        if name == "bernoulli":
            return generator.bernoulli(0.3, n, first=first)
        return getattr(generator, name)(n, dtype, first=first)

    def oracle(x: dict, results: list) -> None:
        for skipped in (n // 3, n):
            check_same("random: place", drawn(x["like"], first + skipped, n - skipped), results[0][skipped:])

    return Call(specs, lambda _, x: [drawn(x["like"], first, n)], oracle=oracle)


SOLVERS = {"random": numbers}
if find_spec("scipy"):
    SOLVERS |= {"sparse matrices": products, "sparse.linalg": krylov}
CHECKS = {name: on_cpu(family) for name, family in SOLVERS.items()}
