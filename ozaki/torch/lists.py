"""What operators of lists, `_foreach_…`, are in a mode of everything: operators of single tensors.

A GPU takes longer to be told of a small tensor than to compute it. There lists are left to PyTorch's kernels
of lists, as long as each rounds once, and as no tensor that is written to is read again. What they would
contract is taken apart: x + value·y·z, x + value·y/z and x + weight·(y − x). Norms are ours, some at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ozaki.torch.settings import Settings

_OVERLOADS = "List", "Scalar", "ScalarList"

_ONCE = {f"{name}.{of}" for name in ("add", "sub", "mul", "div") for of in _OVERLOADS} | {
    "mul.Tensor",
    "sqrt",
}
"""Operators whose kernels round each number once."""


def one_by_one(name: str) -> Callable[..., Any]:
    """Return what computes an operator of lists by operators of single tensors.

    It is PyTorch's own kernel for a CPU, which calls these for tensors on any device.
    """
    native = torch.library.get_kernel(f"aten::{name}", "CPU")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    operator, dot, overload = name.removeprefix("_foreach_").partition(".")
    in_place, kind = operator.endswith("_"), operator.rstrip("_") + dot + overload
    of_lists = partial(_of_lists, kind) if kind in _ONCE else _OTHERWISE.get(kind)

    def compute(settings: Settings, *arguments: Any, **options: Any) -> Any:
        if of_lists is not None and not options and settings.part is None and _together(in_place, arguments):
            result = of_lists(in_place, *arguments)
            if result is not NotImplemented:
                return result
        return native.call_boxed(keys, *arguments, **options)

    return compute


def _kernels() -> Iterator[tuple[str, Callable[..., Any]]]:
    device = "CUDA" if torch.version.cuda else "CPU"
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, device))
    for kind in _ONCE:
        base, dot, overload = kind.partition(".")
        for name in (f"{base}{dot}{overload}", f"{base}_{dot}{overload}"):
            kernel = torch.library.get_kernel(f"aten::_foreach_{name}", device)
            yield name, partial(kernel.call_boxed, keys)
    yield "copy_", partial(torch.library.get_kernel("aten::_foreach_copy_", device).call_boxed, keys)


_NATIVE = dict(_kernels())
"""PyTorch's own operators of lists of a GPU's tensors, by name: the mode replaces them."""


def _of_lists(kind: str, in_place: bool, *arguments: Any) -> Any:
    """Return what PyTorch's kernel of lists makes of them, in place or not."""
    base, dot, overload = kind.partition(".")
    return _NATIVE[f"{base}{'_' * in_place}{dot}{overload}"](*arguments)


def _plus(operation: str, overload: str, in_place: bool, x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    """Return x + (value·y)·z, or x + (value·y)/z, each operation rounded."""
    if overload == "Scalar" and value == 1:
        term = _of_lists(f"{operation}.List", False, y, z)
    else:
        term = _of_lists(f"mul.{overload}", False, y, value)
        _of_lists(f"{operation}.List", True, term, z)
    return _of_lists("add.List", in_place, x, term)


def _between(in_place: bool, x: Any, y: Any, weight: Any) -> Any:
    """Return x + weight·(y − x), for weights below 1/2; others are y − (1 − weight)·(y − x)."""
    if not abs(weight) < 0.5:
        return NotImplemented
    step = _of_lists("sub.List", False, y, x)
    _of_lists("mul.Scalar", True, step, weight)
    return _of_lists("add.List", in_place, x, step)


def _norms(in_place: bool, tensors: Sequence[Tensor], order: Any = 2) -> Any:
    """Return norms; small tensors are rows of a matrix, with zeros behind them, which add nothing."""
    if order != 2:
        return NotImplemented
    norms, alike = list[Any](tensors), dict[int, list[int]]()
    for place, x in enumerate(tensors):
        alike.setdefault(_width(x.numel()), []).append(place)
    for width, places in alike.items():
        at_once = max(1, MOST // width)
        for some in (places[i : i + at_once] for i in range(0, len(places), at_once)):
            if width <= SMALL and len(some) > 1:
                rows = _rows([tensors[place] for place in some], width)
                found: Sequence[Tensor] = torch.linalg.vector_norm(rows, dim=1).unbind()
            else:
                found = [torch.linalg.vector_norm(tensors[place]) for place in some]
            for place, norm in zip(some, found, strict=True):
                norms[place] = norm
    return norms


SMALL, MOST = 2**20, 2**24
"""Numbers of a tensor that a GPU reads, and copies, sooner than it is told to; and of all that are copied."""


def _width(size: int) -> int:
    """Return the length of the rows that a tensor of so many numbers is one of: a power of 4."""
    return 4 ** max(5, -(-(size - 1).bit_length() // 2))


def _rows(tensors: Sequence[Tensor], width: int) -> Tensor:
    """Return tensors as rows of a matrix, with zeros behind them."""
    rows = tensors[0].new_zeros(len(tensors) * width)
    parts = [size for x in tensors for size in (x.numel(), width - x.numel())]
    _NATIVE["copy_"](list(rows.split(parts)[::2]), [x.view(-1) for x in tensors])
    return rows.view(-1, width)


_OTHERWISE: dict[str, Callable[..., Any]] = {
    f"addc{operation}.{overload}": partial(_plus, operation, overload)
    for operation in ("mul", "div")
    for overload in ("Scalar", "ScalarList")
} | {"lerp.Scalar": _between, "norm.Scalar": _norms}
"""Operators whose kernels would round several operations together, or add up in another order."""


def _together(in_place: bool, arguments: Sequence[Any]) -> bool:
    """Return whether an operator of lists has the results of single tensors, computed in any order."""
    given = [x for x in arguments if isinstance(x, list | tuple)]
    lists = [x for x in given if any(isinstance(value, Tensor) for value in x)]
    if not lists or any(len(x) != len(lists[0]) for x in given) or not _alike(lists):
        return False
    others = [x for x in arguments if not isinstance(x, list | tuple)]
    others += [value for x in given for value in x if not isinstance(value, Tensor)]
    if not all(_is_number(x, lists[0][0]) for x in others):
        return False
    return not (in_place and _read_again(lists, [x for x in others if isinstance(x, Tensor)]))


def _is_number(x: Any, like: Tensor) -> bool:
    """Return whether kernels of lists take a number as those of a tensor do: some refuse one out of range."""
    if isinstance(x, Tensor):
        return not x.dim() and x.dtype is like.dtype and x.device == like.device
    return isinstance(x, int | float) and not torch.finfo(like.dtype).max < abs(x) < math.inf


def _on_one_gpu(tensors: Sequence[Tensor]) -> bool:
    return tensors[0].is_cuda and len(set(map(Tensor.get_device, tensors))) == 1


def _alike(lists: Sequence[Sequence[Any]]) -> bool:
    """Return whether all are tensors of one GPU and float dtype, have axes, and no gaps; and shapes agree."""
    every = [x for tensors in lists for x in tensors]
    if not all(issubclass(kind, Tensor) for kind in set(map(type, every))):
        return False
    shapes, dtype = [x.shape for x in lists[0]], every[0].dtype
    if dtype not in (torch.float32, torch.float64) or not all(shapes) or not _on_one_gpu(every):
        return False
    if len({x.dtype for x in every}) > 1 or not all(map(Tensor.is_contiguous, every)):
        return False
    return all([x.shape for x in tensors] == shapes for tensors in lists[1:])


def _read_again(lists: Sequence[Sequence[Tensor]], numbers: Sequence[Tensor]) -> bool:
    """Return whether a tensor of the first list, all of which are written to, shares memory with another.

    One that is the same in other lists at its own place is read before; a number is read for all.
    """
    starts = np.array([[x.data_ptr() for x in tensors] for tensors in lists])
    ends = starts + [x.nbytes for x in lists[0]]  # lists are alike
    written = np.zeros(starts.shape, bool)
    written[0] = True
    spans = (written | (starts != starts[0])) & (ends > starts)
    of_numbers = np.array([(x.data_ptr(), x.data_ptr() + x.nbytes) for x in numbers], int).reshape(-1, 2)
    start, end = np.append(starts[spans], of_numbers[:, 0]), np.append(ends[spans], of_numbers[:, 1])
    order = start.argsort()
    start, end, written = start[order], end[order], np.append(written[spans], [False] * len(numbers))[order]
    until, written_until = (np.maximum.accumulate(x)[:-1] for x in (end, np.where(written, end, 0)))
    return bool((start[1:] < np.where(written[1:], until, written_until)).any())
