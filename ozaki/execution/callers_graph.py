"""Products in a CUDA graph that the caller captures: kernel by kernel, in memory of that graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from multiword.engines.cublas import Cublas, prepare_spare_handle, spare_handle
from multiword.runtime.arrays import import_cupy, is_cupy
from multiword.runtime.graphs import EndOfGraph, capturing, retaining
from multiword.runtime.libcuda import CudaError
from ozaki.execution.repeated import product_again, product_of_numpy
from ozaki.product.operand import matrix_of
from ozaki.product.request import NORMWISE

F = TypeVar("F", bound=Callable[..., Any])


def capturable(multiply: F) -> F:
    """Make a product that only queues work take part in a CUDA graph that the caller captures.

    Temporary arrays are allocated and freed by nodes of the graph. The result is not: like `out`, it is the
    caller's, for as long as the graph is launched. The words and scales
    of a prepared operand are not used, because it may free them: every launch computes them anew.
    """

    @wraps(multiply)
    def product(a: Any, b: Any, **options: Any) -> Any:
        if type(a) is type(b) is np.ndarray:
            return product_of_numpy(multiply, a, b, options)
        x = matrix_of(a)
        if not is_cupy(x):
            return multiply(a, b, **options)
        if not capturing():
            _ended.clear()
            if options.get("accuracy") == NORMWISE and isinstance(options.get("engine", ""), str | Cublas):
                prepare_spare_handle(x.data.device_id)
            return product_again(multiply, a, b, options)
        if options.get("accuracy") != NORMWISE:
            raise ValueError(
                f"in a CUDA graph of your own accuracy must be {NORMWISE!r}, got "
                f"{options.get('accuracy', 'the default')!r}, which reads back what the data ask for"
            )
        with x.device:
            return _captured(multiply, x, matrix_of(b), options)

    return cast(F, product)


class _Used(NamedTuple):
    """What a product in a caller's graph uses of caches, by id, and the end of the graph."""

    objects: dict[int, Any]
    end: EndOfGraph | None  # None where the driver does not announce it: then they are kept for good


_retained: dict[int, _Used] = {}
"""What callers' graphs use, by the id of the objects' table."""

_ended: list[_Used] = []
"""What ended graphs have used, until a call outside of captures: giving up a cuBLAS handle would end one."""


def _retain() -> Callable[[Any], None]:
    """Return what retains objects for the graph that is being captured; find the graphs that have ended."""
    for key, used in list(_retained.items()):
        if used.end is not None and used.end.has_come():
            _ended.append(_retained.pop(key))
    try:
        end = EndOfGraph()
    except CudaError:
        end = None
    objects: dict[int, Any] = {}
    _retained[id(objects)] = _Used(objects, end)
    return lambda x: objects.__setitem__(id(x), x)


def _captured(multiply: Callable[..., Any], x: Any, y: Any, options: dict[str, Any]) -> Any:
    cupy = import_cupy()
    # What is allocated and freed in this way during a capture becomes nodes of the graph.
    with cupy.cuda.using_allocator(cupy.cuda.malloc_async), spare_handle(), retaining.within(_retain()):
        result = multiply(x, y, **options)
    if options.get("out") is not None:
        return result
    mine, result = result, cupy.empty(result.shape, result.dtype)
    result[...] = mine
    return result
