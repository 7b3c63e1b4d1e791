"""How a product of Dask arrays is asked for, checked."""

from __future__ import annotations

from dataclasses import dataclass

import dask.array as da
import numpy as np

from multiword.engines import Engine
from multiword.runtime.arrays import Array
from ozaki.arguments import request_of, result_dtype
from ozaki.product.request import TARGETS, Request


@dataclass(frozen=True)
class Asked:
    """How a product of Dask arrays is asked for: what every task needs to know."""

    dtype: np.dtype
    k: int
    accuracy: str | int
    engine: str | Engine
    workspace: int | None

    def request(self, like: Array) -> Request:
        """The request of a task on such arrays."""
        return request_of(like, self.accuracy, "residues", None, self.engine, self.workspace)


def asked_for(
    x: da.Array,
    y: da.Array,
    accuracy: str | int | None,
    scheme: str,
    engine: str | Engine,
    workspace: int | None,
) -> Asked:
    for name, array in (("a", x), ("b", y)):
        if array.ndim not in (1, 2):
            raise ValueError(
                f"{name} must be a matrix or a vector, got shape {array.shape}; for stacks, "
                "dask.array.map_blocks(ozaki.matmul, …) multiplies chunks of whole matrices"
            )
    if scheme not in ("auto", "residues"):
        raise ValueError(f"scheme must be 'auto' or 'residues' for Dask arrays, got {scheme!r}")
    dtype = result_dtype(x._meta, y._meta)
    chosen = TARGETS[dtype.name] if accuracy is None else accuracy
    asked = Asked(dtype, x.shape[-1], chosen, engine, workspace)
    asked.request(x._meta)  # refuses what every task would refuse
    return asked
