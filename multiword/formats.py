"""Floating-point formats as data."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from multiword.public import public_in
from multiword.runtime.options import check_choice


@public_in("multiword", "Formats")
@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes
    ----------
    name : short name, as in `FORMATS`.
    precision : significand bits, the implicit one included.
    emin, emax : smallest and largest exponent of a normal number, as in 2**emin.
    dtype : the NumPy dtype that stores it. tf32 is stored in float32.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, Table 1.1; IEEE 754-2019.

    >>> FORMATS["bf16"].unit_roundoff == 2.0**-8
    True
    """

    name: str
    precision: int
    emin: int
    emax: int
    dtype: np.dtype

    @property
    def unit_roundoff(self) -> float:
        """u = 2**-precision, the largest relative error of rounding to nearest."""
        return 2.0**-self.precision

    @property
    def maximum(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.emax

    @property
    def last_place(self) -> int:
        """The exponent of the smallest positive number, of which all others are multiples."""
        return self.emin - self.precision + 1

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number."""
        return 2.0**self.last_place


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("fp16", 11, -14, 15, np.dtype(np.float16)),
        Format("bf16", 8, -126, 127, np.dtype(ml_dtypes.bfloat16)),
        Format("tf32", 11, -126, 127, np.dtype(np.float32)),
        Format("fp32", 24, -126, 127, np.dtype(np.float32)),
        Format("fp64", 53, -1022, 1023, np.dtype(np.float64)),
    )
}
"""The formats that this library knows, by name."""
public_in("multiword", "Formats", "FORMATS")(FORMATS)


@public_in("multiword", "Formats")
def get_format(name: str) -> Format:
    """Return the format of that name.

    Parameters
    ----------
    name : "fp16", "bf16", "tf32", "fp32" or "fp64".

    Returns
    -------
    The record of the format.

    Raises
    ------
    ValueError : any other name, with a list of the names that there are.

    >>> get_format("tf32").precision
    11
    """
    check_choice("format", name, FORMATS)
    return FORMATS[name]
