"""Covariance matrices of groups: exact sums of numbers and of their products, rounded once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, namespace, on_device_of_arrays, on_host, where_lies
from ozaki.public import public
from ozaki.sums.arguments import DType, numbers
from ozaki.sums.exact.fixed_point import FixedPoint
from ozaki.sums.exact.groups import check_labels, group_sums
from ozaki.sums.exact.summands import Summands
from ozaki.sums.groups import columns_of, labelled, rounded_at_once, used_groups
from ozaki.sums.table import COVARIANCE, filled
from ozaki.sums.variance import exact_ddof
from ozaki.tuning import GROUPS_PER_NUMBER, OUTPUTS_ON_HOST


@public("Sums by group", dask=True)
@on_device_of_arrays
def group_cov(
    values: Array,
    labels: Array,
    num_groups: int,
    dtype: DType = None,
    ddof: float = 1,
    *,
    rowvar: bool = True,
) -> Any:
    """Return the covariance matrix of each group, correctly rounded: `numpy.cov` of its observations.

    As `ozaki.group_var`; differs in having a result for each pair of variables, and in dividing by n − 1
    by default.

    Parameters
    ----------
    values : real matrix, of a variable in each row; a vector is one variable.
    labels : (n,) integers from 0 to num_groups − 1, in any order: the groups of the n observations.
    num_groups, dtype, ddof : as in `group_var`.
    rowvar : False if each column is a variable, as in a table.

    Returns
    -------
    (num_groups, k, k) array of k variables: (n·Σxy − Σx·Σy)/(n·(n − ddof)) of a group's n observations,
    rounded to nearest, ties to even. Exactly symmetric, with `group_var` on the diagonal. NaN for pairs with
    an Inf or NaN in the group, and for an empty group. Where n ≤ ddof an Inf of the covariance's sign, or NaN
    if that is 0.

    Raises
    ------
    TypeError : values are complex or not numeric; labels are no integers. ValueError : values of more than
        two axes; labels outside of 0 to num_groups − 1, or not as many as observations.

    References
    ----------
    Chan, Golub and LeVeque, Algorithms for computing the sample variance (the formula, which only rounding
    makes a bad one).

    >>> x = 1e9 + np.array([[0.0, 1.0, 2.0, 7.0], [2.0, 1.0, 0.0, 7.0]])
    >>> group_cov(x, np.array([0, 0, 0, 1]), 2)
    array([[[ 1., -1.],
            [-1.,  1.]],
           [[nan, nan],
            [nan, nan]]])
    """
    x, index, (k, groups) = labelled(variables(numbers(values, "values"), rowvar), labels, num_groups)
    exact, target = exact_ddof(ddof), COVARIANCE.dtype((x,), dtype)
    if groups <= GROUPS_PER_NUMBER * index.size:
        return _matrices(x, index, groups, target, exact)
    check_labels(index, groups)
    used, renumbered = used_groups(index, groups)  # the others take no memory but their results'
    result = filled(x, (groups, k, k), np.nan, target)
    result[used] = _matrices(x, renumbered, len(used), target, exact)
    return result


def _matrices(x: Array, index: Array, groups: int, target: np.dtype, ddof: Fraction) -> Array:
    """The matrices, a row of all at a time: of every pair at once there would be k copies of the numbers."""
    k, xp = len(x), namespace(x)
    result, known = xp.empty((groups, k, k), target), list[tuple[Array, FixedPoint]]()
    if k > 1:  # else the sums see whether columns are there
        check_labels(index, groups)

    def of_sums(i: int, pairs: tuple[Array, Array], columns: Array) -> Array:
        """Row i from exact sums, Σx, Σy and Σxy."""
        if not known:
            sums = group_sums([Summands((x.reshape(-1),))], columns_of(index, k, groups), k * groups)
            known.append((xp.bincount(index, minlength=groups), sums))
        counts, sums = known[0]
        n, first = (xp.tile(y, k - i) for y in (counts, xp.arange(i * groups, (i + 1) * groups)))
        parts = [sums.columns(chosen) for chosen in (first, slice(i * groups, None))]
        parts.append(group_sums([Summands(pairs)], columns, first.size))
        if n.size <= OUTPUTS_ON_HOST:
            n, parts = on_host(n), [part.on_host() for part in parts]
        return where_lies(x, COVARIANCE.rounded([[part] for part in parts], n, target, ddof=ddof))

    for i in range(k):
        columns, last = columns_of(index, k - i, groups), x[i:].reshape(-1)
        pairs = (last, last) if i == k - 1 else (xp.broadcast_to(x[i], x[i:].shape).reshape(-1), last)
        row = rounded_at_once(COVARIANCE, pairs, columns, (k - i) * groups, target, ddof=ddof)
        row = of_sums(i, pairs, columns) if row is None else row
        result[:, i, i:] = row.reshape(k - i, groups).T
        result[:, i + 1 :, i] = result[:, i, i + 1 :]
    return result


def variables(x: Any, rowvar: bool) -> Any:
    """Return real variables as the rows of a matrix, NumPy's, CuPy's or Dask's.

    TypeError for complex ones, ValueError for more axes than two.
    """
    if x.ndim not in (1, 2):
        raise ValueError(f"values must be a matrix or a vector, got an array of shape {x.shape}")
    if x.dtype.kind == "c":
        raise TypeError(f"values must be real, got {x.dtype}; take the real and the imaginary part")
    return x[None] if x.ndim == 1 else x if rowvar else x.T
