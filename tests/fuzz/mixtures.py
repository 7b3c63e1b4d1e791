"""What comes from several hands: parts merged by threads and devices, memory of all, kinds of arrays."""

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import ozaki
from multiword.runtime.parallel import scratch
from tests.fuzz.draw import Draw, check, check_same, plain
from tests.fuzz.exact_state import _add, _exact_round, _piece
from tests.fuzz.exact_sums import FLOATS

SPECIAL_PARTS: dict[str, list[float]] = {
    "nothing": [],
    "Inf": [np.inf],
    "NaN": [np.nan],
    "Inf − Inf": [np.inf, -np.inf],
    "−0": [-0.0],
    "cancelled": [1.0, -1.0],
}
"""What leaves flags and no digits, or neither."""


def has_gpu() -> bool:
    try:
        return find_spec("cupy") is not None and import_module("cupy").cuda.runtime.getDeviceCount() > 0
    except Exception:  # no driver, or none that this CuPy takes
        return False


def merges(draw: Draw) -> None:
    """Parts added by several threads, on any devices, and merged in any tree, have one state and one sum."""
    dtype = draw.pick("dtype", *(t for t in FLOATS if t.kind == "f"))
    pieces = [_part(draw, i, dtype) for i in range(draw.size("parts", 1, 7))]
    on_device = [has_gpu() and draw.chance(0.5) for _ in pieces]
    draw.notes.append(f"on a GPU: {on_device}")
    whole = ozaki.ExactSum(dtype)
    for piece in pieces:
        _add(whole, piece)

    def added(i: int) -> ozaki.ExactSum:
        move = import_module("cupy").asarray if on_device[i] else np.asarray
        return _add(ozaki.ExactSum(dtype), tuple(map(move, pieces[i])))

    with ThreadPoolExecutor(3) as threads:
        parts = list(threads.map(added, range(len(pieces))))
        while len(parts) > 1:
            order = draw.rng.permutation(len(parts))
            pairs = [(parts[i], parts[j]) for i, j in zip(order[::2], order[1::2], strict=False)]
            left = [parts[order[-1]]] if len(parts) % 2 else []
            parts = left + list(threads.map(lambda pair: pair[0].merge(pair[1]), pairs))
    check_same("merges: sum", np.asarray(_on_host(parts[0].round())), np.asarray(_on_host(whole.round())))
    check_same(
        "merges: exact", np.asarray(_on_host(whole.round())), _exact_round(pieces, dtype, (), np.dtype(dtype))
    )
    check("merges: state", parts[0].to_bytes() == whole.to_bytes(), "two orders, two states")


def _on_host(x: Any) -> Any:
    return x.get() if hasattr(x, "get") else x


def _part(draw: Draw, i: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    if draw.chance(0.5):
        return _piece(draw, i, dtype, ())
    return (np.array(SPECIAL_PARTS[draw.pick(f"part {i}", *SPECIAL_PARTS)]).astype(dtype),)


def memory(draw: Draw) -> None:
    """Scratch memory of several sizes that several threads ask for at the same time is nobody else's."""
    sizes = [int(draw.rng.choice([1 << 15, 1 << 16, 3 << 16, 1 << 18])) for _ in range(4)]
    failed: list[str] = []
    start = threading.Barrier(len(sizes))

    def work(rank: int) -> None:
        start.wait()
        for turn in range(30):
            held = [scratch((sizes[(rank + i) % len(sizes)],), np.float64) for i in range(1 + turn % 3)]
            for i, x in enumerate(held):
                x.fill(16 * rank + i)
            if any((x != 16 * rank + i).any() for i, x in enumerate(held)):
                failed.append(f"thread {rank}, turn {turn}")

    workers = [threading.Thread(target=work, args=(rank,)) for rank in range(len(sizes))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check("memory: shared", not failed, ", ".join(failed))


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    value = getattr(ozaki, name)
    return dict(inspect.signature(value).parameters) if inspect.isfunction(value) else {}


WITH_OUT = tuple(name for name in ozaki.__all__ if "out" in _parameters(name))


def _required(name: str) -> int:
    """How many arrays a function takes."""
    parameters = _parameters(name).values()
    return sum(p.default is p.empty and p.kind is not p.KEYWORD_ONLY for p in parameters)


def _tensor(x: np.ndarray) -> Any:
    return import_module("torch").from_numpy(np.ascontiguousarray(plain(x)))


def _jax(x: np.ndarray) -> Any:
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(plain(x))


def _dask(x: np.ndarray) -> Any:
    return import_module("dask.array").from_array(x, chunks=-1)


LIBRARIES: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "PyTorch": ("torch", _tensor),
    "JAX": ("jax", _jax),
    "Dask": ("dask", _dask),
}
"""By name: the package, and what makes an array of it."""


def _read_only(x: np.ndarray) -> np.ndarray:
    x.setflags(write=False)
    return x


WRONG: dict[str, Callable[[np.ndarray], Any]] = {
    "list": lambda x: x.tolist(),
    "number": lambda x: 0.0,
    "masked": np.ma.array,
    "text": lambda x: x.astype(str),
    "longer": lambda x: np.stack([x, x], axis=-1),
    "flat": lambda x: np.append(x.ravel(), 7.0),
    "read only": _read_only,
    "object": lambda x: x.astype(object),
    "integers": lambda x: np.full(x.shape, 7, np.int64),
    "booleans": lambda x: np.full(x.shape, True),
    "longdouble": lambda x: x.astype(np.longdouble),
    "dates": lambda x: np.full(x.shape, 7, "M8[s]"),
    "record": lambda x: np.zeros(x.shape, [("x", "f8")]),
    "PyTorch": _tensor,
    "JAX": _jax,
    "Dask": _dask,
}
"""What a function cannot write to, made of an array that it can."""


def wrong_out(draw: Draw) -> None:
    """`out` of a kind, shape or dtype that is not the result's is refused, and keeps its numbers."""
    name, kind = draw.pick("function", *WITH_OUT), draw.pick("out", *WRONG)
    tensors = draw.chance(0.3) and find_spec("torch") is not None and kind != "PyTorch"
    if kind in LIBRARIES and not find_spec(LIBRARIES[kind][0]):
        return
    function, n = getattr(ozaki, name), draw.size("n", 1, 9)
    x = draw.rng.standard_normal(n if name == "dot" else (n, n)).astype(
        draw.pick("dtype", "float32", "float64")
    )
    operands = [_tensor(x) if tensors else x] * _required(name)
    right = np.full_like(np.asarray(function(*[x] * len(operands))), 7.0)
    if np.longdouble().itemsize == 8 and kind == "longdouble":
        return
    out = WRONG[kind](right)
    before = repr(out)
    try:
        function(*operands, out=out)
    except (TypeError, ValueError):
        check("out was written to", repr(out) == before, f"{name}: {out!r}")
        return
    check("out of a wrong kind was taken", False, f"{name}: {out!r}")


BINARY = "matmul", "dot", "vdot", "vecdot", "inner", "outer", "tensordot", "accurate_dgemm", "cdist_squared"


def mixed(draw: Draw) -> None:
    """Arrays of two libraries in one call are refused by a TypeError or, by Dask, taken as its own."""
    here = [name for name, (package, _) in LIBRARIES.items() if find_spec(package)]
    name = draw.pick("function", *BINARY)
    x = draw.rng.standard_normal(4 if name == "dot" else (4, 4))
    one, other = (draw.pick(side, "NumPy", *here) for side in ("left", "right"))
    if one == other:
        return
    made = [x if kind == "NumPy" else LIBRARIES[kind][1](x) for kind in (one, other)]
    try:
        got = getattr(ozaki, name)(*made)
    except TypeError:
        return
    check("mixed: computed", {one, other} == {"NumPy", "Dask"}, f"{name} of {one} and {other}")
    expected = np.asarray(getattr(ozaki, name)(x, x))
    check_same("mixed: bits", np.asarray(got.compute(scheduler="synchronous")), expected)


CHECKS = {
    "situation: merges": merges,
    "situation: scratch memory": memory,
    "situation: wrong out": wrong_out,
    "situation: mixed libraries": mixed,
}
