"""A regression table: coefficients, standard errors, t and R², proved, in any order of rows.

    python examples/regression_table.py

Coefficients come from `ozaki.linalg.verified.lstsq`, with a bound for each; residuals are exact products
rounded once (`ozaki.residual`), the root of their sum of squares a correctly rounded norm. Standard errors
are √(s²·((XᵀX)⁻¹)_jj), with (XᵀX)⁻¹ = R⁻¹R⁻ᵀ from a QR factorization. The rows are sorted first, so that the
factors, too, do not depend on the order in which they came. Longley's data (1967), whose columns are nearly
dependent, are the classical trap for such programs. It takes a second.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import ozaki
from ozaki.linalg import qr, solve_triangular, verified

DATA = """
60323 83.0 234289 2356 1590 107608 1947   61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949   61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951   63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953   63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955   67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957   66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959   69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961   70551 116.9 554894 4007 2827 130081 1962
"""
LONGLEY = np.array(DATA.split(), float).reshape(16, 7)
NAMES = "constant", "deflator", "GNP", "unemployed", "armed forces", "population", "year"


class Table(NamedTuple):
    """Coefficients with proved bounds, their standard errors and t, and R²."""

    coefficients: np.ndarray
    bounds: np.ndarray
    errors: np.ndarray
    t: np.ndarray
    r_squared: float


def regression(x: np.ndarray, y: np.ndarray) -> Table:
    """Return the table of least squares, a function of the set of rows."""
    rows = np.column_stack([y, x])
    rows = rows[np.lexsort(rows.T[::-1])]
    x, y = np.column_stack([np.ones(len(rows)), rows[:, 1:]]), rows[:, 0]
    solution = verified.lstsq(x, y)
    n, k = x.shape
    rest = ozaki.norm(ozaki.residual(x, solution.value, y))
    scale = 2.0 ** np.floor(np.log2(np.abs(x).max(axis=0)))  # columns of one size, exactly
    inverse = solve_triangular(qr(x / scale, mode="r"), np.eye(k))
    errors = ozaki.norm(inverse, axis=1) / scale * (rest / np.sqrt(n - k))
    r_squared = 1 - (rest / (ozaki.std(y) * np.sqrt(n))) ** 2
    return Table(solution.value, solution.bound, errors, solution.value / errors, float(r_squared))


def main() -> None:
    """Print the table of Longley's data, and that the order of rows changes no bit."""
    x, y = LONGLEY[:, 1:], LONGLEY[:, 0]
    table = regression(x, y)
    print(f"{'':14}{'coefficient':>20}{'proved within':>15}{'standard error':>20}{'t':>10}")
    for name, *numbers in zip(NAMES, *table[:4], strict=True):
        value, bound, error, t = numbers
        print(f"{name:14}{value:20.11f}{bound:15.1e}{error:20.11f}{t:10.4f}")
    print(f"R² = {table.r_squared:.12f}")
    order = np.random.default_rng(1).permutation(len(y))
    again = regression(x[order], y[order])
    pairs = zip(table, again, strict=True)
    same = all(np.asarray(one).tobytes() == np.asarray(other).tobytes() for one, other in pairs)
    print(f"rows in another order, the same bits: {same}")


if __name__ == "__main__":
    main()
