"""Which exact sums gradients are: operators note it, in the backward passes of a part of a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from multiword.runtime.arrays import namespace
from multiword.runtime.tensors import array_of
from ozaki.sums.exactsum import ExactSum

AddTerms = Callable[[ExactSum], Any]
"""What adds the terms of a sum to an accumulator of its shape."""


@dataclass(frozen=True)
class Terms:
    """The elements of tensors over their first dimensions, or the products of those of pairs of tensors.

    Those of several uses of a parameter are added in one call.
    """

    uses: tuple[tuple[Tensor, ...], ...]

    @property
    def factors(self) -> int:
        """How many tensors a use has: 1 or 2."""
        return len(self.uses[0])

    def __call__(self, total: ExactSum) -> None:
        """Add them to an accumulator."""
        n = len(total.shape)
        every = ([array_of(x).reshape(-1, *x.shape[x.dim() - n :]) for x in use] for use in self.uses)
        factors = [x[0] if len(x) == 1 else namespace(x[0]).concatenate(x) for x in zip(*every, strict=True)]
        (total.add_products if len(factors) == 2 else total.add)(*factors)


def both(first: AddTerms, second: AddTerms) -> AddTerms:
    """Return what adds the terms of two sums."""
    if isinstance(first, Terms) and isinstance(second, Terms) and first.factors == second.factors:
        return Terms(first.uses + second.uses)
    return lambda total: (first(total), second(total))


class _Known(NamedTuple):
    """What is known of a tensor: its memory and version, its terms, whether it is a sum over samples."""

    reference: StorageWeakRef
    version: int
    shape: tuple[int, ...]
    add: AddTerms | None
    summed: bool


def _memory(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)


class Notes:
    """Of which exact terms tensors are the rounded sums, for those that may be gradients of parameters.

    A tensor is known by its memory, which views share, and by its version: what is written to is forgotten.
    A sum over samples that a backward pass has rounded is no term of another sum: it depends on the cut.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._sizes = {p.numel() for p in parameters}
        self._parameters = {_memory(p) for p in parameters}
        self._known: dict[int, _Known] = {}
        self._turns = deque[int]()

    def note(self, result: Tensor, add: AddTerms, of: Sequence[Tensor] = (), summed: bool = True) -> None:
        """Note that `add` adds to an exact sum, of the shape of the result, what it is the rounded sum of.

        Not if its terms are made of a parameter, or of sums over samples: a product of two parameters, which
        no sample has met, has such gradients.

        Parameters
        ----------
        of : what the terms are made of.
        summed : whether they are added over samples, if this is part of a backward pass.
        """
        if any(_memory(x) in self._parameters or self._is_summed(x) for x in of):
            return
        summed = summed and torch._C._current_graph_task_id() != -1
        whole = result.numel() in self._sizes and result.is_contiguous() and not result.storage_offset()
        if not whole and not summed:
            return
        self._forget_some()
        reference = StorageWeakRef(result.untyped_storage())
        if reference.cdata not in self._known:
            self._turns.append(reference.cdata)
        shape = tuple(result.shape)
        self._known[reference.cdata] = _Known(
            reference, result._version, shape, add if whole else None, summed
        )

    def _is_summed(self, x: Tensor) -> bool:
        known = self._known.get(_memory(x))
        return known is not None and known.version == x._version and known.summed

    def _forget_some(self) -> None:
        """Look whether two tensors are still there: all have their turn, before twice as many are known."""
        for _ in range(min(2, len(self._turns))):
            key = self._turns.popleft()
            known = self._known.get(key)
            if known is not None and known.reference.expired():
                self._known.pop(key, None)
            elif known is not None:
                self._turns.append(key)

    def terms(self, x: Tensor) -> AddTerms | None:
        """Return what adds the exact terms of a tensor, or of a view of one; None if they are not known."""
        if x.numel() not in self._sizes:
            return None
        known = self._known.get(_memory(x))
        if known is None or known.version != x._version or known.add is None:
            return None
        shape, add = known.shape, known.add
        if tuple(x.shape) == shape and x.is_contiguous():
            return add
        size, steps, first = tuple(x.shape), x.stride(), x.storage_offset()

        def add_view(total: ExactSum) -> None:
            base = ExactSum(total.dtype, shape)
            add(base)
            places = torch.arange(prod(shape), device=x.device)
            total.merge(base.take(array_of(places.as_strided(size, steps, first))))

        return add_view


@dataclass
class Part:
    """So many samples of a batch, from the first one on, and what is noted in their backward passes."""

    first: int
    samples: int
    notes: Notes

    def place(self, shape: tuple[int, ...] | None) -> int:
        """Return where the numbers of these samples begin in a tensor of the whole batch, in C order.

        RuntimeError for tensors without these samples along the first dimension.
        """
        if not shape or shape[0] % self.samples:
            raise RuntimeError(
                f"in a part of {self.samples} samples random numbers need these along the first dimension, "
                f"got shape {shape or ()}; draw others outside of the part"
            )
        return prod(shape) // self.samples * self.first
