"""Elementary functions of Dask arrays, chunk by chunk; the public ones follow from the records of `ozaki`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da

from multiword.runtime.arrays import as_array
from ozaki import elementary
from ozaki.dask.arguments import checked_chunks
from ozaki.dask.tasks import public_form
from ozaki.public import PUBLIC, Record, is_dask

_IN_MEMORY = ("out", "where")
"""What only functions of arrays in memory take."""


_DIFFERENCE = """

    As `ozaki.{0}`; differs in being lazy: it has the bits of that function on the whole array.

    Parameters
    ----------
    {1} : in chunks of NumPy or CuPy arrays{2}.

    >>> import dask.array as da, numpy as np, ozaki
    >>> x = np.array([0.25, 0.5])
    >>> lazy = da.from_array(x, chunks=1)
    >>> np.array_equal(ozaki.{0}({3}).compute(), ozaki.{0}({4}), equal_nan=True)
    True
    """


def _difference(record: Record) -> str:
    names = record.arrays
    more = "; arrays and numbers beside one, too" if len(names) > 1 else ""
    lazy, whole = (", ".join([x] * len(names)) for x in ("lazy", "x"))
    return _DIFFERENCE.format(record.name, ", ".join(names), more, lazy, whole)


def _operand(x: Any, name: str) -> Any:
    """Return a Dask array with its chunks checked, or a number; a NumPy array is one chunk."""
    if isinstance(x, int | float):
        return x
    return checked_chunks(x if is_dask(x) else da.from_array(as_array(x, name), chunks=-1), name)


def _on_dask(record: Record) -> Callable[..., da.Array]:
    parameters = [p for name, p in record.parameters.items() if name not in _IN_MEMORY]
    signature = inspect.Signature(parameters, return_annotation=da.Array)

    def compute(**given: Any) -> da.Array:
        operands = [_operand(given.pop(name), name) for name in record.arrays]
        function = partial(record.value, **given)
        meta = function(*[getattr(x, "_meta", x) for x in operands])
        if len(operands) == 1:
            return da.map_blocks(
                function, *operands, dtype=meta.dtype, meta=meta, token=f"ozaki-{record.name}"
            )
        return da.core.elemwise(function, *operands, dtype=meta.dtype)  # chunks are aligned, and broadcast

    return public_form(compute, record, signature, "for each number of a Dask array", _difference(record))


ELEMENTARY = {name: _on_dask(PUBLIC[name]) for name in elementary.ALL}
"""The elementary functions, by name."""
