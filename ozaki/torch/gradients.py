"""Gradients that are exact sums over samples, whatever the cut of a batch into parts and workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiword.runtime.tensors import array_of, numpy_dtype, stream_of, tensor_of
from ozaki.sums.exactsum import ExactSum
from ozaki.torch.notes import Notes, Part
from ozaki.torch.settings import active

DTYPES = (torch.float32, torch.float64)


class ExactGradients:
    """Gradients of a batch, added exactly over its parts, and rounded once.

    A parameter's gradient is a sum over samples, and over their tokens or places, of products (linear layers,
    convolutions, weights of norms) or of numbers (biases, embeddings, what is broadcast to the samples). Here
    these products are exact, and so are the sums over all uses of the parameter, over all parts of the batch
    and over all workers; `write` rounds each element once. The factors are outputs of layers and gradients
    of these, each rounded, which in the mode depend on their sample alone. So one batch of 64 samples, 4
    parts of 16 and 16 parts of 4, on any number of workers, in any order, have the same `.grad`, bit for
    bit. It is not the `.grad` that the mode has without this class, whose products have the mode's accuracy.

    The loss of a part is a sum over its samples, divided by the number of samples (or tokens) of the whole
    batch: `cross_entropy(…, reduction="sum") / 64`. A mean over the part would depend on the cut.
    Random numbers that are drawn within a part have its samples along the first dimension. Each sample gets
    the numbers of its place in the batch, so that dropout does not depend on the cut. Batch norm does: its
    statistics are those of the part. Give it parts of one size in any cut.

    Parameters
    ----------
    parameters : tensors of float32 or float64, as `model.parameters()`; those that require no gradient are
        left out.

    Raises
    ------
    TypeError : parameters of another dtype.

    Notes
    -----
    For each element of a parameter there are 8 bytes for every digit of 32 bits in use, mostly 5 to 8 digits,
    beside `.grad` itself. A backward pass raises RuntimeError where a gradient is no such sum, because a
    parameter went through another operation before the samples met it (weight norm, a penalty, a slice, a
    product of two parameters, rows looked up once for all samples): its rounding depends on the cut.

    References
    ----------
    Kulisch, Computer Arithmetic and Validity, chapter 8 (the complete register). Products: as
    `ozaki.ExactSum.add_matmul`.

    Examples
    --------
    >>> import torch, ozaki.torch
    >>> layer, x = torch.nn.Linear(3, 2), torch.randn(8, 3)
    >>> gradients = ozaki.torch.ExactGradients(layer.parameters())
    >>> def gradient(size):
    ...     layer.zero_grad()
    ...     with ozaki.torch.reproducible(dtypes=torch.float32, everything=True):
    ...         for first in range(0, 8, size):
    ...             with gradients.part(first, size):
    ...                 (layer(x[first : first + size]).square().sum() / 8).backward()
    ...     gradients.write()
    ...     return layer.weight.grad
    >>> torch.equal(gradient(8), gradient(2))
    True
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = {id(p): p for p in parameters if p.requires_grad}
        for p in self._parameters.values():
            if p.dtype not in DTYPES:
                raise TypeError(f"parameters must be of float32 or float64, got {p.dtype}")
        self._sums: dict[int, ExactSum] = {}
        self._seed: Tensor | None = None
        self._in_parts = False  # whether a backward pass was

    @contextmanager
    def part(self, first: int, samples: int) -> Iterator[None]:
        """Return a context whose backward passes add to these sums, of so many samples from the first one on.

        `.grad` is left to PyTorch meanwhile, and `write` replaces it.

        Raises
        ------
        ValueError : first is negative, or there are no samples. RuntimeError : outside of a mode of sums;
        within another part; and in it random numbers whose number is no multiple of that of the samples.
        """
        settings = active()
        if first < 0 or samples < 1:
            raise ValueError(f"first and samples must be at least 0 and 1, got {first} and {samples}")
        if settings is None or not settings.sums:
            raise RuntimeError("enter ozaki.torch.reproducible(everything=True) around the parts of a batch")
        if settings.part is not None:
            raise RuntimeError("a part of a batch has no parts: leave the one before it first")
        parameters = self._parameters.values()
        notes = Notes(parameters)
        hooks = [p.register_hook(partial(self._add, notes, p)) for p in parameters]
        settings.part = Part(first, samples, notes)
        try:
            with self._seeded():
                yield
        finally:
            settings.part = None
            for hook in hooks:
                hook.remove()

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """A context of one seed for all parts: the generator goes on as after the first of them alone."""
        before, seed = torch.get_rng_state(), self._seed
        self._seed = before if seed is None else seed
        torch.set_rng_state(self._seed)
        try:
            yield
        finally:
            if seed is not None:
                torch.set_rng_state(before)

    def _add(self, notes: Notes, parameter: Tensor, gradient: Tensor) -> None:
        terms = notes.terms(gradient)
        if terms is None:
            raise RuntimeError(
                f"the gradient of a parameter of shape {tuple(parameter.shape)} is no sum over samples that "
                "ozaki.torch.ExactGradients knows, so its rounding would depend on the cut of the batch: "
                "samples do not meet the parameter itself, but a slice, a product or a function of it, or "
                "rows that were looked up once for all samples: give the indices their dimension in front, "
                "as in embedding(positions.expand(samples, -1))"
            )
        self._in_parts = True
        with stream_of(gradient):
            terms(self._sum(parameter))

    def _sum(self, parameter: Tensor) -> ExactSum:
        new = ExactSum(numpy_dtype(parameter.dtype), tuple(parameter.shape))
        return self._sums.setdefault(id(parameter), new)

    def write(self) -> None:
        """Set every parameter's `.grad` to its sum, rounded once, and begin the next batch.

        Raises
        ------
        RuntimeError : no backward pass was in a part since the last time.
        """
        if not (self._sums or self._in_parts):
            raise RuntimeError("no backward pass was in a part: call backward() within `part` before `write`")
        for key, total in self._sums.items():
            self._parameters[key].grad = self._rounded(self._parameters[key], total)
        self._sums, self._seed, self._in_parts = {}, None, False

    def _rounded(self, parameter: Tensor, total: ExactSum) -> Tensor:
        with stream_of(parameter):
            result = tensor_of(total.round())
        return result.to(parameter.device).reshape(parameter.shape)

    def all_reduce(self, group: Any = None) -> None:
        """Make the sums those of all processes of a group, by `torch.distributed`: digits are added.

        All processes have the same parameters; the backend is gloo, or NCCL for parameters on GPUs.
        """
        self._reduce(list(self._parameters.values()), group)

    def attach(self, model: Any) -> None:
        """Make a `DistributedDataParallel` add these sums over its processes, by a communication hook.

        All backward passes run in parts, and all but the last one of a batch in `model.no_sync()`, too. After
        the last one `.grad` is the sum over all processes, rounded once. It is a sum, not the mean that is
        usual there: losses are divided by the number of samples of all processes. `write` begins the next
        batch.

        Raises
        ------
        ValueError : the model has other parameters than these.
        """
        if {id(p) for p in model.parameters() if p.requires_grad} != self._parameters.keys():
            raise ValueError("the model must have the parameters that these gradients are of, and no others")
        model.register_comm_hook(self, lambda gradients, bucket: gradients._of_bucket(bucket))

    def _of_bucket(self, bucket: Any) -> torch.futures.Future[Tensor]:
        parameters, buffer, start = bucket.parameters(), bucket.buffer(), 0
        self._reduce(parameters, None)
        for p in parameters:
            buffer[start : start + p.numel()] = self._rounded(p, self._sums.pop(id(p))).reshape(-1)
            start += p.numel()
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(buffer)
        return done

    def _reduce(self, parameters: list[Tensor], group: Any) -> None:
        """Replace sums by those of all processes: a maximum of windows, then a sum of digits."""
        distributed = torch.distributed
        sums = [self._sum(p) for p in parameters]
        device = parameters[0].device if distributed.get_backend(group) == "nccl" else torch.device("cpu")
        windows = torch.from_numpy(np.stack([total.window for total in sums])).to(device)
        distributed.all_reduce(windows, distributed.ReduceOp.MAX, group=group)
        for p, total, window in zip(parameters, sums, windows.tolist(), strict=True):
            with stream_of(p):
                digits = tensor_of(total.to_digits(window)).to(device)
                distributed.all_reduce(digits, group=group)
                merged = ExactSum.from_digits(array_of(digits), window, total.dtype)
            self._sums[id(p)] = merged
