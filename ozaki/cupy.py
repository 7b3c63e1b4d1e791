"""CuPy: a mode in which the products of programs that know nothing of this library are computed by it.

`with ozaki.cupy.emulated() as calls:` replaces `@`, `matmul`, `dot`, `tensordot`, `einsum`, `inner`, `vdot`
of CuPy's arrays, and what calls them, on the thread or task that enters it. `calls` lists what was replaced.
Needs the extra `cuda12` or `cuda13`.
"""

from __future__ import annotations

import math
import operator
import os
import runpy
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.install import missing

try:
    import cupy
except ImportError as error:
    raise missing("ozaki.cupy needs CuPy", "cuda13") from error

from ozaki import api
from ozaki.arguments import check_accuracy
from ozaki.modes import Modes, Shared, innermost
from ozaki.product.request import NORMWISE
from ozaki.tuning import PENDING_TIMES

__all__ = ["Call", "emulated", "run"]


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)


DTYPES = ("float32", "float64", "complex64", "complex128")

Shape = tuple[int, ...]


@dataclass(eq=False)
class Call:
    """What one function of CuPy was called with, and how often.

    Attributes
    ----------
    function : "matmul", "dot" or "tensordot"; `einsum` calls the first, `inner` and `vdot` the last.
    shapes : of the two factors that were multiplied.
    dtype : of the result.
    products : how many matrices were multiplied by others, those of stacks included.

    >>> Call("dot", ((2, 3), (3, 1)), "float64", products=5)
    Call(function='dot', shapes=((2, 3), (3, 1)), dtype='float64', products=5)
    """

    function: str
    shapes: tuple[Shape, Shape]
    dtype: str
    products: int = 0
    _seconds: float = field(default=0.0, repr=False)
    _pending: list[tuple[Any, Any]] = field(default_factory=list, repr=False)

    @property
    def seconds(self) -> float:
        """Time on the GPU of these calls, in seconds; waits for those still running."""
        self._collect(wait=True)
        return self._seconds

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add to `seconds` what the GPU takes for the block, unless a graph is being captured."""
        if cupy.cuda.get_current_stream().is_capturing():
            yield
            return
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        yield
        stop.record()
        self._pending.append((start, stop))
        if len(self._pending) > PENDING_TIMES:
            self._collect(wait=False)

    def _collect(self, wait: bool) -> None:
        pending, self._pending = self._pending, []
        for start, stop in pending:
            if wait:
                stop.synchronize()
            if stop.done:
                self._seconds += cupy.cuda.get_elapsed_time(start, stop) / 1000
            else:
                self._pending.append((start, stop))


class Calls(list[Call]):
    """The calls of a block that were replaced: one entry for each function, pair of shapes and dtype.

    >>> print(Calls())
    function  shapes  dtype  products  seconds
    """

    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[tuple[str, tuple[Shape, Shape], str], Call] = {}
        self._lock = threading.Lock()

    def record(self, function: str, shapes: tuple[Shape, Shape], dtype: str, products: int) -> Call:
        """Return the entry of such calls, with these products added to it."""
        key = (function, shapes, dtype)
        with self._lock:
            if key not in self._entries:
                self.append(self._entries.setdefault(key, Call(*key)))
            self._entries[key].products += products
        return self._entries[key]

    def __str__(self) -> str:
        rows = [("function", "shapes", "dtype", "products", "seconds")]
        for call in self:
            shapes = " ".join("x".join(map(str, shape)) for shape in call.shapes)
            rows.append((call.function, shapes, call.dtype, str(call.products), f"{call.seconds:.6f}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        cells = ([text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows)
        return "\n".join("  ".join(row).rstrip() for row in cells)


@dataclass(eq=False)
class Emulation:
    """The settings of one `emulated` block, and its calls."""

    accuracy: str | int
    minimum: int
    dtypes: frozenset[str]
    calls: Calls = field(default_factory=Calls)
    is_open: bool = True


_modes: Modes[Emulation] = Modes("ozaki.cupy")


@contextmanager
def emulated(
    accuracy: str | int = NORMWISE,
    minimum: int = 0,
    dtypes: Any = ("float64", "complex128"),
) -> Iterator[Calls]:
    """Compute the matrix products that CuPy is asked for within the context by `ozaki.matmul`.

    Parameters
    ----------
    accuracy : of the products, as in `ozaki.matmul`.
    minimum : multiplications m·n·k in a product of matrices below which CuPy computes it itself; 0 takes
        all, which is needed for the same bits on every GPU.
    dtypes : those of results that are replaced, one or several of float32, float64, complex64, complex128.

    Returns
    -------
    A context; entered, it is a list of what was replaced: function, shapes, products, seconds.

    Raises
    ------
    TypeError, ValueError : unknown accuracy or dtype; a minimum that is no integer.
    ImportError : CuPy is not installed.

    Notes
    -----
    The mode belongs to the thread or asyncio task that enters it. Blocks nest, and the innermost rules. When
    the last one ends, whatever is raised, CuPy's functions are again what they were. cuBLAS called directly
    (`cupy.cublas`), cuSOLVER's factorizations, cuTENSOR and elementwise functions stay native.

    References
    ----------
    As `ozaki.matmul`.

    Examples
    --------
    >>> import cupy, ozaki.cupy  # doctest: +SKIP
    >>> with ozaki.cupy.emulated() as calls:  # doctest: +SKIP
    ...     x = cupy.eye(3) @ cupy.ones((3, 2))
    >>> calls[0].function, calls[0].shapes, calls[0].products  # doctest: +SKIP
    ('matmul', ((3, 3), (3, 2)), 1)
    """
    check_accuracy(accuracy)
    mode = Emulation(accuracy, operator.index(minimum), _names(dtypes))
    with _replaced():
        _modes.enter(mode)
        try:
            yield mode.calls
        finally:
            _modes.leave(mode)


def run(script: str, *arguments: str, **options: Any) -> Calls:
    """Run a Python script in the mode, and return what was replaced.

    As `ozaki.cupy.emulated`; differs in taking the accuracy, if none is given, from the environment variable
    OZAKI_CUPY. `sys.exit(0)` ends the script like its last line; what else it raises is raised.

    Parameters
    ----------
    script : path of the script.
    arguments : what it finds in `sys.argv` after its name.
    options : accuracy, minimum and dtypes, as in `ozaki.cupy.emulated`.

    >>> calls = ozaki.cupy.run("script.py", "--fast", minimum=10**6)  # doctest: +SKIP
    """
    text = os.environ.get("OZAKI_CUPY", NORMWISE)
    accuracy = int(text) if text.isascii() and text.isdigit() else text
    argv, path = sys.argv, sys.path
    sys.argv, sys.path = [script, *arguments], [str(Path(script).resolve().parent), *sys.path]
    try:
        with emulated(**{"accuracy": accuracy, **options}) as calls:
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv, sys.path = argv, path
    return calls


def _names(dtypes: Any) -> frozenset[str]:
    single = isinstance(dtypes, str | type | np.dtype) or not isinstance(dtypes, Iterable)
    names = frozenset(np.dtype(dtype).name for dtype in ((dtypes,) if single else dtypes))
    if not names.issubset(DTYPES):
        raise TypeError(f"dtypes must be one or several of {', '.join(DTYPES)}, got {dtypes!r}")
    return names


def _of_matmul(a: Any, b: Any, out: Any = None) -> tuple[Any, Any, Shape | None, Any]:
    """Return the factors of `matmul`, the shape of its result if it is another than theirs, and `out`."""
    return a, b, None, out


def _of_dot(a: Any, b: Any, out: Any = None) -> tuple[Any, Any, Shape | None, Any]:
    """As `_of_matmul`, for `dot`: the last axis of a, and the last but one of b."""
    rows = b if b.ndim == 1 else cupy.moveaxis(b, -2, 0)
    shape = (*a.shape[:-1], *rows.shape[1:])
    return a.reshape(-1, a.shape[-1]), rows.reshape(len(rows), -1), shape, out


def _of_tensordot(
    a: Any, b: Any, out: Any, m: int, n: int, k: int, shape: Shape
) -> tuple[Any, Any, Shape | None, Any]:
    """As `_of_matmul`, for CuPy's product of tensors whose first axes, of k elements, are summed over."""
    return a.reshape(k, m).T, b.reshape(k, n), tuple(shape), out


Factors = Callable[..., tuple[Any, Any, Shape | None, Any]]


def _sites() -> list[tuple[Any, str, str, Factors]]:
    """Return what is replaced: the attributes through which all of CuPy's products go.

    `@` and `dot` are methods in C of a base class, which those of `cupy.ndarray` hide. `cupy.matmul` has a
    shortcut by the first of `cupy._core`, and the other one for options such as `dtype`.
    """
    return [
        (cupy.ndarray, "__matmul__", "matmul", _of_matmul),
        (cupy._core, "matmul", "matmul", _of_matmul),
        (cupy.matmul._ops_register, "_default_func", "matmul", _of_matmul),
        (cupy.ndarray, "dot", "dot", _of_dot),
        (cupy._core, "tensordot_core", "tensordot", _of_tensordot),
    ]


@contextmanager
def _patched() -> Iterator[None]:
    """Replace CuPy's functions; put them back, whatever is raised."""
    sites = [(owner, name, vars(owner).get(name), function, of) for owner, name, function, of in _sites()]
    try:
        for owner, name, _, function, factors in sites:
            setattr(owner, name, _or_native(getattr(owner, name), function, factors))
        yield
    finally:
        for owner, name, own, *_ in sites:
            if own is not None:
                setattr(owner, name, own)
            elif name in vars(owner):
                delattr(owner, name)  # and the base class's is seen again


_replaced = Shared(_patched)


def _or_native(native: Callable[..., Any], function: str, factors: Factors) -> Callable[..., Any]:
    """Return a function of CuPy that is this library's in the mode, where the arguments are its own."""

    def replaced(a: Any, b: Any, *arguments: Any, **options: Any) -> Any:
        mode, result = innermost(_modes.entered()), None
        if mode is not None and all(isinstance(x, cupy.ndarray) and x.size and x.ndim for x in (a, b)):
            result = _product(mode, function, *factors(a, b, *arguments, **options))
        return native(a, b, *arguments, **options) if result is None else result

    return replaced


def _product(mode: Emulation, function: str, a: Any, b: Any, shape: Shape | None, out: Any) -> Any:
    """Return a product, in `out` if given; None if it is CuPy's, or for CuPy to refuse."""
    dtype = np.result_type(a.dtype, b.dtype)
    k, columns = a.shape[-1], b.shape[-1] if b.ndim > 1 else 1
    rows = a.shape[-2] if a.ndim > 1 else 1
    if dtype.name not in mode.dtypes or k != b.shape[-2:][0] or rows * k * columns < mode.minimum:
        return None
    try:
        stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return None
    if shape is None:
        shape = (*stack, *a.shape[-2:-1], *b.shape[-2:][1:])
    if out is not None and (out.dtype != dtype or out.shape != shape):
        return None
    call = mode.calls.record(function, (a.shape, b.shape), dtype.name, math.prod(stack))
    with _modes.suspended():
        factors = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
        result = _multiply(call, *factors, mode.accuracy).reshape(shape)
        if out is None:
            return result
        out[...] = result
        return out


def _multiply(call: Call, a: Any, b: Any, accuracy: str | int) -> Any:
    with call.timed():
        return api.matmul(a, b, accuracy=accuracy)
