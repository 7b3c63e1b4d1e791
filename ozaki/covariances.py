"""Covariances and correlations of variables, from products of deviations that are rounded once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    namespace,
    on_device_of_arrays,
    quietly,
)
from multiword.runtime.readback import all_finite
from ozaki.arguments import as_matrix, request_of
from ozaki.execution.executors import multiply
from ozaki.nonfinite import one_nan
from ozaki.product.factor import Factor
from ozaki.public import public
from ozaki.sums.api import mean
from ozaki.sums.api import sum as exact_sum
from ozaki.sums.statistics import average, var
from ozaki.sums.variance import exact_ddof
from ozaki.sums.weighted import Weights, checked_weights, divisor
from ozaki.symmetric import gram


@public("Covariances and distances", dask=True)
@on_device_of_arrays
def cov(
    x: Any,
    y: Any = None,
    *,
    rowvar: bool = True,
    ddof: int = 1,
    fweights: Any = None,
    aweights: Any = None,
    accuracy: str | int = "fp64",
    workspace: int | None = None,
) -> Array:
    """Return the covariances of variables, without cancellation: `numpy.cov`, the same bits everywhere.

    Parameters
    ----------
    x : real matrix, of a variable in each row; a vector is one variable.
    y : more variables, of as many observations; likewise, but that one row is always one variable.
    rowvar : False if each column is a variable.
    ddof : the sums of products are divided by n - ddof, for n observations; with weights w = f·a by
        Σw - ddof·Σ(w·a)/Σw.
    fweights, aweights : vectors of how often each observation counts, integers, and how reliable it is; as in
        `ozaki.var`.
    accuracy, workspace : of the product of the deviations from the means, as in `ozaki.gram`.

    Returns
    -------
    (m, m) float64 array C, exactly symmetric. Variances on the diagonal are those of `ozaki.var`, correctly
    rounded. Beside it the error is at most twice that of the accuracy and 16u, with weights 20u, both times
    sqrt(C_ii·C_jj), however large the means are, unless it underflows. NaN for variables with an Inf or NaN.

    Raises
    ------
    TypeError : x is not real; ddof is no number; fweights are no integers. ValueError : x has more than two
        axes; x and y of different numbers of observations; an unknown accuracy; weights that are negative.
        RuntimeError : weights that are no vector of that length, as in NumPy. ZeroDivisionError : weights
        that sum to zero.

    Notes
    -----
    Deviations d_i = x_i - RN(mean) are rounded once; Σ d_i·d_j - Σ d_i·Σ d_j/n corrects for the
    rounding of the means. With c = x - mean and V² = Σ c²: RN(mean) is no farther from the mean than any x_k,
    so that n·(mean - RN(mean))² <= V², and a rounded deviation is off by at most u(1 + 3u)·|c_k|. The
    exact value for the rounded deviations is thus within 2.1u·V_i·V_j; the second term, at most
    (1 + 3u)·V_i·V_j, adds 4.1u for its four roundings, the product 2.1u with ‖d‖² <= 2(1 + 3u)·V² (which
    doubles the error of the accuracy), subtraction and division 3.2u: 11.5u in all. With weights w and w·d
    are rounded, too, and Σw and the divisor: 5u more.

    References
    ----------
    Chan, Golub and LeVeque, Algorithms for computing the sample variance (the corrected two-pass algorithm).

    >>> import numpy as np, ozaki
    >>> x = 1e9 + np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    >>> ozaki.cov(x)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    x = _variables(x, y, rowvar)
    given = _weights(x, fweights, aweights)
    with quietly(x):
        scaled, exponents = _scaled(x)
        covariances = _covariances(scaled, exact_ddof(ddof), accuracy, workspace, **given)
        return unscaled_covariances(covariances, exponents, var(x, axis=1, ddof=ddof, **given))


def unscaled_covariances(covariances: Array, exponents: Array, variances: Array) -> Array:
    """Return the covariances of rows before they were scaled, with these variances on the diagonal."""
    result = namespace(covariances).ldexp(covariances, exponents[:, None] + exponents)
    _put_diagonal(result, variances)
    return one_nan(result)


def _variables(x: Any, y: Any, rowvar: bool) -> Array:
    """Return the variables, those of y after those of x, as the rows of a float64 matrix."""
    given = {"x": as_array(x, "x")} if y is None else {"x": as_array(x, "x"), "y": as_array(y, "y")}
    xp = check_same_device(**given)
    rows = variables_of(given, rowvar, lambda name, z: as_matrix(name, z, np.dtype(np.float64), False))
    return rows[0] if y is None else xp.concatenate(rows)


def variables_of(given: dict[str, Any], rowvar: bool, converted: Callable[[str, Any], Any]) -> list[Any]:
    """Return x, and y if it is given, as converted matrices with a variable in each row."""
    rows = []
    for name, z in given.items():
        if z.ndim not in (1, 2):
            raise ValueError(f"{name} must be a matrix or a vector, got an array of shape {z.shape}")
        as_they_are = rowvar or (name == "y" and len(z) == 1)  # as NumPy has it
        rows.append(converted(name, z[None] if z.ndim == 1 else z if as_they_are else z.T))
    if len({z.shape[1] for z in rows}) > 1:
        shapes = " and ".join(str(z.shape) for z in given.values())
        raise ValueError(f"x and y must have as many observations, got arrays of shapes {shapes}")
    return rows


def _weights(x: Array, fweights: Any, aweights: Any) -> dict[str, Array]:
    """Return the weights of observations that are given, as vectors."""
    given = {"fweights": fweights, "aweights": aweights}
    found = {name: as_array(w, name) for name, w in given.items() if w is not None}
    for name, w in found.items():
        check_shape_of_weights(name, w.shape, x.shape[1])
    return found


def check_shape_of_weights(name: str, shape: tuple[int, ...], n: int) -> None:
    """Raise RuntimeError, as NumPy does, for weights that are no vector of n numbers."""
    if len(shape) > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}, got shape {shape}")
    if shape != (n,):
        raise RuntimeError(f"incompatible numbers of samples and {name}, got {n} and shape {shape}")


def _scaled(x: Array) -> tuple[Array, Array]:
    """Return rows times powers of two, the largest number from 1/2 to 1, and the exponents taken off."""
    xp = namespace(x)
    exponents = exponents_of(abs(x).max(axis=1) if x.size else xp.zeros(len(x)))
    return xp.ldexp(x, -exponents[:, None]), exponents


def exponents_of(largest: Array) -> Array:
    """Return the exponents that bring numbers to 1/2 to 1, and 0 for those that are not finite."""
    xp = namespace(largest)
    return xp.where(xp.isfinite(largest), xp.frexp(largest)[1], 0)


def _covariances(
    x: Array, ddof: Fraction, accuracy: str | int, workspace: int | None, **given: Array
) -> Array:
    if given:
        return _weighted_covariances(x, ddof, accuracy, workspace, **given)
    n = x.shape[1]
    deviations = x - mean(x, axis=1, keepdims=True)
    sums = exact_sum(deviations, axis=1)
    product = gram(deviations.T, accuracy=accuracy, workspace=workspace)
    return corrected(product, sums, n, ddof)


def corrected(product: Array, sums: Array, n: int, ddof: Fraction) -> Array:
    """Return the covariances from rounded deviations: the sums of their products, and their own."""
    return (product - sums[:, None] * sums / n) / np.float64(max(n - ddof, Fraction(0)))


def _weighted_covariances(
    x: Array,
    ddof: Fraction,
    accuracy: str | int,
    workspace: int | None,
    fweights: Array | None = None,
    aweights: Array | None = None,
) -> Array:
    """The same with weights."""
    weights = checked_weights(x[0] if len(x) else x.sum(axis=0), fweights, aweights, (0,))
    weights = scaled_reliabilities(weights, aweights is not None)
    if not all(map(all_finite, weights)):
        return namespace(x).full((len(x), len(x)), np.nan)
    total, below = divisor(weights, aweights is not None, ddof)
    w = prod(weights)
    deviations = x - average(x, axis=1, weights=w, keepdims=True)
    weighted = w * deviations
    sums = exact_sum(weighted, axis=1)
    request = request_of(x, accuracy, "auto", None, "auto", workspace)
    product = multiply(Factor(weighted, 0), Factor(deviations.T, 1), 1.0, None, None, request, None)
    return corrected_with_weights(product, sums, total, below)


def scaled_reliabilities(weights: Weights, reliable: bool) -> Weights:
    """Return weights, of which reliabilities, the last, have a power of two taken off: it cancels.

    Their products with numbers, squares of sums and the like would leave float64's range with them.
    """
    if not reliable or not weights[-1].size:
        return weights
    *frequencies, w = weights
    return (*frequencies, namespace(w).ldexp(w, -exponents_of(w.max())))


def corrected_with_weights(product: Array, sums: Array, total: Fraction, below: Fraction) -> Array:
    """Return the covariances from weighted deviations: below the diagonal, and above it the same numbers."""
    result = (product - sums[:, None] * sums / float(total)) / np.float64(max(below, Fraction(0)))
    lower = namespace(result).tril(result)
    return lower + namespace(result).tril(result, -1).T


@public("Covariances and distances", dask=True)
@on_device_of_arrays
def corrcoef(
    x: Any,
    y: Any = None,
    *,
    rowvar: bool = True,
    fweights: Any = None,
    aweights: Any = None,
    accuracy: str | int = "fp64",
    workspace: int | None = None,
) -> Array:
    """Return the correlation coefficients of variables, without cancellation: `numpy.corrcoef`.

    Parameters
    ----------
    x, y, rowvar, fweights, aweights, accuracy, workspace : as in `ozaki.cov`.

    Returns
    -------
    (m, m) float64 array, exactly symmetric, from -1 to 1 and 1 on the diagonal; the error is at most that of
    the accuracy and 20u, with weights 24u. NaN for variables that are constant, or have an Inf or NaN.

    Raises
    ------
    TypeError, ValueError, ZeroDivisionError : as `ozaki.cov`.

    References
    ----------
    As `ozaki.cov`: Chan, Golub and LeVeque.

    >>> import numpy as np, ozaki
    >>> ozaki.corrcoef(np.array([[1.0, 2.0, 4.0], [-2.0, -4.0, -8.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    x = _variables(x, y, rowvar)
    given = _weights(x, fweights, aweights)
    with quietly(x):
        x, _ = _scaled(x)
        covariances = _covariances(x, Fraction(0), accuracy, workspace, **given)
        return correlations(covariances, var(x, axis=1, **given))


def correlations(covariances: Array, variances: Array) -> Array:
    """Return correlation coefficients from covariances and variances, which are rounded once."""
    xp = namespace(covariances)
    deviation = xp.sqrt(variances)
    lower = xp.minimum(deviation[:, None], deviation)  # in this order for both of a pair
    result = covariances / xp.maximum(deviation[:, None], deviation) / lower
    _put_diagonal(result, deviation / deviation)
    return one_nan(xp.clip(result, -1.0, 1.0))


def _put_diagonal(x: Array, values: Array) -> None:
    indices = namespace(x).arange(len(x))
    x[indices, indices] = values
