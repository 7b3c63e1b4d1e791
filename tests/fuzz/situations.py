"""Calls where results went wrong before: within others, in lists and blocks, in modes, beside threads, forks.

Each is a random call of the families that devices are compared by, whose bits no situation may change; lists
and blocks are refused, or computed exactly.
"""

import contextlib
import os
import platform
import select
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import ozaki
from tests.fuzz.arrays import REAL, Spec, place, values
from tests.fuzz.device_cases import FAMILIES
from tests.fuzz.device_products import Call
from tests.fuzz.devices import called
from tests.fuzz.draw import Draw, check, check_same, plain
from tests.fuzz.exact_products import GEMMS
from tests.oracle import FORMATS, rounded
from tests.test_float_modes import MODES, REGISTERS, mode
from tests.test_reentry import interrupted

NATIVE = ("multiword.matmul", "batched_matmul", "round_to, split, half-complex")
"""Families of which nothing is promised beyond a bound, or whose arithmetic is the caller's."""

NAMES = tuple(name for name in FAMILIES if " words" not in name and name not in NATIVE)

Outcome = tuple[list, str | None]


class Repeated:
    """A random call that is made again and again, each time on new arrays of the same numbers."""

    def __init__(self, draw: Draw, call: Call | None = None) -> None:
        self.call = call or FAMILIES[draw.pick("family", *NAMES)](draw)
        self.numbers = {name: values(draw.rng, spec) for name, spec in self.call.specs.items()}

    def __call__(self) -> Outcome:
        arrays = {name: place(x, self.call.specs[name].layout) for name, x in self.numbers.items()}
        with np.errstate(all="ignore"):
            results, error = called(self.call, np, arrays)
        return [x if isinstance(x, str | bytes) else np.array(x) for x in results], error


def check_outcome(sort: str, got: Outcome, expected: Outcome) -> None:
    check(f"{sort}: error", got[1] == expected[1], f"{got[1]} instead of {expected[1]}")
    for x, y in zip(got[0], expected[0], strict=True):
        if isinstance(y, str | bytes):
            check(sort, x == y, f"{x[:40]!r} instead of {y[:40]!r}")
        else:
            check_same(sort, x, y)


def reentry(draw: Draw) -> None:
    """A call that others interrupt in the same thread, as signal handlers and finalizers do."""
    call = Repeated(draw)
    other = Repeated(draw, call.call if draw.chance(0.6) else None)  # the same of other numbers, or another
    expected, of_other, turns = call(), other(), []
    got = interrupted(call, lambda: turns.append(other()), most=draw.size("turns", 1, 4))
    check_outcome("interrupted", got, expected)
    for turn in turns:
        check_outcome("interrupting", turn, of_other)


def float_modes(draw: Draw) -> None:
    """The caller's thread flushes subnormal numbers to zero, or rounds in another direction."""
    call = Repeated(draw)
    expected = call()
    if platform.machine() in REGISTERS:
        with mode(draw.pick("mode", *MODES.values())):
            got = call()
        check_outcome("mode", got, expected)


def threads(draw: Draw) -> None:
    """The caller's threads, which make several calls at the same time."""
    calls = [Repeated(draw) for _ in range(2)]
    expected, got = [call() for call in calls], {}
    start = threading.Barrier(4)

    def work(rank: int) -> None:
        start.wait()
        got[rank] = calls[rank % 2]()

    workers = [threading.Thread(target=work, args=(rank,)) for rank in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for rank in range(4):
        check("threads", rank in got, "a thread has raised")
        check_outcome("threads", got[rank], expected[rank % 2])


def forks(draw: Draw) -> None:
    """A child, forked while another thread of its parent computes."""
    call, other, stop = Repeated(draw), Repeated(draw), threading.Event()
    expected = call()

    def compute() -> None:
        while not stop.is_set():
            other()

    worker = threading.Thread(target=compute)
    worker.start()
    try:
        report, status = _in_a_child(lambda: check_outcome("fork", call(), expected))
    finally:
        stop.set()
        worker.join()
    check("fork: other bits", not report, report)
    check("fork: the child died", status == 0, f"status {status}")


def _in_a_child(work: Callable[[], None]) -> tuple[str, int]:
    """What a child's work raises, as text, and how the child ended; it is killed after a minute."""
    readable, writable = os.pipe()
    if not (child := os.fork()):
        with contextlib.suppress(BaseException):
            try:
                work()
            except BaseException as error:
                os.write(writable, f"{type(error).__name__}: {error}"[:1000].encode())
        os._exit(0)
    os.close(writable)
    try:
        if not select.select([readable], [], [], 60)[0]:
            os.kill(child, signal.SIGKILL)
            return "the child hung", os.waitpid(child, 0)[1]
        return os.read(readable, 1000).decode(), os.waitpid(child, 0)[1]
    finally:
        os.close(readable)


def _of_torch(x: np.ndarray) -> Any:
    return import_module("torch").from_numpy(np.ascontiguousarray(plain(x)))


def _of_jax(x: np.ndarray) -> Any:
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(plain(x))


def front_ends(draw: Draw) -> None:
    """One product or reduction of arrays of NumPy, Dask, PyTorch and JAX, and of `ozaki.array`."""
    name = draw.pick("call", "matmul", "matmul", "sum", "mean", "var", "std", "norm", "dot", "vdot", "nansum")
    dtype, options = draw.pick("dtype", *GEMMS), {}
    m, k, n = (draw.size(axis, 1, most) for axis, most in zip("mkn", (6, 60, 6), strict=True))
    shapes = [(m, k)] * (2 if name in ("dot", "vdot") else 1)
    if name == "matmul":
        shapes = [(*draw.pick("stack", (), (2,), (3,)), m, k), draw.pick("right", (k, n), (k, n), (k,))]
        options["accuracy"] = draw.pick("accuracy", "fp64", "fp32", "normwise", "exact", 40)
    elif name != "vdot":
        options["axis"] = draw.pick("axis", *(0, 1, -1) if name == "dot" else (None, 0, -1))
    arrays = [draw.array(f"x{i}", shape, (dtype,), draw.kind()) for i, shape in enumerate(shapes)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NaN, by Dask
        expected = np.asarray(getattr(ozaki, name)(*arrays, **options))
        for front, got in _on_fronts(draw, name, [plain(x) for x in arrays], options):
            check_same(f"{front} and NumPy: {name}", np.asarray(got), expected)


def _on_fronts(draw: Draw, name: str, arrays: list, options: dict) -> Iterator[tuple[str, Any]]:
    """The same call on the arrays of each library that is here, and on those that carry their arithmetic."""
    function = getattr(ozaki, name)
    if find_spec("dask") and all(x.ndim < 3 for x in arrays):
        chunks = [tuple(int(draw.rng.integers(1, n + 1)) for n in x.shape) for x in arrays]
        lazy = [import_module("dask.array").from_array(*pair) for pair in zip(arrays, chunks, strict=True)]
        yield "Dask", function(*lazy, **options).compute(scheduler="synchronous")
    if find_spec("torch"):
        torch, own = import_module("torch"), import_module("ozaki.torch")
        tensors = [torch.from_numpy(x) for x in arrays]
        yield "PyTorch", function(*tensors, **options).numpy()
        if name in own.__all__:
            named = {"dim" if key == "axis" else key: value for key, value in options.items()}
            yield "ozaki.torch", getattr(own, name)(*tensors, **named).resolve_conj().numpy()
    if find_spec("jax"):
        jax, own = import_module("jax"), import_module("ozaki.jax")
        jax.config.update("jax_enable_x64", True)
        given = [jax.numpy.asarray(x) for x in arrays]
        yield "JAX", function(*given, **options)
        if name in own.__all__:
            yield "ozaki.jax", getattr(own, name)(*given, **options)
    carried = ozaki.array(arrays[0], options.get("accuracy"))
    if name == "matmul":
        yield "ozaki.array", carried @ arrays[1]
    elif name in ("sum", "mean", "var", "std", "nansum"):
        yield "ozaki.array", getattr(np, name)(carried, axis=options["axis"])


ODD = (np.ma.masked, None, "2", 2**70, -(2**64))
"""What no number of a dtype of NumPy is."""


def lists(draw: Draw) -> None:
    """Lists of numbers of several kinds: refused where a number would be lost, else the exact sum."""
    rng, wide = draw.rng, draw.chance(0.3)

    def element() -> Any:
        whole = int(rng.integers(-9, 10)) if not wide else int(rng.integers(2**52, 2**54))
        real = float(rng.standard_normal())
        kinds = (int, int, float, float, bool, np.float32, np.int64, np.float16)
        kind = kinds[int(rng.integers(len(kinds)))]
        return kind(whole if kind in (int, np.int64) else real > 0 if kind is bool else real)

    shape = draw.pick("shape", (5,), (1,), (3, 2), (2, 2, 2))
    flat = [element() for _ in range(int(np.prod(shape)))]
    if odd := draw.chance(0.2):
        flat[int(rng.integers(len(flat)))] = ODD[int(rng.integers(len(ODD)))]
    draw.notes.append(f"elements={flat!r}")
    x = _nested(flat, shape)
    rows = draw.pick("as", "lists", "tuples", "arrays")
    if rows == "arrays" and len(shape) == 1:
        x = [np.asarray(v) if isinstance(v, float | np.generic) else v for v in x]
    elif rows == "tuples":
        x = tuple(x)
    total = None if odd else sum(map(_fraction, flat), Fraction(0))
    inexact = any(not isinstance(v, int | np.integer) for v in flat)
    lossy = odd or (inexact and any(isinstance(v, int | np.integer) and abs(int(v)) > 2**53 for v in flat))
    function = draw.pick("call", ozaki.sum, ExactTotal())
    try:
        got = function(x, dtype=float)
    except (TypeError, ValueError) as error:
        check("lists: refused", lossy, f"{type(error).__name__}: {error}")
        return
    check("lists: accepted", total is not None, f"{got!r} of {flat!r}")
    exact = rounded(total.numerator, 1 - total.denominator.bit_length(), FORMATS[np.dtype(float)])
    check("lists: sum", float(got) == exact, f"{got!r} instead of {exact!r}")


class ExactTotal:
    """The sum by an accumulator."""

    def __call__(self, x: Any, dtype: Any) -> Any:
        return ozaki.ExactSum(dtype).add(x).round()

    def __repr__(self) -> str:
        return "ExactSum"


def _nested(flat: list, shape: tuple[int, ...]) -> list:
    if len(shape) == 1:
        return flat
    step = len(flat) // shape[0]
    return [_nested(flat[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _fraction(x: Any) -> Fraction:
    return Fraction(int(x)) if isinstance(x, int | np.integer | np.bool_) else Fraction(float(x))


BLOCKS: dict[str, tuple[bool, Callable[[np.ndarray], Any]]] = {
    "as it is": (True, lambda x: x),
    "byte-swapped": (True, lambda x: x.astype(x.dtype.newbyteorder("S"))),
    "Fortran order": (True, np.asfortranarray),
    "read-only": (True, lambda x: np.broadcast_to(x, x.shape)),
    "masked array, nothing masked": (True, np.ma.array),
    "masked": (False, lambda x: np.ma.masked_array(x, np.arange(x.size).reshape(x.shape) == x.size // 2)),
    "longdouble": (False, lambda x: x.astype(np.longdouble)),
    "wider": (False, lambda x: x.astype(np.float64) + 2.0**-60),
    "integers": (False, lambda x: np.full(x.shape, 2**53 + 1)),
    "objects": (False, lambda x: x.astype(object)),
    "text": (False, lambda x: x.astype(str)),
    "list": (False, lambda x: x.tolist()),
}
"""What a block is made of, and whether it still is what the Dask array says."""


def blocks(draw: Draw) -> None:
    """Dask arrays one of whose blocks is of another kind: refused, or the same numbers computed exactly."""
    if not find_spec("dask"):
        return
    da, kind = import_module("dask.array"), draw.pick("block", *BLOCKS)
    harmless, change = BLOCKS[kind]
    shape, dtype = (draw.size("rows", 2, 8), draw.size("columns", 2, 8)), draw.pick("dtype", *REAL[:2])
    x = values(draw.rng, Spec(shape, dtype, "normal", "C"))
    where = tuple(draw.size("which", 0, 1) for _ in shape)

    def changed(block: np.ndarray, block_info: Any) -> Any:
        return change(block) if tuple(block_info[0]["chunk-location"]) == where else block

    halves = tuple((n - n // 2, n // 2) for n in shape)
    lazy = da.from_array(x, chunks=halves).map_blocks(changed, dtype=dtype, meta=np.zeros((0, 0), dtype))
    name = draw.pick("call", "sum", "mean", "var", "nansum", "norm", "matmul") if harmless else "sum"
    others = (np.ones((shape[1], 1), dtype),) if name == "matmul" else ()
    try:
        got = getattr(ozaki, name)(lazy, *others).compute(scheduler="synchronous")
    except (TypeError, ValueError) as error:
        check(f"blocks: {kind} refused", not harmless, f"{type(error).__name__}: {error}")
        return
    if harmless:
        check_same(f"blocks: {name}", np.asarray(got), np.asarray(getattr(ozaki, name)(x, *others)))
        return
    check(f"blocks: {kind} accepted", kind not in ("masked", "text"), repr(got))
    part = tuple((slice(0, h[0]), slice(h[0], None))[i] for h, i in zip(halves, where, strict=True))
    numbers = x.astype(object)
    numbers[part] = np.asarray(change(x[part])).astype(object)
    total = sum(map(_fraction, numbers.ravel()), Fraction(0))
    exact = rounded(total.numerator, 1 - total.denominator.bit_length(), FORMATS[np.asarray(got).dtype])
    check(f"blocks: {kind} rounded", float(got) == exact, f"{got!r} instead of {exact!r}")


CHECKS = {
    "situation: re-entry": reentry,
    "situation: float modes": float_modes,
    "situation: threads": threads,
    "situation: forks": forks,
    "situation: front ends": front_ends,
    "situation: lists": lists,
    "situation: blocks": blocks,
}
