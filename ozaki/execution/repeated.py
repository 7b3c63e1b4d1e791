"""Products that come again with arrays of the same layout: their arguments are not checked again.

Which executor, or captured product, a call takes depends on the arrays' layout and on its accuracy alone. So
a first call notes that, and later ones ask for it at once: checks and choices take Python longer than small
products take. Whatever is unusual about the data goes the usual way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy, overlap
from multiword.runtime.compiled import compiling
from multiword.runtime.floats import is_default
from multiword.runtime.memory import delivered, result_in
from ozaki.arguments import in_numpy_shape
from ozaki.execution import cache
from ozaki.execution.contract import Done
from ozaki.execution.executors import finished, noted, run_again
from ozaki.execution.graph import Graph
from ozaki.execution.step_by_step import new_result
from ozaki.product.factor import Factor
from ozaki.product.operand import Operand, matrix_of
from ozaki.product.order import exclusive_use
from ozaki.product.pair import Pair, Signature
from ozaki.product.request import forced
from ozaki.tuning import LAYOUTS_KNOWN

_known: dict[tuple[Any, ...], cache.Question] = {}
"""By layout of the arrays: the question that such a call puts to the cache. A question holds no memory."""

_signatures: dict[tuple[Any, ...], Signature] = {}
"""By layout of NumPy's arrays: the signature of such a product."""


class _NotGiven:
    """In place of an accuracy: None is one to some functions, and an error to others."""


_NOT_GIVEN, _NAMED = _NotGiven(), (str, NoneType, _NotGiven)


def product_of_numpy(multiply: Callable[..., Any], a: np.ndarray, b: np.ndarray, options: Any) -> Any:
    """Return multiply(a, b, **options), of two arrays of NumPy's.

    Only calls of matrices and vectors, with an accuracy at most, are known. To executors on a CPU shapes and
    dtypes are all of a layout: they take numbers wherever these lie.
    """
    of_a, of_b, accuracy = a.shape, b.shape, options.get("accuracy", _NOT_GIVEN)
    if not options.keys() <= {"accuracy"} or not isinstance(accuracy, _NAMED):
        return multiply(a, b, **options)
    layout = multiply.__name__, accuracy, of_a, of_b, a.dtype, b.dtype, compiling()
    known = _signatures.get(layout)
    if known is not None and is_default() and forced.value is None:
        rows = a if len(of_a) == 2 else a[None]
        columns = b if len(of_b) == 2 else b[:, None]
        pair = Pair.of(Factor(rows, 0), Factor(columns, 1), known.request)
        if not pair.symmetric:
            result = new_result(pair)
            run_again(pair, known, result)
            return result if len(of_a) == len(of_b) == 2 else in_numpy_shape(result, a, b, None)
    pairs: list[Pair] = []
    with noted.within(pairs):
        result = multiply(a, b, **options)
    if len(pairs) == 1 and _is_all(pairs[0], a, b):
        if len(_signatures) >= LAYOUTS_KNOWN:
            _signatures.clear()
        _signatures[layout] = pairs[0].signature
    return result


def _is_all(pair: Pair, a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether a product of two matrices or vectors is that of a pair, of their own memory."""
    if not 0 < a.ndim < 3 > b.ndim > 0 or pair.symmetric or pair.request.executor is not None:
        return False
    return all(
        (x.dtype, x.size, x.ctypes.data) == (y.dtype, y.size, y.ctypes.data)
        for x, y in ((a, pair.a.matrix), (b, pair.b.matrix))
    )


def product_again(multiply: Callable[..., Array], a: Any, b: Any, options: dict[str, Any]) -> Array:
    """Return multiply(a, b, **options), of two arrays, or operands, of which one is a CuPy array."""
    x, y = matrix_of(a), matrix_of(b)
    layout = _layout(multiply.__name__, x, y, options)
    if layout is None:
        return multiply(a, b, **options)
    if isinstance(a, Operand) or isinstance(b, Operand):
        layout = *layout, *((id(z.factor), z.side) for z in (a, b) if isinstance(z, Operand))
    question = _known.get(layout)
    if question is not None and (result := _answered(question, a, b, options.get("out"))) is not None:
        return result
    questions: list[cache.Question] = []
    with cache.questions.within(questions):
        result = multiply(a, b, **options)
    if len(questions) == 1 and questions[0].is_about(x, y):
        if len(_known) >= LAYOUTS_KNOWN:
            _known.clear()
        _known[layout] = questions[0]
    return result


def _layout(name: str, a: Any, b: Any, options: dict[str, Any]) -> tuple[Any, ...] | None:
    """Return all that the captured product of such a call depends on; None if it may be more than this."""
    cupy = import_cupy()
    if not type(a) is type(b) is cupy.ndarray or not (a.size and b.size) or overlap(a, b):
        return None
    if forced.value is not None:
        return None
    accuracy = options.get("accuracy", _NOT_GIVEN)
    usual = options.keys() <= {"accuracy", "out", "request"} and isinstance(accuracy, _NAMED)
    if not usual:
        return None
    x, y, device = a.data, b.data, cupy.cuda.runtime.getDevice()
    if not device == x.device_id == y.device_id:
        return None
    of_a, of_b = (a.dtype, a.shape, a.strides, x.ptr % 16), (b.dtype, b.shape, b.strides, y.ptr % 16)
    return name, accuracy, options.get("request"), (threading.get_ident(), device), of_a, of_b


def _answered(question: cache.Question, a: Any, b: Any, out: Array | None) -> Array | None:
    """Return the replayed product, in `out` if it is given; None if it has no graph, or is not all that the
    data take, or if `out` does not fit."""
    captured = cache.captured_before(question)
    if captured is None:
        return None
    left = a.factor if isinstance(a, Operand) else Factor(a, 0, stack=question.stack)
    right = b.factor if isinstance(b, Operand) else Factor(b, 1, stack=question.stack)
    if not (out is None or _fits(out, left, right)):
        return None
    pair = Pair(left, right, question.request)
    try:
        with exclusive_use(left.order, right.order), result_in(out, left.matrix, right.matrix):
            result = new_result(pair)
            rows = result if result.ndim == 2 else result.reshape(-1, result.shape[-1])
            outcome = captured.run(pair, rows)
            done = isinstance(outcome, Done) or finished(outcome, pair, result, (Graph,))
    except MemoryError:  # the usual way gives memory back
        return None
    return delivered(result, out) if done else None


def _fits(out: Any, a: Factor, b: Factor) -> bool:
    """Return whether a single product may be written there, without a look at where its numbers lie."""
    wanted = a.matrix.dtype, (a.rows, b.rows), a.matrix.data.device_id
    of_arrays = type(out) is type(a.matrix) and bool(out.flags.c_contiguous)
    return of_arrays and (out.dtype, out.shape, out.data.device_id) == wanted
