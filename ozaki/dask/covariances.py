"""Covariances and correlations of Dask arrays: means, deviations and their product, each lazy.

The steps are those of `ozaki.covariances`. One task has their results for all variables, and the product.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, as_array, namespace, quietly
from multiword.runtime.options import exactly
from multiword.runtime.readback import all_finite
from ozaki.covariances import (
    check_shape_of_weights,
    corrected,
    corrected_with_weights,
    correlations,
    exponents_of,
    scaled_reliabilities,
    unscaled_covariances,
    variables_of,
)
from ozaki.dask.arguments import as_chunk, known_chunks, like_arrays, without_empty_chunks
from ozaki.dask.products import matmul
from ozaki.dask.reductions import LAZY as REDUCTIONS
from ozaki.dask.tasks import public_form, task
from ozaki.public import PUBLIC, Record
from ozaki.sums.statistics import var
from ozaki.sums.variance import exact_ddof
from ozaki.sums.weighted import checked_weights, divisor

_DIFFERENCE = """

    As `ozaki.{name}`; differs in being lazy: it has the bits of that function on the whole arrays.

    Parameters
    ----------
    x, y : in chunks of NumPy or CuPy arrays, of sizes that are known.
    {options} : as in `ozaki.{name}`. With weights, a task takes all
        observations of some variables.

    Raises
    ------
    TypeError, ValueError, MemoryError : as `ozaki.{name}`, in a task where the numbers decide; chunks of
        unknown sizes.

    >>> import dask.array as da, numpy as np, ozaki
    >>> x = np.array([[1.0, 2.0, 4.0], [2.0, 1.0, 0.0]])
    >>> np.array_equal(ozaki.{name}(da.from_array(x, chunks=1)).compute(), ozaki.{name}(x))
    True
    """


def _on_dask(record: Record) -> Callable[..., da.Array]:
    """Return a function of `ozaki` for Dask arrays, with its signature and documentation."""
    parameters = list(record.parameters.values())
    signature = inspect.Signature(parameters, return_annotation="da.Array")

    options = ", ".join(p.name for p in parameters if p.name not in ("x", "y"))
    differs = _DIFFERENCE.format(name=record.name, options=options)
    return public_form(partial(_of_variables, record.name), record, signature, "of Dask arrays", differs)


def _of_variables(
    name: str,
    x: Any,
    y: Any,
    rowvar: bool,
    fweights: Any,
    aweights: Any,
    accuracy: str | int,
    workspace: int | None,
    ddof: float = 0,
) -> da.Array:
    """The lazy matrix of all pairs of variables."""
    x, exact = _variables(x, y, rowvar), exact_ddof(ddof)
    weights = _weights(x, fweights, aweights)
    scaled, exponents = _scaled(x)
    spread = x if name == "cov" else scaled
    if weights:
        deviations, weighted, variances = _with_weights(scaled, spread, weights, ddof)
    else:
        means = REDUCTIONS["mean"](scaled, axis=1, keepdims=True)
        deviations = weighted = da.map_blocks(_less, scaled, means, dtype=x.dtype, meta=x._meta)
        variances = REDUCTIONS["var"](spread, axis=1, ddof=ddof)
    product = matmul(weighted, deviations.T, accuracy=accuracy, workspace=workspace)
    of_all = REDUCTIONS["sum"](weighted, axis=1), exponents, variances
    finish = partial(_finished, name=name, n=x.shape[1], ddof=exact, weights=tuple(weights))
    result = da.blockwise(
        task(f"ozaki.dask.{name}", finish),
        "ij",
        *(product.rechunk(-1), "ij"),
        *(part for y in of_all for part in (y.rechunk(-1), "i")),
        *(part for w in weights.values() for part in (w, "k")),
        concatenate=True,
        align_arrays=False,
        dtype=np.dtype(np.float64),
        meta=product._meta,
        token=f"ozaki-{name}",
    )
    return result.rechunk(product.chunks)


def _variables(x: Any, y: Any, rowvar: bool) -> da.Array:
    """Return the variables, those of y after those of x, as the rows of a float64 matrix."""
    given = {"x": known_chunks(x, "x")} | ({} if y is None else {"y": known_chunks(y, "y")})
    like_arrays(**given)

    def converted(name: str, z: da.Array) -> da.Array:
        if z.dtype.kind == "c":
            raise TypeError(f"{name} must be real for a result of float64, got dtype {z.dtype}")
        convert = partial(_converted, name=name, declared=z.dtype)
        return da.map_blocks(convert, z, dtype=np.float64, meta=meta_from_array(z._meta, dtype=np.float64))

    rows = variables_of(given, rowvar, converted)
    return without_empty_chunks(da.concatenate(rows, axis=0, allow_unknown_chunksizes=False))


def _converted(x: Array, name: str, declared: np.dtype) -> Array:
    return exactly(name, as_chunk(x, name, declared), np.float64)


def _scaled(x: da.Array) -> tuple[da.Array, da.Array]:
    """Return rows times powers of two, the largest number from 1/2 to 1, and the exponents taken off."""
    largest = abs(x).max(axis=1) if x.size else abs(x).sum(axis=1)
    exponents = da.map_blocks(exponents_of, largest, dtype=np.dtype(np.int64))
    shifted = da.map_blocks(_shifted, x, exponents[:, None], dtype=x.dtype, meta=x._meta)
    return shifted, exponents


def _shifted(x: Array, exponents: Array) -> Array:
    with quietly(x):
        return namespace(x).ldexp(x, -exponents)


def _weights(x: da.Array, fweights: Any, aweights: Any) -> dict[str, da.Array]:
    """Return the weights of observations that are given, as vectors of one chunk."""
    given = {"fweights": fweights, "aweights": aweights}
    found = {}
    for name, w in given.items():
        if w is not None:
            w = known_chunks(w if isinstance(w, da.Array) else da.from_array(as_array(w, name)), name)
            check_shape_of_weights(name, w.shape, x.shape[1])
            found[name] = w.rechunk(-1)
    like_arrays(x=x, **found)
    return found


def _with_weights(
    scaled: da.Array, spread: da.Array, weights: dict[str, da.Array], ddof: float
) -> tuple[da.Array, da.Array, da.Array]:
    """Return the deviations from weighted means, these times weights, and weighted variances."""
    names = tuple(weights)
    meta = meta_from_array(scaled._meta, ndim=1)
    together = da.map_blocks(_product_of_weights, *weights.values(), names=names, dtype=meta.dtype, meta=meta)
    together = together.rechunk(scaled.chunks[1:])
    means = REDUCTIONS["average"](scaled, axis=1, weights=together, keepdims=True)
    deviations = da.map_blocks(_less, scaled, means, dtype=scaled.dtype, meta=scaled._meta)
    weighted = da.map_blocks(_times, deviations, together[None], dtype=scaled.dtype, meta=scaled._meta)
    variances = da.blockwise(
        task("ozaki.dask.var", partial(_weighted_variances, names=names, ddof=ddof)),
        "i",
        *(spread.rechunk({0: "auto", 1: -1}), "ik"),
        *(part for w in weights.values() for part in (w, "k")),
        concatenate=True,
        dtype=meta.dtype,
        meta=meta,
    )
    return deviations, weighted, variances


def _product_of_weights(*weights: Array, names: tuple[str, ...]) -> Array:
    return prod(_checked(weights, names))


def _checked(weights: tuple[Array, ...], names: tuple[str, ...]) -> tuple[Array, ...]:
    given = dict.fromkeys(("fweights", "aweights")) | dict(zip(names, weights, strict=True))
    checked = checked_weights(weights[0], given["fweights"], given["aweights"], (0,))
    return scaled_reliabilities(checked, "aweights" in names)


def _weighted_variances(x: Array, *weights: Array, names: tuple[str, ...], ddof: float) -> Array:
    return var(x, axis=1, ddof=ddof, **dict(zip(names, weights, strict=True)))


def _times(x: Array, weights: Array) -> Array:
    with quietly(x):
        return weights * x


def _less(x: Array, means: Array) -> Array:
    with quietly(x):
        return x - means


def _finished(
    product: Array,
    sums: Array,
    exponents: Array,
    variances: Array,
    *given: Array,
    name: str,
    n: int,
    ddof: Fraction,
    weights: tuple[str, ...],
) -> Array:
    """The matrix of all pairs."""
    with quietly(product):
        if not weights:
            covariances = corrected(product, sums, n, ddof)
        elif all(map(all_finite, given)):
            total, below = divisor(_checked(given, weights), "aweights" in weights, ddof)
            covariances = corrected_with_weights(product, sums, total, below)
        else:
            covariances = namespace(product).full_like(product, np.nan)
        if name == "corrcoef":
            return correlations(covariances, variances)
        return unscaled_covariances(covariances, exponents, variances)


LAZY = {name: _on_dask(PUBLIC[name]) for name in ("cov", "corrcoef")}
"""Matrices of all pairs of variables, by name."""
