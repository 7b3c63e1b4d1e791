"""The texts of `small` as CUDA kernels: a block has a matrix, and then others of the stack."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from multiword.engines.machine import multiprocessors
from multiword.runtime.arrays import Array, namespace
from multiword.runtime.kernels import expanded, from_text
from multiword.runtime.printing import HEADER
from ozaki.linalg.small import factorizations, spectra  # noqa: F401  all texts
from ozaki.linalg.small.language import TEXTS
from ozaki.linalg.small.printing import LANGUAGE

_WARP, _THREADS = 32, 128
"""Threads of a block whose matrices have no longer side than a warp, and of others."""

_BLOCKS, SCRATCH = 16, 1 << 28
"""Blocks to a multiprocessor, and bytes of scratch memory, at most."""

_KINDS = {"d": "double", "D": "Complex", "l": "long long", "q": "long long"}
"""What the numbers of an array are in CUDA, by its dtype."""


def run(name: str, stacks: list[Array], options: tuple[bool, ...], sizes: tuple[int, int, int]) -> None:
    """Run a text for every matrix of stacks, of which the last are written, with so much scratch memory."""
    a, xp = stacks[0], namespace(stacks[0])
    numbers, floats, integers = sizes
    scratch_bytes = numbers * a.itemsize + 8 * (floats + integers)
    blocks = min(len(a), _BLOCKS * multiprocessors(), max(1, SCRATCH // scratch_bytes))
    arguments: list[Any] = [np.int64(len(a))]
    for x in stacks:
        arguments += [xp.ascontiguousarray(x), *map(np.int64, x.shape[1:])]
    arguments += [np.int64(x) for x in options]
    for count, dtype in ((numbers, a.dtype), (floats, np.float64), (integers, np.int64)):
        arguments += [xp.empty(blocks * count, dtype), np.int64(count)]
    threads = _WARP if max(max(x.shape[1:]) for x in stacks) <= _WARP else _THREADS
    kinds = tuple((x.dtype.char, x.ndim) for x in stacks)
    kernel = _kernel(name, kinds, len(options), xp.cuda.runtime.getDevice())
    kernel((blocks,), (threads,), tuple(arguments))


@cache
def _kernel(name: str, kinds: tuple[tuple[str, int], ...], options: int, device: int) -> Any:
    return from_text(source(name, kinds, options), f"small_{name}", device)


def source(name: str, kinds: tuple[tuple[str, int], ...], options: int) -> str:
    """Return the kernel of a text in CUDA, for stacks of these dtypes and dimensions."""
    number = _KINDS[kinds[0][0]]
    parameters, given = ["long long count"], list[str]()
    for i, (char, dimensions) in enumerate(kinds):
        kind, rows = _KINDS[char], dimensions == 3
        parameters += [f"{kind}* x{i}", *([f"long long m{i}"] if rows else []), f"long long n{i}"]
        shape = f"m{i}, n{i}" if rows else f"n{i}"
        size = f"m{i} * n{i}" if rows else f"n{i}"
        given.append(f"{'Rows' if rows else 'Line'}<{kind}>{{x{i} + i * {size}, {shape}}}")
    parameters += [f"long long option{i}" for i in range(options)]
    begin = ""
    if options:
        begin = f"long long options[] = {{{', '.join(f'option{i}' for i in range(options))}}};"
        given.append(f"Line<long long>{{options, {options}}}")
    for room, kind in (("numbers", number), ("floats", "double"), ("integers", "long long")):
        parameters += [f"{kind}* {room}", f"long long of_{room}"]
        given.append(f"Line<{kind}>{{{room} + blockIdx.x * of_{room}, of_{room}}}")
    header = expanded(HEADER)
    return f"""{header}
namespace text {{
{LANGUAGE.printed(next(text for text in TEXTS if text.__name__ == name))}
}}

extern "C" __global__ void __launch_bounds__({_THREADS}) small_{name}({", ".join(parameters)}) {{
  {begin}
  for (long long i = blockIdx.x; i < count; i += gridDim.x) {{
    text::{name}({", ".join(given)});
    meet();
  }}
}}
"""
