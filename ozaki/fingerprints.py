"""Fingerprints: 16 characters by which machines compare results bit for bit."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from multiword.runtime.arrays import as_array, on_host, put_one_nan
from ozaki.public import public


@public("Comparing results")
def fingerprint(x: Any) -> str:
    """Return 16 hexadecimal digits that depend on every bit of an array, its shape and dtype.

    Parameters
    ----------
    x : array of any shape and numeric dtype, NumPy or CuPy (whose elements are copied to the host).

    Returns
    -------
    The first 64 bits of a SHA-256 of dtype and shape and of the elements in row-major, little-endian
    order. NaN is one bit pattern, of a complex number in each part; +0 and -0 differ.

    Raises
    ------
    TypeError : x is no array of numbers, or of `numpy.longdouble`, which differs from machine to machine.

    >>> import numpy as np
    >>> fingerprint(np.arange(3.0))
    '1534904cc04b1fd0'
    """
    array = as_array(x, "x")
    host = np.asarray(on_host(array), order="C")
    header = f"{host.dtype.name} {host.shape}".encode()
    if host.dtype.kind in "fcV":
        with np.errstate(invalid="ignore"):  # bfloat16 warns of signalling NaN
            if np.isnan(host).any():
                host = host.copy()
                put_one_nan(host)
    digest = hashlib.sha256(header)
    digest.update(host.astype(host.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:16]
