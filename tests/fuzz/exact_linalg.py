"""Verified linear algebra against rationals."""

from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from ozaki.linalg import verified
from tests.fuzz.draw import Draw, check
from tests.oracle import (
    check_proof,
    check_spectrum,
    embedded,
    exact_solution,
    fractions,
    rational_matrix,
)


def conditioned(rng, n, digits, dtype):
    """A matrix with a condition number of about so many digits, before it is rounded to float64."""

    def orthogonal():
        x = rng.standard_normal((n, n))
        return np.linalg.qr(x + 1j * rng.standard_normal((n, n)) if dtype.kind == "c" else x)[0]

    a, left = orthogonal(), digits
    while left > 0:
        a = (a * 10.0 ** -np.linspace(0, min(left, 15), n)) @ orthogonal()
        left -= 15
    return a.astype(dtype)


def system(draw: Draw):
    """A and B of any condition number up to 1e40, of integers or badly scaled now and then."""
    rng, n, m = draw.rng, draw.size("n", 1, 12), draw.pick("m", 1, 1, 1, 2, 15)
    dtype = np.dtype(draw.pick("dtype", "float64", "float64", "complex128"))
    kind = draw.pick(
        "matrix", "conditioned", "conditioned", "integers", "hilbert", "scaled", "near singular", "graded"
    )
    a = conditioned(rng, n, draw.size("digits", 0, 40), dtype)
    if kind == "integers":
        a = rng.integers(-9, 10, (n, n)).astype(dtype)
    elif kind == "hilbert":
        a = (1 / (np.arange(n)[:, None] + np.arange(n) + 1.0 + draw.size("shift", 0, 9))).astype(dtype)
    elif kind == "scaled":
        of_rows, of_columns = 2.0 ** rng.integers(-500, 501, (2, n)).astype(float)
        a = a * of_rows[:, None] * np.sqrt(of_columns)
    elif kind == "graded":
        a = a * 2.0 ** np.linspace(-200, 200, n)
    elif kind == "near singular" and n > 1:
        a[-1] = a[:-1].sum(axis=0) * (1 + 2.0**-52 * rng.integers(-2, 3))
    scaled = a * 2.0 ** draw.size("octaves", -900, 900) if draw.chance(0.3) else a
    if np.isfinite(scaled).all() and ((scaled == 0) | (abs(scaled) > 2.0**-960)).all():
        a = scaled
    b = (
        rng.integers(-9, 10, (n, m)).astype(dtype)
        if draw.chance(0.3)
        else rng.standard_normal((n, m)).astype(dtype)
    )
    b = b * 2.0 ** draw.size("octaves of b", -900, 900) if draw.chance(0.3) else b
    return a, b


def solve(draw: Draw) -> None:
    """solve: no bound broken, no rounding wrong, singular only if it is."""
    with np.errstate(all="ignore"):
        a, b = system(draw)
    try:
        solution = verified.solve(a, b)
    except verified.SingularError:
        check("a regular matrix called singular", rational_matrix(embedded(a)).det() == 0, f"{a!r}")
        return
    except verified.NotProvedError:
        check("nothing proved", rational_matrix(embedded(a)).det() == 0, f"{a!r}")
        return
    check_proof(solution, *exact_solution(a, b))


def determinant(a: np.ndarray) -> Fraction:
    value = rational_matrix(a).det()
    return Fraction(int(value.p), int(value.q))


def check_inverse(a: np.ndarray, b: np.ndarray) -> None:
    inverse = verified.inv(a)  # raises for a singular matrix, of which there is no exact one
    check_proof(inverse, *exact_solution(a, np.eye(len(a)) + 0 * a))
    check_proof(verified.certify(a).solve(b), *exact_solution(a, b))


def check_determinant(a: np.ndarray, b: np.ndarray) -> None:
    result, true = verified.det(a.real), determinant(a.real)
    check("det: sign", result.sign == (true > 0) - (true < 0), f"{result}, not {true}")
    found = Fraction(result.mantissa) * Fraction(2) ** result.exponent
    allowed = abs(found) * Fraction(result.relative) * (1 + Fraction(1, 10**6))
    check("det: bound", abs(found - true) <= allowed, f"{result}, not {true}")
    check("det: integer", result.integer in (None, true), f"{result.integer}, not {true}")


def check_least_squares(a: np.ndarray, b: np.ndarray) -> None:
    tall = np.ascontiguousarray(a[:, : max(1, len(a) // 2)])
    solution = verified.lstsq(tall, b)
    right = np.vstack([b.real, b.imag]) if a.dtype.kind == "c" else b
    x, y = rational_matrix(embedded(tall)), rational_matrix(right)
    true = fractions((x.transpose() * x).solve(x.transpose() * y))
    check_proof(solution, true[: tall.shape[1]], true[tall.shape[1] :] or None)


def check_eigenvalues(a: np.ndarray, b: np.ndarray) -> None:
    """Within their bounds Σλ is the trace, and Σλ² the squared Frobenius norm."""
    hermitian = np.tril(a) + np.tril(a, -1).conj().T
    np.fill_diagonal(hermitian, a.diagonal().real)
    _check_moments(verified.eigh(hermitian), hermitian, hermitian.diagonal().real)
    _check_moments(verified.svdvals(a), a, None)


def check_clusters(a: np.ndarray, b: np.ndarray) -> None:
    """Each of the eigenvalues 1, 1, 2, 2, 3, which rounding moves a little, is within its bound."""
    q = np.linalg.qr(a[:5, :5].real)[0]
    spread = q * (1 + np.arange(len(q)) // 2) @ q.T
    symmetric = (spread + spread.T) / 2
    check_spectrum(verified.eigh(symmetric), symmetric)


def _check_moments(result, a: np.ndarray, diagonal: np.ndarray | None) -> None:
    if not np.isfinite(result.bound).all():
        return
    values, bounds = ([Fraction(float(v)) for v in x] for x in (result.value, result.bound))
    square = sum(Fraction(float(v)) ** 2 for part in (a.real, a.imag) for v in part.ravel())
    off = sum((2 * abs(v) + e) * e for v, e in zip(values, bounds, strict=True))
    check("Σλ²", abs(sum(v * v for v in values) - square) <= off, f"{result}")
    if diagonal is not None:
        trace = sum(Fraction(float(v)) for v in diagonal)
        check("Σλ", abs(sum(values) - trace) <= sum(bounds), f"{result}")


def check_definiteness(a: np.ndarray, b: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        matrices = [x for x in (a @ a.conj().T, a + a.conj().T) if np.isfinite(x).all()]
    for matrix in matrices:
        hermitian = np.tril(matrix) + np.tril(matrix, -1).conj().T
        np.fill_diagonal(hermitian, matrix.diagonal().real)
        real = embedded(hermitian)
        minors = [rational_matrix(real[:k, :k]).det() > 0 for k in range(1, len(real) + 1)]
        answer = bool(verified.is_positive_definite(hermitian))
        check("definite", answer == all(minors), f"{answer}: {hermitian!r}")


PROOFS = {
    "inv, certify": check_inverse,
    "det": check_determinant,
    "lstsq": check_least_squares,
    "eigh, svdvals": check_eigenvalues,
    "eigh of clusters": check_clusters,
    "is_positive_definite": check_definiteness,
}


def proofs(draw: Draw) -> None:
    """The other functions with proofs: no bound broken, no sign wrong."""
    with np.errstate(all="ignore"):
        a, b = system(draw)
        a, b = a[:8, :8], b[:8]
    name = draw.pick("function", *PROOFS)
    with suppress(verified.SingularError, verified.NotProvedError):  # `solve` checks what is called singular
        PROOFS[name](a, b)


def _proved(a: np.ndarray, b: np.ndarray, s: int, t: int) -> dict[str, Callable[[], Any]]:
    """What each function proves of 2**s·A and 2**t·B, with the exponent by which it is divided."""
    x, y = a * 2.0**s, b * 2.0**t
    hermitian = np.tril(x) + np.tril(x, -1).conj().T
    np.fill_diagonal(hermitian, x.diagonal().real)
    tall = x[:, : max(1, len(x) // 2)]
    return {
        "solve": lambda: (verified.solve(x, y), t - s),
        "inv": lambda: (verified.inv(x), -s),
        "certify": lambda: (verified.certify(x).solve(y), t - s),
        "lstsq": lambda: (verified.lstsq(tall, y), t - s),
        "eigh": lambda: (verified.eigh(hermitian), s),
        "svdvals": lambda: (verified.svdvals(x), s),
        "det": lambda: _mantissa(verified.det(x), len(x) * s),
        "is_positive_definite": lambda: (verified.is_positive_definite(hermitian), 0),
    }


def _mantissa(det: Any, exponent: int) -> tuple[SimpleNamespace, int]:
    value = det.mantissa * 2.0 ** (det.exponent - exponent)
    return SimpleNamespace(value=value, bound=abs(value) * det.relative), 0


def scales(draw: Draw) -> None:
    """Every proof of A and B times powers of two is that of A and B: it holds, and is as good."""
    rng, n = draw.rng, draw.size("n", 1, 8)
    dtype = np.dtype(draw.pick("dtype", "float64", "complex128"))
    a, b = conditioned(rng, n, draw.size("digits", 0, 14), dtype), rng.standard_normal((n, 2)).astype(dtype)
    if draw.chance(0.3):
        a, b = rng.integers(-9, 10, (n, n)).astype(dtype), rng.integers(-9, 10, (n, 2)).astype(dtype)
    a, b = (np.where(abs(x) < 2.0**-60, 0, x) for x in (a, b))
    s, t = draw.size("of A", -900, 900), draw.size("of B", -900, 900)
    if abs(t - s) > 900:  # the solution would not be a number
        t = s
    name = draw.pick("function", *_proved(a, b, 0, 0))
    usual, scaled = (_outcome(_proved(a, b, *powers)[name]) for powers in ((0, 0), (s, t)))
    if not (isinstance(usual, tuple) and isinstance(scaled, tuple)):
        check(f"{name}: of another scale", usual == scaled, f"{usual} and {scaled} of {a!r}, {b!r}")
        return
    off, allowed = abs(usual[0] - scaled[0]), usual[1] + scaled[1]
    check(f"{name}: both cannot hold", np.all(off <= allowed * (1 + 2.0**-40)), f"{usual}, {scaled}")
    whole = [bool((np.rint(x) == x).all()) for x in (a, a * 2.0**s)]
    if name == "det" and whole == [False, True]:  # of integers there may be no error at all
        return
    for one, other in ((usual, scaled), (scaled, usual)):
        twice = 2 * (1 + 2.0**-40) * other[1]  # bounds are rounded up in steps of their own
        size = abs(one[0])  # integers have no error, and a zero beside other numbers next to none
        negligible = np.where(size > 0, 2.0**-80 * size, 2.0**-159 * np.max(size))
        as_good = one[1] <= twice + one[2] + negligible
        check(f"{name}: as good at another scale", np.all(as_good), f"{usual} and {scaled} of {a!r}, {b!r}")


def _outcome(prove: Callable[[], Any]) -> Any:
    """Value, bound, and what bounds cannot be smaller than, in units of the unscaled result."""
    try:
        result, exponent = prove()
    except (verified.SingularError, verified.NotProvedError) as error:
        return type(error).__name__
    if not hasattr(result, "bound"):
        return bool(result)
    value, bound = (np.asarray(x) * 2.0**-exponent for x in (result.value, result.bound))
    return value, bound, 2.0 ** max(-1060 - exponent, -1060)


CHECKS = {"linalg.verified.solve": solve, "linalg.verified": proofs, "linalg.verified: scales": scales}
