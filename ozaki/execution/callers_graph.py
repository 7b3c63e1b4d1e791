"""Products in a CUDA graph that the caller captures: kernel by kernel, in memory of that graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from multiword.engines.cublas import Cublas, prepare_spare_handle, spare_handle
from multiword.runtime.arrays import import_cupy, is_cupy
from multiword.runtime.graphs import capturing, retaining
from ozaki.execution.repeated import product_again
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
        x = matrix_of(a)
        if not is_cupy(x):
            return multiply(a, b, **options)
        if not capturing():
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


_retained: dict[int, Any] = {}
"""What callers' graphs use of caches, by id, for good: the end of such a graph is not announced."""


def _retain(x: Any) -> None:
    _retained[id(x)] = x


def _captured(multiply: Callable[..., Any], x: Any, y: Any, options: dict[str, Any]) -> Any:
    cupy = import_cupy()
    # What is allocated and freed in this way during a capture becomes nodes of the graph.
    with cupy.cuda.using_allocator(cupy.cuda.malloc_async), spare_handle(), retaining.within(_retain):
        result = multiply(x, y, **options)
    if options.get("out") is not None:
        return result
    mine, result = result, cupy.empty(result.shape, result.dtype)
    result[...] = mine
    return result
