"""What operators of lists, `_foreach_…`, are in a mode of everything: operators of single tensors.

A GPU takes longer to be told of a small tensor than to compute it. So those of a list are computed as parts
of one, which has the bits of each by itself, wherever no tensor that is written to is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from ozaki.torch.settings import Settings

_ELEMENTWISE = {
    f"_foreach_{name}" for name in ("add", "sub", "mul", "div", "addcmul", "addcdiv", "lerp", "sqrt")
}
"""Operators that compute each number by itself."""

_OVERLOADS = "", "List", "Scalar", "ScalarList"
"""Their overloads of lists, and of numbers: a tensor of one number may have a dtype that counts."""

_TOGETHER = 1 << 24
"""Numbers, at most, of tensors that are computed as one."""


def one_by_one(name: str) -> Callable[..., Any]:
    """Return what computes an operator of lists by operators of single tensors.

    It is PyTorch's own kernel for a CPU, which calls these for tensors on any device.
    """
    native = torch.library.get_kernel(f"aten::{name}", "CPU")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    operator, _, overload = name.partition(".")
    in_place = operator.endswith("_")
    elementwise = operator.rstrip("_") in _ELEMENTWISE and overload in _OVERLOADS

    def call(*arguments: Any, **options: Any) -> Any:
        return native.call_boxed(keys, *arguments, **options)

    def compute(settings: Settings, *arguments: Any, **options: Any) -> Any:
        joinable = elementwise and not options and settings.part is None and _joinable(in_place, arguments)
        if not joinable:
            return call(*arguments, **options)
        results = list[Tensor]()
        for chosen in _chunks(arguments[0]):
            some = [[x[i] for i in chosen] if isinstance(x, list | tuple) else x for x in arguments]
            results += _as_one(call, in_place, *some)
        return None if in_place else results

    return compute


def _joinable(in_place: bool, arguments: Sequence[Any]) -> bool:
    """Return whether an operator has the same results of lists that are joined."""
    given = [x for x in arguments if isinstance(x, list | tuple)]
    lists = [x for x in given if any(isinstance(value, Tensor) for value in x)]
    if not _on_one_gpu(lists) or any(len(x) != len(lists[0]) for x in given):
        return False
    return _alike(lists) and not (in_place and _read_again(lists))


def _on_one_gpu(lists: Sequence[Sequence[Any]]) -> bool:
    """Return whether lists have tensors alone, all on the same GPU."""
    every = [x for tensors in lists for x in tensors]
    if not every or not all(isinstance(x, Tensor) and x.is_cuda for x in every):
        return False
    return len({x.device for x in every}) == 1


def _alike(lists: Sequence[Sequence[Tensor]]) -> bool:
    """Return whether tensors are of one dtype, have axes, shapes that agree, and no gaps in memory."""
    shapes, dtype = [x.shape for x in lists[0]], lists[0][0].dtype
    return all(
        [x.shape for x in tensors] == shapes
        and all(x.dim() and x.dtype is dtype and x.is_contiguous() for x in tensors)
        for tensors in lists
    )


def _read_again(lists: Sequence[Sequence[Tensor]]) -> bool:
    """Return whether a tensor of the first list, all of which are written to, shares memory with another.

    One that is the same in other lists at its own place is read before.
    """
    spans = dict[tuple[int, int, int], bool]()
    for number, tensors in enumerate(lists):
        for place, x in enumerate(tensors):
            if x.numel():
                span = x.data_ptr(), x.data_ptr() + x.nbytes, place
                spans[span] = spans.get(span, False) or number == 0
    read = written = 0  # where the spans so far end, and those of the first list
    for (start, end, _), is_written in sorted(spans.items()):
        if start < (read if is_written else written):
            return True
        read, written = max(read, end), max(written, end * is_written)
    return False


def _chunks(tensors: Sequence[Tensor]) -> Iterator[list[int]]:
    """Yield the places of tensors that are computed as one."""
    chunk, numbers = list[int](), 0
    for i, x in enumerate(tensors):
        if chunk and numbers + x.numel() > _TOGETHER:
            yield chunk
            chunk, numbers = [], 0
        chunk.append(i)
        numbers += x.numel()
    yield chunk


def _as_one(call: Callable[..., Any], in_place: bool, *arguments: Any) -> Sequence[Tensor]:
    """Return the results of an operator of lists, computed of one tensor that has all numbers of each."""
    first, joined = arguments[0], list[Any]()
    for x in arguments:
        if isinstance(x, list) and isinstance(x[0], Tensor):
            joined.append([torch.cat([tensor.reshape(-1) for tensor in x])] if len(x) > 1 else x)
        elif isinstance(x, list) and len({*map(repr, x)}) > 1:  # numbers of the tensors, each of its own
            found = call(*arguments)
            return first if in_place else found
        else:
            joined.append(x[:1] if isinstance(x, list) else x)
    found = call(*joined)
    if len(first) == 1:
        return first if in_place else found
    (whole,) = joined[0] if in_place else found
    pieces = [
        piece.view(x.shape) for piece, x in zip(whole.split([x.numel() for x in first]), first, strict=True)
    ]
    results = first if in_place else [torch.empty_like(piece) for piece in pieces]  # in memory of their own
    _native_copy()(results, pieces)
    return results


@cache
def _native_copy() -> Callable[..., Any]:
    """Return PyTorch's copy of a GPU's tensors from one list to another, which changes no bit."""
    native = torch.library.get_kernel("aten::_foreach_copy_", "CUDA")
    return partial(native.call_boxed, torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA))
