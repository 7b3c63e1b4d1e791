"""Elementary functions of Dask arrays, chunk by chunk; the public ones follow from the records of `ozaki`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da

from ozaki import elementary
from ozaki.dask.arguments import checked_chunks
from ozaki.public import PUBLIC, Record

_IN_MEMORY = ("out", "where")
"""What only functions of arrays in memory take."""


_DIFFERENCE = """

    As `ozaki.{0}`; differs in being lazy: it has the bits of that function on the whole array.

    Parameters
    ----------
    x : in chunks of NumPy or CuPy arrays.

    >>> import dask.array as da, numpy as np, ozaki
    >>> x = np.array([0.25, 0.5])
    >>> np.array_equal(ozaki.{0}(da.from_array(x, chunks=1)).compute(), ozaki.{0}(x), equal_nan=True)
    True
    """


def _on_dask(record: Record) -> Callable[..., da.Array]:
    parameters = [p for name, p in record.parameters.items() if name not in _IN_MEMORY]
    signature = inspect.Signature(parameters, return_annotation=da.Array)

    def lazy(*arguments: Any, **options: Any) -> da.Array:
        given = dict(signature.bind(*arguments, **options).arguments)
        x = checked_chunks(given.pop("x"), "x")
        function = partial(record.value, **given)
        meta = function(x._meta)
        return da.map_blocks(function, x, dtype=meta.dtype, meta=meta, token=f"ozaki-{record.name}")

    lazy.__name__, lazy.__qualname__, lazy.__module__ = record.name, record.name, "ozaki.dask"
    summary = str(inspect.getdoc(record.value)).partition(", correctly rounded")[0]
    lazy.__doc__ = f"{summary} for each number of a Dask array, lazily." + _DIFFERENCE.format(record.name)
    lazy.__signature__ = signature  # type: ignore[attr-defined]
    return lazy


ELEMENTARY = {name: _on_dask(PUBLIC[name]) for name in elementary.NAMES if PUBLIC[name].dask}
"""The elementary functions of one array, by name."""
