"""Covariances and correlations of Dask arrays: means, deviations and their product, each lazy.

The steps are those of `ozaki.symmetric`. One task has their results for all variables, and the product.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array

from multiword.runtime.arrays import Array, namespace, quietly
from multiword.runtime.options import exactly
from ozaki.dask.arguments import as_chunk, known_chunks, like_arrays, without_empty_chunks
from ozaki.dask.products import matmul
from ozaki.dask.reductions import LAZY as REDUCTIONS
from ozaki.dask.tasks import public_form, task
from ozaki.public import PUBLIC, Record
from ozaki.sums.variance import exact_ddof
from ozaki.symmetric import corrected, correlations, exponents_of, unscaled_covariances

_IN_MEMORY = ("fweights", "aweights")
"""What functions take of arrays in memory alone."""

_DIFFERENCE = """

    As `ozaki.{name}`; differs in being lazy: it has the bits of that function on the whole arrays.

    Parameters
    ----------
    x, y : in chunks of NumPy or CuPy arrays, of sizes that are known.
    {options} : as in `ozaki.{name}`.

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
    parameters = [p for name, p in record.parameters.items() if name not in _IN_MEMORY]
    signature = inspect.Signature(parameters, return_annotation="da.Array")

    def lazy(*arguments: Any, **options: Any) -> da.Array:
        given = signature.bind(*arguments, **options)
        given.apply_defaults()
        return _of_variables(record.name, **given.arguments)

    options = ", ".join(p.name for p in parameters if p.name not in ("x", "y"))
    return public_form(
        lazy, record, signature, "of Dask arrays", _DIFFERENCE.format(name=record.name, options=options)
    )


def _of_variables(
    name: str, x: Any, y: Any, rowvar: bool, accuracy: str | int, workspace: int | None, ddof: float = 0
) -> da.Array:
    """The lazy matrix of all pairs of variables."""
    x, exact = _variables(x, y, rowvar), exact_ddof(ddof)
    scaled, exponents = _scaled(x)
    means = REDUCTIONS["mean"](scaled, axis=1, keepdims=True)
    deviations = da.map_blocks(_less, scaled, means, dtype=x.dtype, meta=x._meta)
    product = matmul(deviations, deviations.T, accuracy=accuracy, workspace=workspace)
    spread = x if name == "cov" else scaled
    variances = REDUCTIONS["var"](spread, axis=1, ddof=ddof)
    of_all = REDUCTIONS["sum"](deviations, axis=1), exponents, variances
    finish = partial(_finished, name=name, n=x.shape[1], ddof=exact)
    result = da.blockwise(
        task(f"ozaki.dask.{name}", finish),
        "ij",
        *(product.rechunk(-1), "ij"),
        *(part for y in of_all for part in (y.rechunk(-1), "i")),
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
    rows = []
    for name, z in given.items():
        if z.ndim not in (1, 2):
            raise ValueError(f"{name} must be a matrix or a vector, got an array of shape {z.shape}")
        if z.dtype.kind == "c":
            raise TypeError(f"{name} must be real for a result of float64, got dtype {z.dtype}")
        convert = partial(_converted, name=name, declared=z.dtype)
        meta = meta_from_array(z._meta, dtype=np.float64)
        z = da.map_blocks(convert, z, dtype=np.float64, meta=meta)
        as_they_are = rowvar or (name == "y" and len(z) == 1)  # as NumPy has it
        rows.append(z[None] if z.ndim == 1 else z if as_they_are else z.T)
    if len({z.shape[1] for z in rows}) > 1:
        shapes = " and ".join(str(z.shape) for z in given.values())
        raise ValueError(f"x and y must have as many observations, got arrays of shapes {shapes}")
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


def _less(x: Array, means: Array) -> Array:
    with quietly(x):
        return x - means


def _finished(
    product: Array, sums: Array, exponents: Array, variances: Array, *, name: str, n: int, ddof: Fraction
) -> Array:
    """The matrix of all pairs."""
    with quietly(product):
        covariances = corrected(product, sums, n, ddof)
        if name == "corrcoef":
            return correlations(covariances, variances)
        return unscaled_covariances(covariances, exponents, variances)


LAZY = {name: _on_dask(PUBLIC[name]) for name in ("cov", "corrcoef")}
"""Matrices of all pairs of variables, by name."""
