"""`compute-sanitizer --tool racecheck python -m tests.gpu.races`: are there races in Hopper's own kernel?

Its tiles leave no shared memory to the sanitizer, which keeps some at the start: here they have a stage less,
and as much more as alignment then takes. Residues are compared with exact products, besides.
"""

from unittest.mock import patch

import numpy as np

from multiword.engines import fused, residues
from multiword.engines.cublas import Cublas
from ozaki.product.factor import Factor
from ozaki.product.request import Request
from ozaki.product.steps import bounds, norm_scaled, pairwise

MODULI, ROWS, COLUMNS = (255, 253, 256), 700, 600
LENGTHS = (144, 320, 784)
"""Two, three and seven steps: fewer than stages, as many, and more."""


class Moved(fused.Tile):
    """A tile whose shared memory may begin anywhere."""

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return super().shared + 1024


def moved(tile):
    """A tile with a stage less."""
    return Moved(**vars(tile) | {"stages": 3})


def right(cupy, tile, length):
    """Whether all residues are those of exact products."""
    rng = cupy.random.default_rng(length)
    a, b = (rng.integers(-127, 128, (len(MODULI), 1, r, length), dtype=np.int8) for r in (ROWS, COLUMNS))
    found = cupy.empty((len(MODULI), 1, ROWS, COLUMNS), np.int8)
    residues.launch(a, b, MODULI, found, False, moved(tile))
    p = cupy.array(MODULI, float)[:, None, None, None]
    exact = cupy.matmul(a.astype(float), b.astype(float).swapaxes(2, 3))
    low = exact - p * cupy.rint(exact / p)
    low[low == 128] = -128
    return bool((low == found).all())


def same_bound(cupy, tile, length):
    """Whether the pairwise bound is that of products that are written."""
    rng = np.random.default_rng(length)
    left, right = (
        Factor(cupy.asarray(rng.standard_normal(s) * 2.0 ** rng.integers(-9, 9, s)), i)
        for i, s in enumerate(((ROWS, length), (length, COLUMNS)))
    )
    found = []
    for engine in (Cublas(), Cublas(fused=True)):
        request = Request("fp64", "auto", None, engine, 1 << 30)
        pending = bounds(left, right, request, norm_scaled(left, right, request).scales)
        with patch.object(fused, "choose_tile", lambda *_: moved(tile)):
            found.append(pairwise(left, right, request, pending)())
    return found[0] == found[1]


def main():
    import cupy

    for tile in (fused.HOPPER, fused.HOPPER_ALONE):
        for length in LENGTHS:
            print(
                f"clusters of {tile.cluster}, k = {length}:",
                "right" if right(cupy, tile, length) and same_bound(cupy, tile, length) else "WRONG",
            )


if __name__ == "__main__":
    main()
