"""`two_sided`, compiled (`small.two_sided`)."""

from numba import float64, void

from ozaki.linalg.panels_numba import for_all_numbers, for_numbers
from ozaki.linalg.small import two_sided

_LINE = float64[::1]

tridiagonalize = for_numbers(lambda x: void(x[:, ::1], _LINE, _LINE, x[:, ::1], *[x[::1]] * 4, _LINE))(
    two_sided.tridiagonalize
)
bidiagonalize = for_numbers(lambda x: void(x[:, ::1], _LINE, _LINE, *[x[:, ::1], x[::1]] * 3, _LINE))(
    two_sided.bidiagonalize
)

ON_DEMAND = for_all_numbers(tridiagonalize, bidiagonalize)
