"""Contractions of tensors, differentiable: those of `ozaki.einsum`, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ozaki import contractions
from ozaki.arguments import check_accuracy
from ozaki.contractions import check_subscripts, pair_by_pair, planned
from ozaki.pairs_of_tensors import Labels, lengths_of
from ozaki.torch.functions import check
from ozaki.torch.operators import bilinear, new_operator, save, sum
from ozaki.torch.settings import ACCURACY, DTYPES


def einsum(
    subscripts: str, *operands: Tensor, accuracy: str | int | None = None, optimize: Any = "auto"
) -> Tensor:
    """Return the sum of products that subscripts name, each pair of tensors one product; differentiable.

    As `ozaki.einsum`; differs in the default accuracy, "normwise".

    Parameters
    ----------
    subscripts, optimize : as in `ozaki.einsum`.
    operands : tensors; dtypes and devices as in `ozaki.torch.matmul`.
    accuracy : as in `ozaki.einsum`; that of the derivatives, too.

    Returns
    -------
    Tensor of their dtype, on their device.

    Raises
    ------
    TypeError, ValueError : as `ozaki.einsum` and `ozaki.torch.matmul`.

    >>> import torch, ozaki.torch
    >>> a = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64)
    >>> ozaki.torch.einsum("ij,kj->ik", a, torch.ones(1, 3, dtype=torch.float64), accuracy="exact")
    tensor([[1.]], dtype=torch.float64)
    """
    check_subscripts(subscripts, len(operands))
    check(DTYPES, **{f"operand {i}": x for i, x in enumerate(operands)})
    accuracy = ACCURACY if accuracy is None else accuracy
    check_accuracy(accuracy)
    inputs, output, path = _planned(subscripts, tuple(tuple(x.shape) for x in operands), optimize)
    tensors, labels = map(list, zip(*map(_diagonal, operands, inputs), strict=True))
    if len(tensors) == 1:
        return _summed(tensors[0], labels[0], output)

    def contract(x: Tensor, of_x: Labels, y: Tensor, of_y: Labels, kept: Labels) -> Tensor:
        of_x, of_y, kept = map("".join, (of_x, of_y, kept))
        return _contract(x, y, f"{of_x},{of_y}->{kept}", str(accuracy))

    return pair_by_pair(tensors, labels, output, path, contract)


def _planned(subscripts: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> tuple[Any, str, Any]:
    """Return the labels of each tensor, those of the result, and the path, as tuples."""
    labels, output, path = planned(subscripts, shapes, optimize)
    return tuple(labels), output, tuple(map(tuple, path))


# To `torch.compile` what opt_einsum computes is a constant. PyTorch's decorator, which says so by this
# attribute, would import the compiler first, for seconds.
_planned._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _diagonal(x: Tensor, of_x: Labels) -> tuple[Tensor, str]:
    """Return a tensor in which no label occurs twice, a view."""
    left = list(of_x)
    while (twice := next((label for label in left if left.count(label) > 1), None)) is not None:
        i = left.index(twice)
        j = left.index(twice, i + 1)
        n = max(x.shape[i], x.shape[j])
        x = x.expand([n if d in (i, j) else -1 for d in range(x.dim())]).diagonal(dim1=i, dim2=j)
        left = [label for d, label in enumerate(left) if d not in (i, j)] + [twice]
    return x, "".join(left)


def _summed(x: Tensor, of_x: Labels, out: str) -> Tensor:
    """Return a tensor summed over the labels that `out` lacks, in its order."""
    over = [d for d, label in enumerate(of_x) if label not in out]
    left = [label for label in of_x if label in out]
    return (sum(x, over, False) if over else x).permute([left.index(label) for label in out])


def _parts(subscripts: str) -> tuple[str, str, str]:
    inputs, _, out = subscripts.partition("->")
    of_x, _, of_y = inputs.partition(",")
    return of_x, of_y, out


def _product(x: Any, y: Any, subscripts: str, accuracy: str) -> Any:
    wanted = int(accuracy) if accuracy.isdecimal() else accuracy
    return contractions.einsum(subscripts, x, y, accuracy=wanted)


def _empty(x: Tensor, y: Tensor, subscripts: str, accuracy: str) -> Tensor:
    of_x, of_y, out = _parts(subscripts)
    lengths = lengths_of((x.shape, y.shape), (of_x, of_y))
    return x.new_empty([lengths[label] for label in out])


def _batched(x: Tensor, y: Tensor, subscripts: str, accuracy: str) -> Sequence[Any]:
    """With one label more, that of the batch in front of tensors, and without axes of length 1 after it."""
    *inputs, out = _parts(subscripts)
    batch = next(x for x in map(chr, range(ord("A"), 1 << 16)) if x.isalpha() and x not in subscripts)
    given, labels = [], []
    for z, of_z in zip((x, y), inputs, strict=True):
        mapped = z.dim() > len(of_z)
        given.append(z.reshape(len(z), *z.shape[z.dim() - len(of_z) :]) if mapped else z)
        labels.append(batch + of_z if mapped else of_z)
    return *given, f"{','.join(labels)}->{batch}{out}", accuracy


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, y, ctx.subscripts, ctx.accuracy = inputs
    save(ctx, x, y)


def _gradient(x: Tensor, of_x: str, g: Tensor, of_g: str, y: Tensor, of_y: str, accuracy: str) -> Tensor:
    """Return the gradient of x, of products of that of the result and of y; alike along what only x has."""
    rest = lengths_of((g.shape, y.shape), (of_g, of_y))
    kept = [label for label, n in zip(of_x, x.shape, strict=True) if rest.get(label) == n]
    found = _contract(g, y.conj(), f"{of_g},{of_y}->{''.join(kept)}", accuracy)
    shape = [n if label in kept else 1 for label, n in zip(of_x, x.shape, strict=True)]
    return found.reshape(shape).expand(x.shape)


def _gradients(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    (x, y), needed = ctx.saved_tensors, ctx.needs_input_grad
    of_x, of_y, out = _parts(ctx.subscripts)
    dx = _gradient(x, of_x, g, out, y, of_y, ctx.accuracy) if needed[0] else None
    dy = _gradient(y, of_y, g, out, x, of_x, ctx.accuracy) if needed[1] else None
    return dx, dy, None, None


def _tangent(ctx: Any, dx: Tensor | None, dy: Tensor | None, *_: None) -> Tensor:
    return bilinear(ctx, lambda x, y: _contract(x, y, ctx.subscripts, ctx.accuracy), dx, dy)


_contract = new_operator(
    "einsum(Tensor x, Tensor y, str subscripts, str accuracy) -> Tensor",
    _product,
    _empty,
    _batched,
    _keep,
    _gradients,
    _tangent,
)
