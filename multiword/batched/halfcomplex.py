"""Half-complex matrices: interleaved pairs (re, im) of a half-precision format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from multiword.public import public_in
from multiword.rounding import round_to
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    namespace,
    on_device_of_arrays,
    to_float32,
    to_float64,
)

HALF_WORDS = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
"""The formats that batches are stored in."""


@public_in("multiword", "Batches of small matrices")
@dataclass(frozen=True, eq=False)
class HalfComplex:
    """An array of half-complex numbers, stored as interleaved pairs: complex64 with halves for floats.

    NumPy and CuPy have no such dtype, and a real batch may have a last axis of two entries, too.

    Attributes
    ----------
    pairs : (..., 2) float16 or bfloat16 array, NumPy's or CuPy's; `pairs[..., 0]` is the real
        and `pairs[..., 1]` the imaginary part. It is not copied.

    Raises
    ------
    TypeError : `pairs` is neither float16 nor bfloat16.
    ValueError : the last axis does not have two entries.

    References
    ----------
    Abdelfattah, Tomov and Dongarra, section 6 (why interleaved, not planar).

    >>> z = HalfComplex(np.array([[1, 2], [3, -4]], np.float16))
    >>> z.shape, to_complex(z.conj())
    ((2,), array([1.-2.j, 3.+4.j], dtype=complex64))
    """

    pairs: Array

    def __post_init__(self) -> None:
        pairs = as_array(self.pairs, "pairs")
        if pairs.dtype not in HALF_WORDS:
            raise TypeError(f"pairs must be float16 or bfloat16, got {pairs.dtype}")
        if pairs.ndim == 0 or pairs.shape[-1] != 2:
            raise ValueError(f"pairs must have a last axis of two entries (re, im), got shape {pairs.shape}")
        object.__setattr__(self, "pairs", pairs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the complex array, without the axis of pairs."""
        return tuple(self.pairs.shape[:-1])

    @property
    def ndim(self) -> int:
        """Number of axes, that of the pairs not counted."""
        return int(self.pairs.ndim) - 1

    @property
    def dtype(self) -> Any:
        """The format of either part."""
        return self.pairs.dtype

    @property
    def real(self) -> Array:
        """The real parts, a view."""
        return self.pairs[..., 0]

    @property
    def imag(self) -> Array:
        """The imaginary parts, a view."""
        return self.pairs[..., 1]

    @property
    def mT(self) -> HalfComplex:
        """The transposed matrices, a view. ValueError for what is not a matrix."""
        if self.ndim < 2:
            raise ValueError(f"mT needs matrices, got an array of shape {self.shape}")
        return HalfComplex(self.pairs.swapaxes(-3, -2))

    def conj(self) -> HalfComplex:
        """Return the complex conjugates, a new array."""
        xp = namespace(self.pairs)
        return HalfComplex(xp.stack([self.real, -self.imag], axis=-1))


@public_in("multiword", "Batches of small matrices")
@on_device_of_arrays
def from_complex(z: Array, word: str = "fp16") -> HalfComplex:
    """Return a complex array rounded to half-complex.

    Parameters
    ----------
    z : complex64 or complex128 array (a real one has imaginary part 0), NumPy's or CuPy's.
    word : "fp16" or "bf16".

    Returns
    -------
    HalfComplex of the same shape, both parts rounded once to nearest even, as IEEE prescribes.

    Raises
    ------
    TypeError : not a numeric array. ValueError : another `word`.

    References
    ----------
    Abdelfattah, Tomov and Dongarra, as for `batched_matmul`.

    >>> from_complex(np.array([1 + 2j, 0.1])).pairs
    array([[1. , 2. ],
           [0.1, 0. ]], dtype=float16)
    """
    if word not in ("fp16", "bf16"):
        raise ValueError(f"word must be 'fp16' or 'bf16', got {word!r}")
    z = as_array(z, "z")
    return from_planes(round_to(z.real, word), round_to(z.imag, word))


@public_in("multiword", "Batches of small matrices")
@on_device_of_arrays
def to_complex(z: HalfComplex) -> Array:
    """Return the complex64 array of the same values, exactly.

    Parameters
    ----------
    z : half-complex array of any shape.

    Returns
    -------
    complex64 array of the same shape, on the same device.

    Raises
    ------
    TypeError : `z` is no `HalfComplex`.

    References
    ----------
    Abdelfattah, Tomov and Dongarra, as for `batched_matmul`.

    >>> to_complex(from_complex(np.array([[1 + 2j]])))
    array([[1.+2.j]], dtype=complex64)
    """
    if not isinstance(z, HalfComplex):
        raise TypeError(f"z must be a HalfComplex, got {type(z).__name__}")
    xp = namespace(z.pairs)
    return xp.ascontiguousarray(to_float32(to_float64(z.pairs))).view(np.complex64)[..., 0]


@public_in("multiword", "Batches of small matrices")
@on_device_of_arrays
def from_planes(real: Array, imag: Array) -> HalfComplex:
    """Return the half-complex array of two planes, the layout that cuBLAS's users have.

    Parameters
    ----------
    real, imag : float16 or bfloat16 arrays of one shape and dtype.

    Returns
    -------
    HalfComplex of that shape, a copy.

    Raises
    ------
    TypeError : other or mixed dtypes, or NumPy mixed with CuPy. ValueError : unequal shapes.

    References
    ----------
    Abdelfattah, Tomov and Dongarra, as for `batched_matmul`.

    >>> from_planes(np.float16([1, 2]), np.float16([0, -1])).pairs.tolist()
    [[1.0, 0.0], [2.0, -1.0]]
    """
    real, imag = as_array(real, "real"), as_array(imag, "imag")
    xp = check_same_device(real=real, imag=imag)
    if real.dtype != imag.dtype or real.dtype not in HALF_WORDS:
        raise TypeError(
            f"real and imag must both be float16 or both bfloat16, got {real.dtype} and {imag.dtype}"
        )
    if real.shape != imag.shape:
        raise ValueError(f"real and imag must have one shape, got {real.shape} and {imag.shape}")
    pairs = xp.empty((*real.shape, 2), real.dtype)
    pairs[..., 0], pairs[..., 1] = real, imag
    return HalfComplex(pairs)
