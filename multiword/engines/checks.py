"""The checks that every engine makes on a call, in one place."""

from __future__ import annotations

from multiword.engines.contract import Engine, Product, get_product
from multiword.runtime.arrays import Array, namespace


def check_multiply(
    engine: Engine, name: str, a: Array, bt: Array, out: Array | None, beta: float
) -> tuple[Product, Array]:
    """Return the product's description and the array to write to, or raise."""
    product = get_product(name)
    if name not in engine.products:
        known = ", ".join(sorted(engine.products))
        raise ValueError(f"engine {engine.name!r} has no {name!r} product; it has {known}")
    for label, x in (("a", a), ("bt", bt)):
        if x.dtype != product.word:
            raise TypeError(f"{label} must be {product.word} for a {name!r} product, got {x.dtype}")
        check_rows_contiguous(x, label)
    if a.ndim != bt.ndim or a.ndim not in (2, 3) or a.shape[:-2] != bt.shape[:-2]:
        raise ValueError(f"a and bt must be two matrices or two equal batches, got {a.shape} and {bt.shape}")
    if a.shape[-1] != bt.shape[-1]:
        raise ValueError(f"a and bt must agree in their last axis, got {a.shape} and {bt.shape}")
    shape = (*a.shape[:-1], bt.shape[-2])
    if out is None:
        if beta != 0:
            raise ValueError("out must be given when beta is not 0")
        return product, namespace(a).empty(shape, product.result)
    if out.shape != shape or out.dtype != product.result:
        raise ValueError(f"out must be {product.result} of shape {shape}, got {out.dtype} of {out.shape}")
    check_rows_contiguous(out, "out")
    return product, out


def check_rows_contiguous(x: Array, label: str) -> None:
    """Raise ValueError unless the last axis of `x` is contiguous."""
    if x.shape[-1] > 1 and x.strides[-1] != x.itemsize:
        raise ValueError(f"{label} must have a contiguous last axis, got strides {x.strides}")
