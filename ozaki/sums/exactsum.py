"""The accumulator that a cluster reduces with: exact, mergeable, of a fixed size."""

from __future__ import annotations

import operator
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from multiword.runtime.arrays import Array, check_same_device, on_device_of_arrays, real_parts
from ozaki.rounding.conversion import joined, narrow
from ozaki.sums.accumulator import Superaccumulator
from ozaki.sums.arguments import format_of, native, numbers, real_dtype
from ozaki.sums.fixed_point import (
    MINUS_INFINITY,
    NAN,
    PLUS_INFINITY,
    DigitRange,
    FixedPoint,
    canonical_flags,
)
from ozaki.sums.reduction import accumulate
from ozaki.sums.summands import Summands, products

_NOT_FINITE = PLUS_INFINITY | MINUS_INFINITY | NAN


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
        self.dtype = native(dtype)
        lengths = shape if isinstance(shape, tuple | list) else (shape,)
        self.shape = tuple(operator.index(n) for n in lengths)
        self._parts = 2 if self.dtype.kind == "c" else 1
        self._sums = Superaccumulator(DigitRange.of(format_of(dtype)), self._parts * prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Length of `to_bytes()`."""
        return 4 * (self._sums.range.digits + 1) * self._sums.flags.size

    @on_device_of_arrays
    def add(self, array: Array) -> ExactSum:
        """Add an array of shape (..., *shape), NumPy or CuPy, over its leading axes; return self.

        Raises TypeError where its dtype does not convert to this one without loss, ValueError where
        the shape does not fit.
        """
        x = self._checked(array, "array")
        for part, component in enumerate(real_parts(x)):
            self._add([Summands((component,))], part)
        return self

    @on_device_of_arrays
    def add_products(self, x: Array, y: Array) -> ExactSum:
        """Add x·y, exact element by element, both of shape (..., *shape); return self."""
        x, y = self._checked(x, "x"), self._checked(y, "y")
        check_same_device(x=x, y=y)
        if x.shape != y.shape:
            raise ValueError(f"x and y must have one shape, got {x.shape} and {y.shape}")
        for part, summands in enumerate(products(x, y)):
            self._add(summands, part)
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
        dtype = self.dtype if dtype is None else native(dtype)
        value = self.fixed_point().round(format_of(dtype)).reshape(self._parts, *self.shape)
        if self._parts == 2 and dtype.kind != "c":
            raise TypeError(f"dtype must be complex for a complex sum, got {dtype}; take the real part of it")
        return joined([narrow(part, real_dtype(dtype)) for part in value], dtype)[()]

    def fractions(self) -> list[Fraction] | list[tuple[Fraction, Fraction]]:
        """Return the exact sums in C order, pairs (real, imaginary) if complex.

        For what is computed from sums and is to be rounded only once. ValueError if Inf or NaN has
        been added.

        >>> ExactSum().add(np.array([0.5, 2.0**-1074])).fractions()[0] > Fraction(1, 2)
        True
        """
        if (self._sums.flags & _NOT_FINITE).any():
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
        words[:-1, (flags & _NOT_FINITE) != 0] = 0
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
        words = words.reshape(-1, self._parts, self._sums.range.digits + 1).transpose(2, 1, 0)
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

    def _checked(self, array: Any, name: str) -> Array:
        x = numbers(array, name)
        if not np.can_cast(x.dtype, self.dtype, "safe"):
            raise TypeError(f"{name} of dtype {x.dtype} cannot be added exactly to ExactSum({self.dtype})")
        lead = x.ndim - len(self.shape)
        if lead < 0 or x.shape[lead:] != self.shape:
            raise ValueError(f"{name} must have shape (..., *{self.shape}), got {x.shape}")
        return x

    def _add(self, summands: list[Summands], part: int) -> None:
        size = prod(self.shape)
        reduced = len(summands[0].shape) - len(self.shape)
        accumulate(self._sums, slice(part * size, (part + 1) * size), summands, reduced)
