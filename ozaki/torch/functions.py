"""Products and sums of tensors: differentiable, for `torch.compile` and `torch.func`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from multiword.runtime.options import axes, integer
from ozaki.differentiable import product, weights_along
from ozaki.sums.arguments import broadcast_shape, reduced_shape
from ozaki.tensors import unsupported
from ozaki.torch import operators
from ozaki.torch.settings import ACCURACY, DTYPES


def matmul(a: Tensor, b: Tensor, *, accuracy: str | int | None = None) -> Tensor:
    """Multiply stacks of matrices, and vectors; differentiable.

    As `ozaki.matmul`; differs in the default accuracy, "normwise".

    Parameters
    ----------
    a, b : (..., m, k) and (..., k, n) tensors whose leading dimensions broadcast, or vectors. Both of one
        dtype, float32, float64, complex64 or complex128, and on one device, the CPU or an NVIDIA GPU.
    accuracy : as in `ozaki.matmul`; that of the derivatives dA = dC·Bᴴ and dB = Aᴴ·dC, too.

    Returns
    -------
    (..., m, n) tensor of their dtype, on their device.

    Raises
    ------
    TypeError : no tensors; other dtypes or layouts; two dtypes.
    ValueError : shapes that do not fit; two devices; an unknown accuracy.

    Examples
    --------
    >>> import torch, ozaki.torch
    >>> a = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64, requires_grad=True)
    >>> c = ozaki.torch.matmul(a, torch.ones(3, 1, dtype=torch.float64))
    >>> c.backward()
    >>> c.item(), a.grad
    (1.0, tensor([[1., 1., 1.]], dtype=torch.float64))
    """
    check(DTYPES, a=a, b=b)
    accuracy = ACCURACY if accuracy is None else accuracy
    return product(a, b, accuracy, lambda left, right: operators.matmul(left, right, str(accuracy)))


def sum(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the sum over dimensions, correctly rounded; differentiable.

    As `ozaki.sum`; differs in its names for axes.

    Parameters
    ----------
    x : tensor of float32, float64, complex64 or complex128, on the CPU or an NVIDIA GPU; with a dtype of
        float16 or bfloat16, too.
    dim : one or several dimensions; None for all.
    keepdim : whether they are kept with length 1.
    dtype : of these four that of the result, to which the exact sum is rounded once; that of x by default.

    Raises
    ------
    TypeError : no tensor; another dtype or layout; a real dtype for complex x; a dim that is no integer.
    ValueError : a dimension that x does not have, or one twice.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.sum(torch.tensor([1e16, 1.0, -1e16], dtype=torch.float64))
    tensor(1., dtype=torch.float64)
    """
    check_dtype(x, dtype)
    return operators.sum(x, dimensions(x, dim), keepdim, dtype)


def mean(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the mean over dimensions, correctly rounded; differentiable.

    As `ozaki.torch.sum`; differs in dividing, and is NaN for nothing.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.mean(torch.full((10,), 0.1, dtype=torch.float64)).item()
    0.1
    """
    check_dtype(x, dtype)
    return operators.mean(x, dimensions(x, dim), keepdim, dtype)


def average(
    x: Tensor, dim: int | Sequence[int] | None = None, weights: Tensor | None = None, keepdim: bool = False
) -> Tensor:
    """Return the weighted mean over dimensions, correctly rounded; differentiable in x and the weights.

    As `ozaki.average`; differs in its names for axes.

    Parameters
    ----------
    x, dim, keepdim : as in `sum`.
    weights : tensor of the dtype of x, or of its real part, that broadcasts to it; or, over a single
        dimension, a vector of its length. None weighs all alike.

    Raises
    ------
    TypeError, ValueError : as `sum`; ValueError for weights of another shape.
    ZeroDivisionError : weights that sum to exactly zero.

    >>> import torch, ozaki.torch
    >>> x = torch.tensor([1e30, 3.0, -1e30])
    >>> ozaki.torch.average(x, weights=torch.tensor([1.0, 2.0, 1.0]))
    tensor(1.5000)
    """
    if weights is None:
        return mean(x, dim, keepdim)
    check(DTYPES, x=x.real if isinstance(x, Tensor) and x.is_complex() else x, weights=weights)
    dims = dimensions(x, dim)
    result = operators.average(x, weights_along(x, weights, dims), dims)
    return result.reshape(reduced_shape(x.shape, tuple(dims), keepdim))


def dot(x: Tensor, y: Tensor, dim: int = -1) -> Tensor:
    """Return Σ x·y along a dimension, rounded once; differentiable.

    As `ozaki.dot`; differs in its name for the axis.

    Parameters
    ----------
    x, y : tensors that broadcast; dtypes and devices as in `matmul`. For vectors this is `torch.dot`.
    dim : the dimension, of the broadcast tensors, that is summed over.

    Raises
    ------
    TypeError : as `matmul`.
    ValueError : shapes that do not broadcast; a dimension that is not there; two devices.

    >>> import torch, ozaki.torch
    >>> x = torch.tensor([1e200, 1.0, 1e200], dtype=torch.float64)
    >>> ozaki.torch.dot(x, torch.tensor([1e200, 3.0, -1e200], dtype=torch.float64))
    tensor(3., dtype=torch.float64)
    """
    check(DTYPES, x=x, y=y)
    ndim = len(broadcast_shape(x=tuple(x.shape), y=tuple(y.shape)))
    (axis,) = axes("dim", integer("dim", dim), ndim)
    return operators.dot(x, y, axis - ndim)


def vdot(x: Tensor, y: Tensor) -> Tensor:
    """Return Σ conj(x)·y over all elements, rounded once.

    As `ozaki.torch.dot`; differs in flattening the tensors.

    >>> import torch, ozaki.torch
    >>> ozaki.torch.vdot(torch.tensor([1 + 2j]), torch.tensor([1 + 2j]))
    tensor(5.+0.j)
    """
    check(DTYPES, x=x, y=y)
    if x.numel() != y.numel():
        raise ValueError(f"x and y must have as many elements, got {x.numel()} and {y.numel()}")
    return operators.dot(x.conj().flatten(), y.flatten(), -1)


def check(dtypes: Sequence[torch.dtype], **tensors: Tensor) -> None:
    """Raise TypeError or ValueError for what is no tensors of one of these dtypes, on one device."""
    (first, like), *_ = tensors.items()
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
        got = unsupported(x) or (None if x.dtype in dtypes else x.dtype)
        if got:
            raise TypeError(f"{name} must be a strided tensor of {', '.join(map(str, dtypes))}; got {got}")
        if x.dtype is not like.dtype:
            raise TypeError(f"{first} and {name} must have one dtype, got {like.dtype} and {x.dtype}")
        if x.device != like.device:
            raise ValueError(f"{first} and {name} must be on one device, got {like.device} and {x.device}")


def check_dtype(x: Tensor, dtype: torch.dtype | None) -> None:
    """Raise TypeError or ValueError for what has no sum in a dtype, or in its own."""
    check(DTYPES if dtype is None else (*DTYPES, torch.float16, torch.bfloat16), x=x)
    if dtype is not None and dtype not in DTYPES:
        raise TypeError(f"dtype must be {', '.join(map(str, DTYPES))} or None, got {dtype!r}")
    if dtype is not None and x.is_complex() and not dtype.is_complex:
        raise TypeError(f"dtype must be complex for a tensor of {x.dtype}, got {dtype}")


def dimensions(x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    """Return dimensions as a list of numbers from 0 on."""
    return list(axes("dim", tuple(dim) if isinstance(dim, list) else dim, x.dim()))
