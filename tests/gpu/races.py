"""`compute-sanitizer --tool racecheck python -m tests.gpu.races`: are there races in Hopper's own kernel?

Its tiles leave no shared memory to the sanitizer, which keeps some at the start: here they have a stage less,
and as much more as alignment then takes. Residues are compared with exact products, besides.
"""

import numpy as np

from multiword.engines import fused, residues

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
    residues.launch(a, b, MODULI, found, False, tile=moved(tile))
    p = cupy.array(MODULI, float)[:, None, None, None]
    exact = cupy.matmul(a.astype(float), b.astype(float).swapaxes(2, 3))
    low = exact - p * cupy.rint(exact / p)
    low[low == 128] = -128
    return bool((low == found).all())


def main():
    import cupy

    for tile in (fused.HOPPER, fused.HOPPER_ALONE):
        for length in LENGTHS:
            print(
                f"clusters of {tile.cluster}, k = {length}:",
                "right" if right(cupy, tile, length) else "WRONG",
            )


if __name__ == "__main__":
    main()
