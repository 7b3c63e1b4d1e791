"""Verified linear algebra against rationals."""

import numpy as np

from ozaki.linalg import verified
from tests.fuzz.draw import Draw, check
from tests.linalg.rational import check_proof, embedded, exact_solution, rational_matrix


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
    rng, n, m = draw.rng, draw.size("n", 1, 12), draw.size("m", 1, 2)
    dtype = np.dtype(draw.pick("dtype", "float64", "float64", "complex128"))
    kind = draw.pick("matrix", "conditioned", "conditioned", "integers", "hilbert", "scaled", "near singular")
    a = conditioned(rng, n, draw.size("digits", 0, 40), dtype)
    if kind == "integers":
        a = rng.integers(-9, 10, (n, n)).astype(dtype)
    elif kind == "hilbert":
        a = (1 / (np.arange(n)[:, None] + np.arange(n) + 1.0 + draw.size("shift", 0, 9))).astype(dtype)
    elif kind == "scaled":
        of_rows, of_columns = 2.0 ** rng.integers(-500, 501, (2, n)).astype(float)
        a = a * of_rows[:, None] * np.sqrt(of_columns)
    elif kind == "near singular" and n > 1:
        a[-1] = a[:-1].sum(axis=0) * (1 + 2.0**-52 * rng.integers(-2, 3))
    b = (
        rng.integers(-9, 10, (n, m)).astype(dtype)
        if draw.chance(0.3)
        else rng.standard_normal((n, m)) + 0 * a[0, 0]
    )
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


CHECKS = {"linalg.verified.solve": solve}
