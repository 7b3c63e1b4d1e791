"""The accumulator that a cluster reduces with: exact, mergeable, of a fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from multiword.formats import FORMATS, Format
from multiword.runtime.arrays import Array, as_array, is_cupy, on_device_of_arrays
from ozaki.sums.columns import Stream, Tiling, block_terms
from ozaki.sums.fixedpoint import MINUS_INFINITY, NAN, PLUS_INFINITY, FixedPoint, canonical_flags
from ozaki.sums.superaccumulator import Layout, Superaccumulator
from ozaki.sums.window import merged

_FORMATS: dict[np.dtype, Format] = {f.dtype: f for f in FORMATS.values() if f.name != "tf32"}
_PARTS: dict[np.dtype, np.dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


def real_dtype(dtype: DTypeLike, name: str = "dtype") -> np.dtype:
    """Return the dtype of the parts of a number. TypeError if this library cannot round to it."""
    asked = np.dtype(dtype)
    part = _PARTS.get(asked, asked)
    if part not in _FORMATS:
        known = ", ".join(str(d) for d in (*_FORMATS, *_PARTS))
        raise TypeError(f"{name} must be one of {known}; got {asked}")
    return part


def format_of(dtype: DTypeLike) -> Format:
    """Return the format of a real dtype, or of the parts of a complex one."""
    return _FORMATS[real_dtype(dtype)]


class ExactSum:
    """An exact sum that takes arrays, and other exact sums, in any order.

    Parameters
    ----------
    dtype : float16, bfloat16, float32, float64, complex64 or complex128: what may be added (any
        of them that converts without loss) and what `round` returns.
    shape : shape of the sum. An array of shape (..., *shape) adds its elements over the leading
        axes.

    The state is a fixed-point number per element over the whole exponent range of products of two
    numbers of the dtype, with 64 bits to spare: nothing is rounded or overflows before 2**64
    terms. Two accumulators that were given the same numbers, in whatever order and parts, have
    the same state, byte for byte.

    `to_bytes` is that state: for each element (twice for complex: real, imaginary) D words of 32
    bits, little-endian, a two's complement integer in units of 2**E, then one more word; D
    and E by dtype:

    ========= ====== ==== =====
    dtype     E      D    bytes
    ========= ====== ==== =====
    float16   −48    5    24
    bfloat16  −266   19   80
    float32   −298   20   84
    float64   −2148  134  540
    ========= ====== ==== =====

    The last word is 0 if nothing was added, 16 if only −0 was, 8 for any other finite sum, and,
    with the others 0, 1 for +Inf, 2 for −Inf, 4 for NaN.

    Raises
    ------
    TypeError : for any other dtype.

    References
    ----------
    Kulisch, Computer Arithmetic and Validity, chapter 8 (the complete register).

    >>> x = np.array([1e100, 1.0, -1e100])
    >>> left, right = ExactSum(), ExactSum()
    >>> left.add(x[:1]).merge(right.add(x[1:])).round()
    np.float64(1.0)
    """

    def __init__(self, dtype: DTypeLike = np.float64, shape: int | tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self._format = format_of(self.dtype)
        self._parts = 2 if self.dtype.kind == "c" else 1
        self._sums = Superaccumulator(Layout.of(self._format), self._parts * prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Length of `to_bytes()`."""
        return 4 * (self._sums.layout.digits + 1) * self._sums.flags.size

    @on_device_of_arrays
    def add(self, array: Array) -> ExactSum:
        """Add an array of shape (..., *shape), NumPy or CuPy, over its leading axes; return self.

        Raises TypeError where its dtype does not convert to this one without loss, ValueError where
        the shape does not fit.
        """
        x = self._checked(array, "array")
        for part, component in enumerate(self._components(x)):
            self._add([Stream((component,))], part)
        return self

    @on_device_of_arrays
    def add_products(self, x: Array, y: Array) -> ExactSum:
        """Add x·y, exact element by element, both of shape (..., *shape); return self."""
        x, y = self._checked(x, "x"), self._checked(y, "y")
        if is_cupy(x) != is_cupy(y):
            raise TypeError("x and y must be both NumPy or both CuPy arrays")
        if x.shape != y.shape:
            raise ValueError(f"x and y must have one shape, got {x.shape} and {y.shape}")
        for part, streams in enumerate(product_streams(x, y)):
            if part < self._parts:
                self._add(streams, part)
        return self

    def merge(self, other: ExactSum) -> ExactSum:
        """Add what another accumulator of the same dtype and shape holds; return self."""
        if not isinstance(other, ExactSum):
            raise TypeError(f"other must be an ExactSum, got {type(other).__name__}")
        if (self.dtype, self.shape) != (other.dtype, other.shape):
            raise ValueError(
                f"only like accumulators merge: this one is {self.dtype} {self.shape}, "
                f"other is {other.dtype} {other.shape}"
            )
        self._sums.merge(other._sums)
        return self

    def round(self, dtype: DTypeLike | None = None) -> np.ndarray | np.generic:
        """Return the sums, each rounded once to `dtype` (default: this accumulator's).

        A NumPy scalar if shape is (), else an array of that shape.
        """
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        value = self.fixed_point().round(format_of(dtype)).reshape(self._parts, *self.shape)
        if self._parts == 1:
            with np.errstate(over="ignore"):
                return value[0].astype(dtype)[()]
        return join_parts(value[0], value[1], dtype)[()]

    def fractions(self) -> list[Fraction] | list[tuple[Fraction, Fraction]]:
        """Return the exact sums in C order, pairs (real, imaginary) if complex.

        For what is computed from sums and is to be rounded only once. ValueError if Inf or NaN has
        been added.

        >>> ExactSum().add(np.array([0.5, 2.0**-1074])).fractions()[0] > Fraction(1, 2)
        True
        """
        if (self._sums.flags & (PLUS_INFINITY | MINUS_INFINITY | NAN)).any():
            raise ValueError("Inf or NaN has been added: there is no exact sum")
        values = [Fraction(v) * Fraction(2) ** e for v, e in self.fixed_point().integers()]
        if self._parts == 1:
            return values
        half = len(values) // 2
        return list(zip(values[:half], values[half:], strict=True))

    def fixed_point(self) -> FixedPoint:
        """The exact values, all real parts first if complex."""
        return self._sums.fixed_point()

    def to_bytes(self) -> bytes:
        """Return the state in its canonical form; see the class."""
        self._sums.carry()
        flags = canonical_flags(self._sums.flags)
        words = np.concatenate([self._sums.digits, flags[None].astype(np.int64)])
        words[:-1, (flags & (PLUS_INFINITY | MINUS_INFINITY | NAN)) != 0] = 0
        parts = words.reshape(len(words), self._parts, -1).transpose(2, 1, 0)
        return (parts & 0xFFFFFFFF).astype("<u4").tobytes()

    @classmethod
    def from_bytes(
        cls, data: bytes, dtype: DTypeLike = np.float64, shape: int | tuple[int, ...] = ()
    ) -> ExactSum:
        """Return the accumulator whose `to_bytes()` is `data`. ValueError if the length is wrong."""
        self = cls(dtype, shape)
        if len(data) != self.nbytes:
            raise ValueError(f"{self.dtype} {self.shape} takes {self.nbytes} bytes, got {len(data)}")
        words = np.frombuffer(data, "<u4").astype(np.int64)
        words = words.reshape(-1, self._parts, self._sums.layout.digits + 1).transpose(2, 1, 0)
        words = words.reshape(len(words), -1)
        self._sums.digits[:] = words[:-1]
        self._sums.digits[-1] = words[-2].astype(np.int32)  # the sign
        self._sums.flags[:] = words[-1]
        return self

    def __reduce__(self) -> tuple:
        return ExactSum.from_bytes, (self.to_bytes(), self.dtype, self.shape)

    def __eq__(self, other: object) -> bool:
        """Whether both hold exactly the same sums."""
        if not isinstance(other, ExactSum):
            return NotImplemented
        return (self.dtype, self.shape) == (other.dtype, other.shape) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ExactSum({self.dtype.name}, shape={self.shape}): {self.round()}"

    def _checked(self, array: Array, name: str) -> Array:
        x = as_array(array, name)
        if not np.can_cast(x.dtype, self.dtype, "safe"):
            raise TypeError(f"{name} of dtype {x.dtype} cannot be added exactly to ExactSum({self.dtype})")
        lead = x.ndim - len(self.shape)
        if lead < 0 or x.shape[lead:] != self.shape:
            raise ValueError(f"{name} must have shape (..., *{self.shape}), got {x.shape}")
        return x

    def _components(self, x: Array) -> Iterator[Array]:
        yield x.real
        if self._parts == 2 and x.dtype.kind == "c":
            yield x.imag

    def _add(self, streams: list[Stream], part: int) -> None:
        size = prod(self.shape)
        columns = slice(part * size, (part + 1) * size)
        first = streams[0].factors[0]
        reduced = first.ndim - len(self.shape)
        if is_cupy(first):
            from ozaki.sums.columns_cuda import device_sums

            self._sums.merge(device_sums(streams, reduced, self._sums.layout), columns)
            return
        tiling = Tiling.of(first, reduced)
        index = np.arange(columns.start, columns.stop).reshape(self.shape)
        for output in tiling.outputs():
            there = index[output].reshape(-1)
            for terms in merged(block_terms(tiling.blocks(streams, output), tiling, output)):
                self._sums.add_terms([terms], there)


def product_streams(x: Array, y: Array, conjugate: bool = False) -> list[list[Stream]]:
    """The terms of Σ x·y, or Σ conj(x)·y: those of its real part, then of its imaginary part."""
    if "c" not in (x.dtype.kind, y.dtype.kind):
        return [[Stream((x, y))]]
    sign = -1 if conjugate else 1
    x_complex, y_complex = x.dtype.kind == "c", y.dtype.kind == "c"
    real = [Stream((x.real, y.real))]
    imaginary = []
    if x_complex and y_complex:
        real.append(Stream((x.imag, y.imag), -sign))
    if y_complex:
        imaginary.append(Stream((x.real, y.imag)))
    if x_complex:
        imaginary.append(Stream((x.imag, y.real), sign))
    return [real, imaginary]


def join_parts(real: Array, imaginary: Array, dtype: np.dtype) -> np.ndarray:
    """A complex array of these parts."""
    joined = np.empty(real.shape, dtype)
    with np.errstate(over="ignore"):
        joined.real, joined.imag = real, imaginary
    return joined
