"""`incomplete`, compiled: its loops as they stand. numba contracts nothing unless told that it may."""

from numba import float64, int64, types, void

from multiword.runtime.jit import jit
from ozaki.sparse.linalg import incomplete

_INDICES, _VALUES = types.Array(int64, 1, "C", readonly=True), float64[::1]
_FACTORS = types.Array(float64, 1, "C", readonly=True)

factor_lu = jit(int64(_INDICES, _INDICES, _VALUES, _INDICES, int64[::1]))(incomplete.factor_lu)
solve_lu = jit(void(_INDICES, _INDICES, _FACTORS, _INDICES, _VALUES))(incomplete.solve_lu)
factor_cholesky = jit(int64(_INDICES, _INDICES, _VALUES))(incomplete.factor_cholesky)
solve_cholesky = jit(void(_INDICES, _INDICES, _FACTORS, _VALUES))(incomplete.solve_cholesky)
