"""`rotations`, compiled: its sweeps as they stand; rotations are applied to some columns at a time."""

from numba import boolean, float64, int64, void

import ozaki.linalg.small.texts_numba  # noqa: F401  by which they call one another
from multiword.runtime.jit import jit
from ozaki.linalg import rotations

_COLUMNS = 128
"""Of 1,000 rows they take 1 MiB, which stays in the second cache."""

_NUMBERS, _ANGLES = float64[::1], float64[:, :, ::1]
_SWEEP = boolean(_NUMBERS, _NUMBERS, int64, int64, _ANGLES)


block = jit(int64(_NUMBERS, _NUMBERS, int64, float64))(rotations.block)
tridiagonal_sweep = jit(_SWEEP)(rotations.tridiagonal_sweep)
bidiagonal_sweep = jit(_SWEEP)(rotations.bidiagonal_sweep)


@jit(void(float64[:, ::1], int64[:, ::1], _ANGLES))
def rotate(rows, spans, angles):
    """As `rotations.rotate`."""
    n = rows.shape[1]
    for start in range(0, n, _COLUMNS):
        stop = min(n, start + _COLUMNS)
        for i in range(len(spans)):
            for k in range(spans[i, 0], spans[i, 1]):
                c, s, x, y = angles[i, 0, k], angles[i, 1, k], rows[k, start:stop], rows[k + 1, start:stop]
                for j in range(stop - start):
                    p, q = x[j], y[j]
                    x[j] = c * p + s * q
                    y[j] = c * q - s * p
