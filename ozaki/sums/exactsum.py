"""The accumulator that a cluster reduces with: exact, mergeable, as large as its numbers ask for."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    device_of,
    namespace,
    on_device_of_arrays,
    real_parts,
)
from multiword.runtime.readback import anywhere
from ozaki.public import public
from ozaki.rounding.conversion import joined, narrow
from ozaki.rounding.digits import carry
from ozaki.sums.arguments import format_of, native, numbers, real_dtype
from ozaki.sums.exact.accumulator import Superaccumulator
from ozaki.sums.exact.fixed_point import (
    DIGIT_BITS,
    DIGIT_MASK,
    MINUS_INFINITY,
    MINUS_ZERO,
    NAN,
    NOT_FINITE,
    ORDINARY,
    PLUS_INFINITY,
    DigitRange,
    FixedPoint,
    canonical_flags,
)
from ozaki.sums.exact.groups import add_groups, check_labels
from ozaki.sums.exact.matrix_products import product_digits
from ozaki.sums.exact.reduction import accumulate
from ozaki.sums.exact.summands import Summands, Terms, products
from ozaki.sums.groups import columns_of, label_vector


@public("Sums in parts")
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

    Reading never changes an accumulator, and what adds to it replaces its state at the end: a reader
    in another thread, or an exception on the way, meets the sums of before or of after. Two threads
    that add to one accumulator need a lock of their own.

    In memory, and pickled, it has those digits of 32 bits that some element uses, the same ones for all
    elements: for numbers of about one size about 40 bytes an element in memory, 20 pickled. Of CuPy
    arrays it stays on the GPU, and what it rounds to is there, too.

    `ozaki.mpi` merges those of all ranks. For an all-reduce by NCCL or gloo there are `window`, `to_digits`
    and `from_digits`: a maximum of two integers, then a sum of int64 arrays, is the exact merge of them all.

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
        """Length of `to_bytes()`; in memory it takes less."""
        return 4 * (self._sums.range.digits + 1) * self._sums.flags.size

    @on_device_of_arrays
    def add(self, array: Array) -> ExactSum:
        """Add an array of shape (..., *shape), NumPy or CuPy, over its leading axes; return self.

        Raises TypeError where its dtype does not convert to this one without loss, ValueError where
        the shape does not fit.
        """
        x = self._checked(array, "array")
        return self.merge_terms([[Summands((component,))] for component in real_parts(x)])

    @on_device_of_arrays
    def add_products(self, x: Array, y: Array) -> ExactSum:
        """Add x·y, exact element by element, both of shape (..., *shape); return self."""
        x, y = self._checked(x, "x"), self._checked(y, "y")
        check_same_device(x=x, y=y)
        if x.shape != y.shape:
            raise ValueError(f"x and y must have one shape, got {x.shape} and {y.shape}")
        return self.merge_terms(products(x, y))

    @on_device_of_arrays
    def add_matmul(self, a: Array, b: Array) -> ExactSum:
        """Add the exact product of two real matrices to a sum of its shape; return self.

        Parameters
        ----------
        a, b : (m, k) and (k, n) arrays, for a sum of shape (m, n): parts of an inner dimension that others
            go on with, here or on other machines.

        Raises
        ------
        TypeError, ValueError : as `add`; TypeError for a complex sum.

        References
        ----------
        Ozaki, Ogita, Oishi and Rump, Error-free transformations of matrix multiplication by using fast
        routines of matrix multiplication (slices, at places that both parts have in common).

        >>> total = ExactSum(shape=(1, 1)).add_matmul(np.array([[1e100, 1.0]]), np.ones((2, 1)))
        >>> total.add_matmul(np.array([[-1e100]]), np.ones((1, 1))).round()
        array([[1.]])
        """
        a, b = self._exact(a, "a"), self._exact(b, "b")
        check_same_device(a=a, b=b)
        if self._parts == 2:
            raise TypeError("a complex sum takes no products of matrices; add those of the parts")
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"a and b must be (m, k) and (k, n) matrices, got {a.shape} and {b.shape}")
        if self.shape != (a.shape[0], b.shape[1]):
            raise ValueError(f"the product must have shape {self.shape}, got {(a.shape[0], b.shape[1])}")
        return self.add_matmul_at(a, b, 0)

    @on_device_of_arrays
    def add_matmul_at(self, a: Array, b: Array, at: Array | int) -> ExactSum:
        """Add a product, as `add_matmul`, to some elements of a real sum; shapes are not checked.

        at : where each of its elements goes, both in C order, no two to one; or where the first does, and the
            others after it.
        """
        total = Superaccumulator(self._sums.range, self._sums.flags.size, namespace(a))
        total.merge(self._sums)
        for part, value in product_digits(a, b):
            columns = slice(at + part.start, at + part.stop) if isinstance(at, int) else at[part]
            total.add(value, columns)
        self._sums = total
        return self

    @on_device_of_arrays
    def add_groups(self, values: Array, labels: Array) -> ExactSum:
        """Add each number to the element of the last axis that its label names; return self.

        Parameters
        ----------
        values : (..., n) array; the leading axes are those of the accumulator.
        labels : (n,) integers from 0 to shape[-1] − 1, in any order.

        Raises
        ------
        TypeError, ValueError : as `add` and `group_sum`.

        >>> early, late = ExactSum(shape=3), ExactSum(shape=3)
        >>> early.add_groups(np.array([1e100, 2.0]), np.array([0, 2]))
        ExactSum(float64, shape=(3,)): [1.e+100 0.e+000 2.e+000]
        >>> early.merge(late.add_groups(np.array([1.0, -1e100]), np.array([0, 0]))).round()
        array([1., 0., 2.])
        """
        x = self._exact(values, "values")
        if not self.shape:
            raise ValueError("groups need an accumulator with an axis: ExactSum(dtype, shape=num_groups)")
        index = label_vector(labels, self.shape[-1])
        check_labels(index, self.shape[-1])
        check_same_device(values=x, labels=index)
        if x.shape != (*self.shape[:-1], index.size):
            raise ValueError(f"values must have shape {(*self.shape[:-1], index.size)}, got {x.shape}")
        parts = [[Summands((component.reshape(-1),))] for component in real_parts(x)]
        return self.merge_terms(parts, columns_of(index, prod(self.shape[:-1]), self.shape[-1]))

    def take(self, indices: Array) -> ExactSum:
        """Return a new accumulator, of the sums at some places in C order, in the shape of the indices.

        >>> ExactSum(shape=2).add(np.array([1.0, 2.0])).take(np.array([1, 1, 0])).round()
        array([2., 2., 1.])
        """
        index, size = indices.reshape(-1), prod(self.shape)
        taken = ExactSum(self.dtype, indices.shape)
        with device_of(self._sums.flags):
            xp = namespace(self._sums.flags)
            at = xp.concatenate([xp.asarray(index) + size * i for i in range(self._parts)])
            taken._sums = self._sums.taken(at)
        return taken

    def merge_at(self, other: ExactSum, columns: Array | slice) -> ExactSum:
        """Add what another accumulator holds, in C order, to some elements of a real sum, each once."""
        with device_of(self._sums.flags):
            sums = self._sums.copy()
            sums.merge(other._sums, columns)
            self._sums = sums
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
        with device_of(self._sums.flags):
            sums = self._sums.copy()
            sums.merge(other._sums)
            self._sums = sums
        return self

    def merge_terms(self, parts: Terms, columns: Array | None = None) -> ExactSum:
        """Add summands (`ozaki.sums.exact.summands`), whose shapes are not checked; return self.

        They are added over their leading axes.

        Parameters
        ----------
        parts : the summands of the real part, and of the imaginary part of a complex dtype.
        columns : of one-dimensional summands, the element that each term goes to, in C order.

        Raises
        ------
        TypeError : factors of a dtype that does not convert to this one without loss: there are no digits for
            their products.
        """
        check_factors(parts, self.dtype)
        size, sums = prod(self.shape), self._sums.copy()
        for i, summands in enumerate(parts):
            part = slice(i * size, (i + 1) * size)
            if columns is None:
                accumulate(sums, part, summands, len(summands[0].shape) - len(self.shape))
            else:
                total = Superaccumulator(sums.range, size, namespace(columns))
                add_groups(total, summands, columns)
                sums.merge(total, part)
        self._sums = sums
        return self

    def merge_values(self, parts: Sequence[Sequence[FixedPoint]]) -> ExactSum:
        """Add exact values of all elements, any number for the real part, and for the imaginary one."""
        size, sums = prod(self.shape), self._sums.copy()
        for i, values in enumerate(parts):
            for value in values:
                sums.add(value, slice(i * size, (i + 1) * size))
        self._sums = sums
        return self

    def compact(self) -> ExactSum:
        """Give back the memory of digits that no element uses; return self."""
        self._sums = self._compacted()
        return self

    @on_device_of_arrays
    def round(self, dtype: DTypeLike | None = None) -> np.ndarray | np.generic:
        """Return the sums, each rounded once to `dtype` (default: this accumulator's).

        A NumPy scalar if shape is (), else an array of that shape; a CuPy array if such were added first.
        """
        dtype = self.dtype if dtype is None else native(dtype)
        if self._parts == 2 and dtype.kind != "c":
            raise TypeError(f"dtype must be complex for a complex sum, got {dtype}; take the real part of it")
        with device_of(self._sums.flags):
            value = self._sums.fixed_point().round(format_of(dtype)).reshape(self._parts, *self.shape)
            return joined([narrow(part, real_dtype(dtype)) for part in value], dtype)[()]

    def fractions(self) -> list[Fraction] | list[tuple[Fraction, Fraction]]:
        """Return the exact sums in C order, pairs (real, imaginary) if complex.

        For what is computed from sums and is to be rounded only once. ValueError if Inf or NaN has
        been added.

        >>> ExactSum().add(np.array([0.5, 2.0**-1074])).fractions()[0] > Fraction(1, 2)
        True
        """
        exact = self._sums.fixed_point().on_host()
        if (exact.flags & NOT_FINITE).any():
            raise ValueError("Inf or NaN has been added: there is no exact sum")
        values = [Fraction(v) * Fraction(2) ** e for v, e in exact.integers()]
        if self._parts == 1:
            return values
        half = len(values) // 2
        return list(zip(values[:half], values[half:], strict=True))

    def sign(self) -> np.ndarray | np.generic:
        """Return the exact signs, as `numpy.sign`: 0 where the sum is exactly zero, NaN where it is NaN.

        TypeError for a complex sum.

        >>> ExactSum().add(np.array([1.0, 1e-300, -1.0])).sign()
        np.float64(1.0)
        """
        if self._parts == 2:
            raise TypeError("a complex sum has no sign; take the real part of it")
        sums = self._compacted()
        with device_of(sums.flags):
            xp, flags = namespace(sums.flags), canonical_flags(sums.flags)
            digits = sums.digits if len(sums.digits) else xp.zeros((1, flags.size), np.int64)
            signs = digits.any(axis=0) * xp.where(digits[-1] < 0, -1.0, 1.0)
            signs = xp.where(flags == NAN, np.nan, signs)
            return (signs + (flags == PLUS_INFINITY) - (flags == MINUS_INFINITY)).reshape(self.shape)[()]

    def words(self) -> np.ndarray:
        """Return float64 words, the largest first, whose exact sum is the sum: a (words, *shape) array.

        Each is what is left, rounded. TypeError for a complex sum; ValueError if Inf or NaN has been added,
        or where products leave bits below 2**-1074; OverflowError beyond float64.

        >>> ExactSum().add(np.array([1e100, 1.0, 1e-100])).words()
        array([1.e+100, 1.e+000, 1.e-100])
        """
        if self._parts == 2:
            raise TypeError("words are those of a real sum; take the real part of it")
        words: list[list[float]] = []
        rest: list[Any] = self.fractions()
        while any(rest) or not words:
            words.append([float(value) for value in rest])
            if words[1:] and not any(words[-1]):
                raise ValueError("the sum has bits below 2**-1074, which no float64 has")
            rest = [value - Fraction(word) for value, word in zip(rest, words[-1], strict=True)]
        return np.array(words).reshape(len(words), *self.shape)

    def fixed_point(self) -> FixedPoint:
        """Return the exact values, all real parts first if complex, in arrays of their own."""
        with device_of(self._sums.flags):
            return self._sums.copy().fixed_point()

    def fixed_points(self) -> list[FixedPoint]:
        """Return the exact values of the real parts, then of the imaginary ones, if any."""
        exact, size = self.fixed_point(), prod(self.shape)
        return [exact.columns(slice(i * size, (i + 1) * size)) for i in range(self._parts)]

    @property
    def window(self) -> np.ndarray:
        """Which of the D digits are in use, as int64 [-first, end]: first to end - 1.

        The elementwise maximum over any number of accumulators is a window that holds all their digits;
        [0, D] is the whole range.
        """
        return _window(self._compacted())

    def to_digits(self, window: Sequence[int] | np.ndarray | None = None) -> Array:
        """Return the state as int64 digits that add: the sum of such arrays is the merge of the accumulators.

        Parameters
        ----------
        window : the digits to return, as `window` has them; default those in use. Accumulators whose digits
            are added need one window.

        Returns
        -------
        (digits + 2, *shape) array, (digits + 2, 2, *shape) for a complex dtype, in the memory that `add`
        was given: digits of base 2**32 between -2**31 and 2**32, of which the first weighs 2**(E + 32·first),
        then two words that count what is not a finite number. Fewer than 2**31 such arrays add up without
        overflow, by any all-reduce.

        Raises
        ------
        ValueError : digits in use lie outside of the window.

        >>> left, right = ExactSum().add(np.array([1e100, 1.0])), ExactSum().add(np.array([-1e100]))
        >>> window = np.maximum(left.window, right.window)  # MPI_MAX
        >>> digits = left.to_digits(window) + right.to_digits(window)  # MPI_SUM
        >>> ExactSum.from_digits(digits, window).round()
        np.float64(1.0)
        """
        sums = self._compacted()
        own = _window(sums)
        first, end = self._digits_of(own if window is None else window)
        if len(sums.digits) and not (first <= sums.first and sums.end <= end):
            raise ValueError(f"window must hold the digits in use, {own.tolist()}, got {[-first, end]}")
        with device_of(sums.flags):
            digits = namespace(sums.flags).zeros((end - first + 2, sums.flags.size), np.int64)
            digits[sums.first - first :][: len(sums.digits)] = sums.digits
            flags = canonical_flags(sums.flags)
            undefined = flags == NAN
            for word, low, high in ((-2, PLUS_INFINITY, MINUS_INFINITY), (-1, ORDINARY, MINUS_ZERO)):
                infinite = undefined if word == -2 else False
                digits[word] += (flags == low) | infinite
                digits[word] += ((flags == high) | infinite) * np.int64(1 << DIGIT_BITS)
            return digits.reshape(len(digits), *([2] if self._parts == 2 else []), *self.shape)

    @classmethod
    def from_digits(
        cls, digits: Array, window: Sequence[int] | np.ndarray, dtype: DTypeLike = np.float64
    ) -> ExactSum:
        """Return the accumulator of the digits of `to_digits(window)`, or of the sum of several.

        Parameters
        ----------
        digits : int64 array, NumPy or CuPy, of the shape that `to_digits` gives.
        window : that of all the summands.
        dtype : that of the accumulators.

        Raises
        ------
        TypeError : digits are not int64. ValueError : they do not fit the window or the dtype.
        """
        digits = as_array(digits, "digits")
        if digits.dtype != np.int64:
            raise TypeError(f"digits must be int64, as to_digits returns them, got {digits.dtype}")
        lead = 2 if native(dtype).kind == "c" else 1
        self = cls(dtype, digits.shape[lead:])
        first, end = self._digits_of(window)
        if digits.ndim < lead or len(digits) != end - first + 2 or (lead == 2 and digits.shape[1] != 2):
            shape = (end - first + 2, *([2] if lead == 2 else []))
            raise ValueError(f"digits must have shape ({shape}, *shape) for this window, got {digits.shape}")
        with device_of(digits):
            digits = digits.reshape(len(digits), -1)
            flags = namespace(digits).zeros(digits.shape[1], np.uint8)
            for word, low, high in ((-2, PLUS_INFINITY, MINUS_INFINITY), (-1, ORDINARY, MINUS_ZERO)):
                flags |= ((digits[word] & DIGIT_MASK) != 0) * low
                flags |= ((digits[word] >> DIGIT_BITS) != 0) * high
            self._sums = Superaccumulator.of(self._sums.range, first, digits[:-2], flags)
        return self

    def to_bytes(self) -> bytes:
        """Return the state in its canonical form; see the class."""
        sums = self._compacted().on_host()
        words = np.zeros((sums.range.digits + 1, sums.flags.size), np.int64)
        words[sums.first : sums.end] = sums.digits
        carry(words[sums.first : -1], DIGIT_BITS)
        words[-1] = canonical_flags(sums.flags)
        parts = words.reshape(len(words), self._parts, -1).transpose(2, 1, 0)
        return (parts & DIGIT_MASK).astype("<u4").tobytes()

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
        words[-2] = words[-2].astype(np.int32)  # the sign
        self._sums = Superaccumulator.of(self._sums.range, 0, words[:-1], words[-1].astype(np.uint8))
        return self

    def __reduce__(self) -> tuple:
        sums = self._compacted()
        words = (sums.digits & DIGIT_MASK).astype(np.uint32)
        return _unpickled, (self.dtype, self.shape, sums.first, words, canonical_flags(sums.flags))

    def __sizeof__(self) -> int:
        sums = self._sums
        return object.__sizeof__(self) + int(sums.digits.nbytes + sums.flags.nbytes)

    def __add__(self, other: ExactSum) -> ExactSum:
        """Both sums together, in a new accumulator."""
        if not isinstance(other, ExactSum):
            return NotImplemented
        return ExactSum(self.dtype, self.shape).merge(self).merge(other)

    def __radd__(self, other: object) -> ExactSum:
        """The sums in a new accumulator, where Python's `sum` begins with 0."""
        return self + ExactSum(self.dtype, self.shape) if type(other) is int and not other else NotImplemented

    def __float__(self) -> float:
        """The sum rounded to float64. TypeError for several sums, or a complex one."""
        if self.shape or self._parts == 2:
            raise TypeError(
                f"float() takes one real sum, got an ExactSum of {self.dtype} and shape {self.shape}; "
                "round() returns all of it"
            )
        return float(self.round(np.float64))

    def __eq__(self, other: object) -> bool:
        """Whether both hold exactly the same sums."""
        if not isinstance(other, ExactSum):
            return NotImplemented
        return (self.dtype, self.shape) == (other.dtype, other.shape) and self._same_sums(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ExactSum({self.dtype.name}, shape={self.shape}): {self.round()}"

    def _same_sums(self, other: ExactSum) -> bool:
        one, two = (x._compacted().on_host() for x in (self, other))
        alike = one.first == two.first and np.array_equal(one.digits, two.digits)
        return alike and np.array_equal(canonical_flags(one.flags), canonical_flags(two.flags))

    def _digits_of(self, window: Sequence[int] | np.ndarray) -> tuple[int, int]:
        """The first digit of a window, and one past its last; an empty one for that of no digits."""
        negative, end = (int(n) for n in window)
        first = min(-negative, end)
        if not 0 <= first <= end <= self._sums.range.digits:
            raise ValueError(f"window must lie in [0, {self._sums.range.digits}], got {list(window)}")
        return first, end

    def _exact(self, array: Any, name: str) -> Array:
        x = numbers(array, name)
        if not np.can_cast(x.dtype, self.dtype, "safe"):
            raise TypeError(f"{name} of dtype {x.dtype} cannot be added exactly to ExactSum({self.dtype})")
        return x

    def _checked(self, array: Any, name: str) -> Array:
        x = self._exact(array, name)
        lead = x.ndim - len(self.shape)
        if lead < 0 or x.shape[lead:] != self.shape:
            ends = ", ".join(map(str, ("...", *self.shape)))
            raise ValueError(f"{name} must have shape ({ends}), got {x.shape}")
        return x

    def _compacted(self) -> Superaccumulator:
        sums = self._sums
        with device_of(sums.flags):
            return sums.compacted()


def check_factors(parts: Terms, dtype: np.dtype) -> None:
    """Raise TypeError for factors whose products have more digits than those of numbers of a dtype have."""
    for x in (x for summands in parts for terms in summands for x in terms.factors):
        if not np.can_cast(x.dtype, dtype, "safe"):
            raise TypeError(
                f"terms with factors of dtype {x.dtype} cannot be added exactly to ExactSum({dtype}), "
                f"which holds products of two numbers of its dtype: use one of {x.dtype}"
            )


def taken_words(total: ExactSum) -> Iterator[Array]:
    """Yield what is left of a finite sum, rounded, and take it away, until that is 0: the sum is used up."""
    word: Any = total.round()
    yield word
    while anywhere(word):
        word = total.add(-word).round()
        yield word


def _window(sums: Superaccumulator) -> np.ndarray:
    first, end = (sums.first, sums.end) if len(sums.digits) else (sums.range.digits, 0)
    return np.array([-first, end], np.int64)


def _unpickled(dtype: np.dtype, shape: tuple[int, ...], first: int, words: Array, flags: Array) -> ExactSum:
    """An accumulator of its digits, as words of 32 bits, and flags."""
    total = ExactSum(dtype, shape)
    digits = words.astype(np.int64)
    if len(digits):
        digits[-1] -= (digits[-1] >> (DIGIT_BITS - 1)) << DIGIT_BITS  # the sign
    total._sums = Superaccumulator.of(total._sums.range, first, digits, flags)
    return total
