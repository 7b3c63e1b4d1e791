"""PyTorch's operators within the mode, one by one: which have equal bits, are refused, or are named.

    python -m benchmarks.torch_operators --json benchmarks/results/torch_operators_cpu.json

PyTorch's own samples of each operator in float32 (`op_db`, which needs the package `expecttest`), as they are
and large enough for two threads, forward and backward: on one thread and on two; and where an element of the
first dimension has by itself what it has among the others, in two parts and in another order. Outside of the
mode, with products and sums replaced, and with everything. Fails if bits vary and the mode has not said so.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.testing._internal.common_methods_invocations as samples
from torch.utils._pytree import tree_flatten, tree_map

import ozaki.torch
from benchmarks.timing import compact

SIZES = {"S": (5, 34), "M": (10, 36), "L": (20, 40)}
"""PyTorch's names of the lengths in its samples: its own values, and such that two threads share the work."""

SAMPLES, ELEMENTS, SECONDS = 3, 2**18, 4.0
"""Of each size at most so many samples, with no more elements than these; an operator has so much time."""

WITHOUT_ELEMENTS = ("_", "native_", "corrcoef", "cov", "nextafter")
"""Names, or how they begin: what does not check its arguments, relates elements of the first dimension, or is
its argument in double precision."""

UNWRITTEN = ("empty", "new_empty")
"""How the names of operators begin whose numbers are what memory holds."""

REFUSED = "within ozaki.torch.reproducible"
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "products": lambda: ozaki.torch.reproducible(dtypes=torch.float32, sums=True),
    "everything": lambda: ozaki.torch.reproducible(dtypes=(torch.float32, torch.float64), everything=True),
}

Tensors = list[torch.Tensor]


@dataclass(frozen=True)
class Call:
    """A call of an operator: its arguments, and what makes differentiable results of what it returns."""

    op: Any
    results_of: Callable[[Any], Any]
    arguments: Any

    def with_tensors(self, change: Callable[[Any], Any]) -> Call:
        return replace(self, arguments=tree_map(change, self.arguments))

    def doubled(self) -> Call:
        return self.with_tensors(_doubled)

    def elements(self, n: int, chosen: Any) -> Call:
        """Return the call with these elements of the first dimension, of all tensors of length n."""
        return self.with_tensors(lambda x: _like(x, x[chosen]) if _has_length(x, n) else x)

    def made(self, mode: str, threads: int = 1, seed: int = 3) -> Tensors:
        """Return the results in a mode, and the gradients of a weighted sum of them."""
        given = self.with_tensors(lambda x: _like(x, x.clone()) if torch.is_tensor(x) else x).arguments
        leaves = [x for x in tensors(given) if x.requires_grad]
        torch.set_num_threads(threads)
        torch.manual_seed(seed)
        with MODES[mode]():
            first, others, options = given
            results = tensors(self.results_of(self.op(first, *others, **options)))
            rooted = [x for x in results if x.requires_grad]
            weights = [ramp(x) for x in rooted]
            found = (
                torch.autograd.grad(rooted, leaves, weights, allow_unused=True) if leaves and rooted else ()
            )
        return [x.detach() for x in results] + [torch.zeros(0) if g is None else g for g in found]


def tensors(x: Any) -> Tensors:
    return [t for t in tree_flatten(x)[0] if torch.is_tensor(t)]


def ramp(x: torch.Tensor) -> torch.Tensor:
    """Return weights that differ, and are the same for each element of the first dimension."""
    row = x.shape[1:].numel() if x.dim() else 1
    return (0.5 + torch.arange(row) % 7 / 8).reshape(x.shape[1:]).expand(x.shape).to(x.dtype).clone()


def _like(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return value.detach().requires_grad_(x.requires_grad)


def _doubled(x: Any) -> Any:
    if torch.is_tensor(x) and x.dtype is torch.float32:
        return _like(x, x.double())
    return torch.float64 if x is torch.float32 else x


def _has_length(x: Any, n: int) -> bool:
    return torch.is_tensor(x) and x.shape[:1] == (n,)


def calls_of(op: Any) -> Iterator[Call]:
    """Yield the samples of both sizes."""
    for i in range(2):
        for name, lengths in SIZES.items():
            setattr(samples, name, lengths[i])
        torch.manual_seed(0)
        chosen = 0
        try:
            for sample in op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd):
                if sum(x.numel() for x in tensors(sample.input)) <= ELEMENTS:
                    arguments = sample.input, sample.args, sample.kwargs
                    yield Call(op, sample.output_process_fn_grad, arguments)
                    chosen += 1
                if chosen == SAMPLES:
                    break
        except Exception:  # some samples do not fit other lengths
            continue


def bits(found: Tensors) -> list[bytes]:
    """Return the bytes of tensors, in which all NaN are alike."""
    kept = []
    for x in found:
        dense = x.to_dense() if x.layout is not torch.strided else x
        array = dense.resolve_conj().resolve_neg().numpy()
        if array.dtype.kind in "fc":
            array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
        kept.append(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return kept


@dataclass(frozen=True)
class Parts:
    """Which elements of the first dimension, of n, each part has; and those of the whole in their order."""

    n: int
    chosen: list[Any]
    order: Any

    def made(self, call: Call, mode: str) -> Tensors | None:
        """Return what calls of the parts return, one after another; None if that does not fit.

        What all parts share, as the gradients of weights, is empty.
        """
        parts = [call.elements(self.n, c).made(mode) for c in self.chosen]
        lengths = [len(torch.arange(self.n)[c]) for c in self.chosen]
        joined = []
        for pieces in zip(*parts, strict=True):
            if [len(p) if p.dim() else -1 for p in pieces] == lengths:
                joined.append(torch.cat(pieces))
            elif len({p.shape for p in pieces}) == 1:
                joined.append(pieces[0].new_zeros(0))
            else:
                return None
        return joined

    def compared(self, parts: Tensors, whole: Tensors) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return pairs of what parts and the whole have in common."""
        pairs = zip(parts, whole, strict=True)
        return [(p, w[self.order]) for p, w in pairs if p.numel() and w.dim()]


def meaningful(call: Call) -> dict[str, Parts]:
    """Return the cut, and the order, if they show in roundings alone: PyTorch's double precision tells."""
    first = call.arguments[0]
    n = len(first) if torch.is_tensor(first) and first.dim() and first.layout is torch.strided else 0
    if n < 2 or call.op.name.startswith(WITHOUT_ELEMENTS):
        return {}
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    every = {"cut": Parts(n, [slice(0, 1), slice(1, n)], slice(None)), "order": Parts(n, [order], order)}
    return {name: parts for name, parts in every.items() if _shows_in_roundings(call.doubled(), parts)}


def _shows_in_roundings(call: Call, parts: Parts) -> bool:
    try:
        whole, found = call.made("plain"), parts.made(call, "plain")
        pairs = parts.compared(found or [], whole if found else [])
        return bool(pairs) and all(
            x.shape == y.shape and torch.allclose(x, y, rtol=1e-9, atol=1e-11, equal_nan=True)
            for x, y in pairs
        )
    except Exception:  # PyTorch's own, of arguments that do not fit
        return False


def said(call: Call, mode: str, means: dict[str, Parts]) -> set[str]:
    """Return what a mode said of a call, "refused" or "named", or with what its bits vary, or "equal"."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = varies(call, mode, means)
        except RuntimeError as error:
            if not str(error).startswith(REFUSED):
                raise
            return {"refused"}
    named = any(str(w.message).startswith(REFUSED) for w in caught)
    return {"named"} if named else found or {"equal"}


def varies(call: Call, mode: str, means: dict[str, Parts]) -> set[str]:
    """Return with what the bits of a call vary in a mode."""
    whole = call.made(mode)
    found = set() if bits(call.made(mode, threads=2)) == bits(whole) else {"threads"}
    for name, parts in means.items():
        pairs = parts.compared(parts.made(call, mode) or [], whole)
        if any(bits([x]) != bits([y]) for x, y in pairs):
            found.add(name)
    return found


def tried(op: Any) -> dict[str, Any] | None:
    """Return the row of an operator; None if PyTorch computes none of its samples."""
    end, count = time.perf_counter() + SECONDS, 0
    row: dict[str, set[str]] = {mode: set() for mode in MODES}
    for call in calls_of(op):
        try:
            random = bits(call.made("plain")) != bits(call.made("plain", seed=4))
            means = {} if random else meaningful(call)
            found = {mode: said(call, mode, means) for mode in MODES}
        except Exception as error:  # of a sample that PyTorch itself refuses
            print(f"  {op.formatted_name}: {type(error).__name__} {str(error)[:150]}", file=sys.stderr)
            continue
        count += 1
        for mode in MODES:
            row[mode] |= found[mode]
        if time.perf_counter() > end:
            break
    kinds = {mode: sorted(found) for mode, found in row.items()}
    return {"operator": op.formatted_name, "samples": count, **kinds} if count else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    rows = []
    for op in samples.op_db:
        if op.name.startswith(UNWRITTEN) or (options.only and op.name not in options.only):
            continue
        if torch.float32 in op.supported_dtypes("cpu") and (row := tried(op)):
            print(row, flush=True)
            rows.append(row)
    record = {
        "date": datetime.date.today().isoformat(),
        "device": platform.processor() or platform.machine(),
        "command": "python -m benchmarks.torch_operators",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "rows": rows,
    }
    if options.json:
        options.json.write_text(compact(record))
    silent = [r["operator"] for r in rows if {"threads", "cut", "order"} & {*r["products"], *r["everything"]}]
    print(f"{len(rows)} operators; not said of: {', '.join(silent) or 'none'}")
    return bool(silent)


if __name__ == "__main__":
    sys.exit(main())
