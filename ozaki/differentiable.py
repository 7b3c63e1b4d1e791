"""What the differentiable functions of `ozaki.torch` and `ozaki.jax` have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from ozaki import elementary
from ozaki.arguments import check_accuracy, matrices_of
from ozaki.elementary.derivatives import SLOPES
from ozaki.elementary.normal import gelu_text
from ozaki.elementary.record import FUNCTIONS
from ozaki.product.request import CERTIFIED
from ozaki.public import PUBLIC
from ozaki.sums.arguments import broadcast_shape


def product(a: Any, b: Any, accuracy: str | int, multiply: Callable[[Any, Any], Any]) -> Any:
    """Return a product of PyTorch's tensors, or JAX's arrays, by a function of stacks of matrices.

    A stack times one matrix is one product of all its rows where an element depends on its row and column
    alone, and not where "fp64" and "fp32" certify each matrix of the stack on its own.
    """
    left, right, _ = matrices_of(a, b)
    check_accuracy(accuracy)
    rows = left.shape[:-1]
    folded = left.ndim > 2 == right.ndim and accuracy not in CERTIFIED
    result = multiply(left.reshape(prod(rows), left.shape[-1]) if folded else left, right)
    result = result.reshape(*rows, right.shape[-1]) if folded else result
    result = result[..., 0, :] if a.ndim == 1 else result
    return result[..., 0] if b.ndim == 1 else result


def weights_along(x: Any, weights: Any, axes: Sequence[int]) -> Any:
    """Return weights in a shape that broadcasts to that of x. ValueError for others.

    A vector of the length of a single axis lies along it.
    """
    if weights.ndim == 1 < x.ndim and len(axes) == 1 and len(weights) == x.shape[axes[0]]:
        weights = weights.reshape([n if a in axes else 1 for a, n in enumerate(x.shape)])
    if broadcast_shape(x=tuple(x.shape), weights=tuple(weights.shape)) != tuple(x.shape):
        raise ValueError(
            f"weights must broadcast to x, got shapes {tuple(weights.shape)} and {tuple(x.shape)}"
        )
    return weights


def parts(name: str, x: Any, y: Any, compute: Callable[..., Any]) -> list[Any]:
    """Return the parts of a function of x + iy, each computed by its name and arguments."""
    names = elementary.PARTS[name]
    return [compute(part, *((y, x) if FUNCTIONS[part].names == "yx" else (x, y))) for part in names]


_FORM = """{summary}, differentiable.

    As `ozaki.{name}`; differs in taking {arrays}, and in having derivatives of every order, which are made of
    functions of this library in float64 and so have the same bits on every machine, too:

    {slopes}

    Parameters
    ----------
    {names} : {arrays} of float16, bfloat16, float32{dtypes}, on the CPU or an NVIDIA GPU.

    Raises
    ------
    TypeError : another dtype, or two. ValueError : shapes that do not broadcast.

    {example}
    """


def elementary_forms(
    front: str, arrays: str, example: str, compute: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """Return the elementary functions of tensors or JAX's arrays, by name.

    Parameters
    ----------
    front : the module that has them.
    arrays, example : what they take, and an example of the function {0}, of arguments {1}, for docstrings.
    compute : makes of a text's name and arguments its values.
    """

    def of_gelu(x: Any, *, approximate: str = "none") -> Any:
        return compute(gelu_text(approximate), x)

    def form(name: str) -> Callable[..., Any]:
        record = PUBLIC[name]
        call = of_gelu if name == "gelu" else partial(compute, name)

        def made(*x: Any, **options: Any) -> Any:
            return call(*x, **options)

        kept = [p for n, p in record.parameters.items() if n not in ("out", "where")]
        signature = inspect.Signature([p.replace(annotation=p.empty) for p in kept])
        made.__signature__ = signature  # type: ignore[attr-defined]
        made.__name__, made.__qualname__, made.__module__ = name, name, front
        made.__doc__ = _FORM.format(
            name=name,
            summary=str(inspect.getdoc(record.value)).partition(", correctly rounded")[0],
            names=", ".join(record.arrays),
            arrays=arrays,
            dtypes=", float64, complex64\n        or complex128"
            if name in elementary.PARTS
            else " or float64",
            slopes=_slopes(name, record.arrays),
            example=example.format(name, ", ".join("x" for _ in record.arrays)).strip(),
        )
        return made

    return {name: form(name) for name in elementary.NAMES}


def _slopes(name: str, arguments: Sequence[str]) -> str:
    """Return a function's derivatives in words."""
    if name not in SLOPES:
        raise KeyError(f"give the derivative of {name} in ozaki/elementary/slopes.py")
    rows = [f"∂/∂{x} = {slope.formula}" for x, slope in zip(arguments, SLOPES[name], strict=True)]
    if name == "gelu":
        rows += [f'with approximate="tanh" {SLOPES["gelu_tanh"][0].formula}']
    return ";\n    ".join(rows) + "."
