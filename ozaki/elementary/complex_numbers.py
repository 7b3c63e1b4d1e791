"""abs and angle, of real and of complex numbers."""

from __future__ import annotations

from typing import Any

from multiword.runtime.arrays import Array
from ozaki.elementary.api import apply
from ozaki.public import public


@public("Elementary functions", dask=True, torch="abs", jax="abs")
def abs(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return |x|, without overflow, correctly rounded: `numpy.abs`.

    As `ozaki.exp`; differs in the function, which is real for complex numbers, too.

    >>> float(abs(3 + 4j))
    5.0
    """
    return apply("abs", x, out=out, where=where)


@public("Elementary functions", dask=True, torch="angle", jax="angle")
def angle(x: Array, out: Array | None = None, *, where: Any = True) -> Any:
    """Return the angle of x in the complex plane, from -π to π, correctly rounded: `numpy.angle`.

    As `ozaki.abs`; differs in the function, `ozaki.atan2(x.imag, x.real)`.

    >>> float(angle(1j))
    1.5707963267948966
    """
    return apply("angle", x, out=out, where=where)
