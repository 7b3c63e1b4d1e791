"""The mode in which PyTorch's own products are this library's."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from ozaki.modes import Shared
from ozaki.torch.overrides import CONVOLUTIONS, NEVER_REPLACED, RECURRENT, SPARSE, register
from ozaki.torch.settings import ACCURACY, DTYPES, HALVES, REPLACEABLE, Settings, enter, leave

_eager = Shared(partial(torch.compiler.set_stance, "force_eager"))
"""Within it compiled functions run as they are written, in all threads: their code makes small products
itself. The first one of a process imports PyTorch's compiler, about a second, if no optimizer has done so."""


@contextmanager
def reproducible(
    accuracy: str | int = ACCURACY,
    dtypes: torch.dtype | Iterable[torch.dtype] = (torch.float64, torch.complex128),
    sums: bool = False,
    strict: bool = False,
    everything: bool = False,
) -> Iterator[Counter[str]]:
    """Compute with this library every matrix product that PyTorch makes within the context.

    The operators mm, addmm, bmm, baddbmm, addbmm, mv, addmv, dot and vdot of strided tensors on a CPU or an
    NVIDIA GPU have the same bits on both, whatever the number of threads. That covers what PyTorch makes of
    them: `@`, `matmul`, `linear`, `einsum`, `tensordot`, `scaled_dot_product_attention`, backward passes,
    products inside `torch.linalg.pinv`. Products of a sparse tensor (COO, CSR, CSC or BSR) and a strided one,
    `torch.sparse.mm` and its derivatives are correctly rounded. PyTorch still computes other dtypes, devices
    and layouts.

    Parameters
    ----------
    accuracy : of the products, as in `ozaki.matmul`.
    dtypes : one or several that are replaced, of float32, float64, complex64, complex128, int64, float16 and
        bfloat16. Products of int64 are modulo 2**64, as PyTorch's, on a CPU many times as fast. Of half
        precision products, "normwise" and rounded once to the dtype, and sums are replaced.
    sums : whether `sum` and `mean` are replaced as well, by `ozaki.sum` and `ozaki.mean`: correctly rounded.
    strict : whether the first operator whose bits may vary raises RuntimeError, with its name and what to
        write instead, before it computes anything.
    everything : whether convolutions, elementary functions, activations, softmax, layer, batch, group and
        instance norms, squared and negative log-likelihood losses, embeddings, additions by index, pooling,
        variances, norms and running sums of float32 and float64 are replaced, too, with their
        derivatives, random numbers by those of `ozaki.random`, fused steps of optimizers and operators of
        lists by plain ones; implies sums and strict, for other machines, too.

    Returns
    -------
    A context; entered, it is a counter of the operators that this library has computed, by name. On leaving
    it warns if PyTorch has computed floating-point numbers whose bits may vary with the number of threads,
    the cut of a batch or the order of its samples, and says how many calls of which operators: all but those
    that are known not to vary (`ozaki.torch.independent`).

    Raises
    ------
    TypeError, ValueError : unknown accuracy or dtype.
    RuntimeError : entered within a function that `torch.compile` compiles; with strict, see above.
    ImportError : PyTorch is not installed.

    Notes
    -----
    The mode belongs to the thread or asyncio task that enters it; a backward pass is in the mode of its
    caller, whichever threads it runs on. Blocks nest and interleave, and the innermost open one rules. Each
    ends where it is left, after an exception too: outside, PyTorch's kernels are called as before, some 3 µs
    later. Compiled functions are run uncompiled, in all threads, while a block is open; `ozaki.torch.matmul`
    can be compiled.

    PyTorch's own remain: LAPACK's factorizations and, without `everything`, convolutions, softmax and
    elementwise functions: `sigmoid`, `silu` and `gelu` vary with the cut of a batch and with threads, `exp`
    between a CPU and a GPU, random numbers, dropout's too.

    References
    ----------
    As `ozaki.matmul` and `ozaki.sum`.

    Examples
    --------
    >>> import torch, ozaki.torch
    >>> x = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64)
    >>> with ozaki.torch.reproducible() as calls:
    ...     x @ torch.ones(3, 1, dtype=torch.float64)
    tensor([[1.]], dtype=torch.float64)
    >>> calls["mm"]
    1
    """
    chosen = _checked(dtypes, accuracy)
    options = sums or everything, strict or everything, everything
    settings = Settings(accuracy, chosen - HALVES.keys(), *options, chosen & HALVES.keys())
    settings.request(np.empty(0))  # an unknown accuracy is refused now
    register(everything)
    enter(settings)
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(_eager())
            except RuntimeError as error:
                raise RuntimeError(
                    "ozaki.torch.reproducible cannot be entered within a compiled function; "
                    "enter it around the call"
                ) from error
            yield settings.calls
    finally:
        leave(settings)
    if settings.native or settings.varying:
        warnings.warn("; ".join(_left(settings)), stacklevel=3)


def _checked(dtypes: Any, accuracy: str | int) -> frozenset[torch.dtype]:
    try:
        chosen = frozenset((dtypes,) if isinstance(dtypes, torch.dtype) else dtypes)
    except TypeError:
        chosen = frozenset([dtypes])
    if not chosen.issubset(REPLACEABLE):
        allowed = ", ".join(map(str, REPLACEABLE))
        raise TypeError(f"dtypes must be one or several of {allowed}, got {dtypes!r}")
    if chosen & HALVES.keys() and accuracy != ACCURACY:
        raise ValueError(f"accuracy must be {ACCURACY!r} for half precision, got {accuracy!r}")
    return chosen


def _left(settings: Settings) -> Iterator[str]:
    """Yield the parts of the warning about the calls that PyTorch computed itself in the mode."""
    opening = "within ozaki.torch.reproducible PyTorch itself computed "
    if settings.native:
        yield from _native(settings, opening)
        opening = "and "
    if settings.varying:
        counts = ", ".join(f"{n} {operator}" for operator, n in settings.varying.most_common())
        may = "whose bits may vary with threads, the cut of a batch or the order of its samples"
        yield f"{opening}these, {may}: {counts}"
        if settings.varying.keys() & {"sum", "mean"} and not settings.sums:
            yield "to replace sums and means, say sums=True"
        yield "reproducible(strict=True) raises at the first, and says what to write instead"


def _native(settings: Settings, opening: str) -> Iterator[str]:
    """Yield what is said of products, convolutions and solves."""
    calls: dict[torch.dtype, Counter[str]] = defaultdict(Counter)
    for (operator, dtype), n in settings.native.items():
        calls[dtype][operator] = n
    counts = ", ".join(
        f"{of.total()} of {dtype} ({', '.join(f'{n} {operator}' for operator, n in of.most_common())})"
        for dtype, of in calls.items()
    )
    yield f"{opening}these calls: {counts}"
    operators = set().union(*calls.values())
    products = {d for d, of in calls.items() if of.keys() - NEVER_REPLACED - CONVOLUTIONS}
    if products & {*DTYPES} - settings.dtypes:
        included = (str(d) for d in DTYPES if d in settings.dtypes | products)
        yield f"to replace products, too, say dtypes=({', '.join(included)})"
    if operators & RECURRENT:
        yield "torch.backends.mkldnn.flags(enabled=False), or cudnn's, takes recurrent layers apart"
    if operators & NEVER_REPLACED:
        yield "solves are never replaced"
    if any(of.keys() & SPARSE for dtype, of in calls.items() if dtype in settings.dtypes):
        yield "products of two sparse tensors are never replaced"
    if operators & CONVOLUTIONS:
        yield "to replace convolutions, say everything=True"
    halves = [dtype for dtype in HALVES if calls.keys() & {dtype} - settings.halves]
    if halves:
        yield f"of half precision products and sums are replaced, with dtypes={', '.join(map(str, halves))}"
