"""Fingerprints: 16 characters by which machines compare results bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import numpy as np

from multiword.runtime.arrays import as_array, on_host, put_one_nan
from multiword.runtime.tensors import array_of
from ozaki.public import public
from ozaki.tensors import kinds_of, unsupported


@public("Comparing results", takes_all=True)
def fingerprint(x: Any) -> str:
    """Return 16 hexadecimal digits that depend on every bit of an array, or a model, its shapes and dtypes.

    Parameters
    ----------
    x : array of any shape and numeric dtype, NumPy or CuPy, or a tensor (whose elements are copied to the
        host); an object with `state_dict()`, as PyTorch's modules and optimizers; a dictionary, list or tuple
        of these, of numbers, strings and None, nested as it may be.

    Returns
    -------
    The first 64 bits of a SHA-256. Of an array: of dtype and shape and of the elements in row-major,
    little-endian order. NaN is one bit pattern, of a complex number in each part; +0 and -0 differ. Of an
    object with a state that of its dictionary; of a dictionary: of the keys and the SHA-256 of each value, in
    an order of their own; of a sequence: of those of its elements in order. Sequences of numbers are arrays,
    and a tuple counts as a list. No device, no memory layout and no gradient is told.

    Raises
    ------
    TypeError : x, or what it holds, is none of these, or of `numpy.longdouble`, which differs from machine to
        machine.

    >>> import numpy as np
    >>> fingerprint(np.arange(3.0))
    '1534904cc04b1fd0'
    >>> fingerprint({"bias": np.zeros(2), "weight": np.ones((2, 3), np.float32)})
    'e8bff04463899257'
    """
    return _digest(x, "x").hex()[:16]


def _digest(x: Any, name: str) -> bytes:
    """Return the SHA-256 of an array, or of a state, dictionary or sequence that holds some."""
    if callable(state := getattr(x, "state_dict", None)):
        return _digest(state(), f"{name}.state_dict()")
    if isinstance(x, Mapping):
        pairs = (_of_part(k, f"a key of {name}") + _of_part(v, f"{name}[{k!r}]") for k, v in x.items())
        return _joined("dict", sorted(pairs))
    if isinstance(x, list | tuple) and not _is_of_numbers(x):
        return _joined("list", (_of_part(v, f"{name}[{i}]") for i, v in enumerate(x)))
    return _of_array(_host_array(x, name))


def _of_part(x: Any, name: str) -> bytes:
    """Return the SHA-256 of a key, or of what a dictionary or sequence holds: strings and None, too."""
    if x is not None and not isinstance(x, str | bytes):
        return _digest(x, name)
    content = x.encode() if isinstance(x, str) else x or b""
    return _joined(type(x).__name__, [content])


def _joined(kind: str, parts: Iterable[bytes]) -> bytes:
    return hashlib.sha256(f"{kind} ".encode() + b"".join(parts)).digest()


def _is_of_numbers(x: Any) -> bool:
    """Return whether nested sequences hold numbers alone: they are an array."""
    if isinstance(x, list | tuple):
        return all(map(_is_of_numbers, x))
    return isinstance(x, Number | np.generic)


def _host_array(x: Any, name: str) -> np.ndarray:
    """Return an array, or a tensor of any device, as a NumPy array."""
    kinds = kinds_of([x])
    if "PyTorch" in kinds:
        if got := unsupported(x):
            raise TypeError(f"{name} must be a strided tensor, got {got}")
        x = array_of(x.detach().cpu())
    elif "JAX" in kinds:
        x = np.asarray(x)
    return np.asarray(on_host(as_array(x, name)), order="C")


def _of_array(host: np.ndarray) -> bytes:
    header = f"{host.dtype.name} {host.shape}".encode()
    if host.dtype.kind in "fcV":
        with np.errstate(invalid="ignore"):  # bfloat16 warns of signalling NaN
            if np.isnan(host).any():
                host = host.copy()
                put_one_nan(host)
    digest = hashlib.sha256(header)
    digest.update(host.astype(host.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data)
    return digest.digest()
