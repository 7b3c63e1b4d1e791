"""Products in limbs of the integers, where a GPU takes less time for them than for residues: see `cut`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from multiword.engines.cublas import Cublas
from ozaki.product.limbs.columns import limbs_of_columns, multiply_columns
from ozaki.product.limbs.small import limbs_of_small, multiply_small
from ozaki.product.limbs.thin import limbs_of_thin, multiply_thin
from ozaki.product.request import Request
from ozaki.schemes import ProductSpecification
from ozaki.tuning import FEW_PRODUCTS, NARROW


class InLimbs(NamedTuple):
    """How a product is multiplied in limbs.

    Attributes
    ----------
    number, word : of the limbs, and what holds one: "int32", or "int8" on tensor cores.
    workspace : bytes for limbs and sums in memory.
    multiply : called with both factors, their scales and `out`.
    """

    number: int
    word: str
    workspace: int
    multiply: Callable[..., None]


def in_limbs(specification: ProductSpecification, request: Request) -> InLimbs | None:
    """Return how a product is multiplied in limbs.

    None where residues take less time, or something else is wanted.
    """
    if request.scheme != "auto" or request.word is not None:
        return None
    if not (isinstance(request.engine, Cublas) and request.engine.fused):  # everything is to be cuBLAS's
        return None
    small = limbs_of_small(specification)
    if small is None:
        thin, columns = limbs_of_thin(specification), limbs_of_columns(specification)
        if thin is not None and thin.workspace > request.workspace:
            thin = None
        if columns is not None and columns.workspace > request.workspace:
            columns = None
        if columns is not None and (thin is None or thin.products > FEW_PRODUCTS):
            multiply: Callable[..., None] = partial(multiply_columns, columns, specification)
            return InLimbs(columns.number, "int8", columns.workspace, multiply)
        if thin is not None:
            multiply = partial(multiply_thin, thin, specification)
            return InLimbs(thin.limbs.number, "int32", thin.workspace, multiply)
        if min(specification.shape[0], specification.shape[2]) <= NARROW:
            small = limbs_of_small(specification, of_any_size=True)
    return small and InLimbs(small.number, "int32", 0, partial(multiply_small, small, specification))
