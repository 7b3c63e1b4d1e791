"""Random numbers of a call and a place, and of nothing else: `Generator`, with the names of NumPy's."""

from __future__ import annotations

import secrets
from contextlib import nullcontext
from functools import partial
from math import prod
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

from multiword.public import public_in
from multiword.runtime.arrays import Array, as_array, is_cupy, namespace, on_host, quietly
from multiword.runtime.options import integer
from ozaki.elementary.angles import cospi, sinpi
from ozaki.elementary.logarithms import log, sqrt
from ozaki.random.philox import below, fractions, wide, words
from ozaki.sums.arguments import DType

Size = int | tuple[int, ...] | None

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


@public_in("ozaki.random", "Generators")
def default_rng(seed: int | None = None, like: Array | None = None) -> Generator:
    """Return a generator of random numbers.

    Parameters
    ----------
    seed : integer from 0 to 2**64 − 1; None for one that the system draws.
    like : an array of the library, and on the device, that numbers are wanted for: NumPy's, if None.

    >>> default_rng(7).random(2)
    array([0.75015222, 0.08565787])
    """
    return Generator(secrets.randbits(64) if seed is None else seed, like)


@public_in("ozaki.random", "Generators")
class Generator:
    """Random numbers that depend on the seed, the number of the call and their places in its result alone.

    A call's result is the same for NumPy and CuPy, on every machine, for any number of threads. Workers that
    make the same calls, each with its own `first`, have the parts of one result: element i of a result whose
    `first` is f is element f + i, in C order, of one whose `first` is 0.

    Parameters
    ----------
    seed, like : as in `default_rng`.

    Attributes
    ----------
    seed : of the generator.
    call : how many calls have been made, which may be set: each call's numbers are independent of others'.

    Raises
    ------
    TypeError : a seed, a size or a place is no integer, a dtype neither float32 nor float64.
    ValueError : a seed, a size or a place is out of range.

    References
    ----------
    Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (Philox 4×32-10).

    >>> rng = Generator(7)
    >>> whole = rng.random(10)
    >>> rng.call = 0
    >>> bool((rng.random(4, first=6) == whole[6:]).all())
    True
    """

    def __init__(self, seed: int, like: Array | None = None) -> None:
        self.seed = _in_range("seed", seed)
        self.call = 0
        self._xp: ModuleType = np if like is None else namespace(as_array(like, "like"))
        self._device = like.device if like is not None and is_cupy(like) else None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, call={self.call})"

    def random(self, size: Size = None, dtype: DType = np.float64, *, first: int = 0) -> Any:
        """Return numbers in [0, 1): multiples of 2**-53, or of 2**-24 in float32, each as probable.

        Parameters
        ----------
        size : shape of the result; None for a single number.
        dtype : float32 or float64.
        first : the place of the first number, for a part of a result.

        >>> Generator(1).random((2, 2), np.float32).shape
        (2, 2)
        """
        dtype, (shape, first, count) = _float(dtype), self._places(size, first)
        return self._of_fractions(shape, lambda u: u, dtype, first, count)

    def uniform(
        self,
        low: float = 0.0,
        high: float = 1.0,
        size: Size = None,
        dtype: DType = np.float64,
        *,
        first: int = 0,
    ) -> Any:
        """Return low + (high − low)·u, u as of `random`: in the dtype, each of the three steps rounded.

        As `Generator.random`; differs in the bounds, of which the upper one may be reached by rounding.

        >>> bool((Generator(1).uniform(2, 3, 100) >= 2).all())
        True
        """
        dtype, (shape, first, count) = _float(dtype), self._places(size, first)
        start, width = dtype.type(low), dtype.type(high) - dtype.type(low)
        return self._of_fractions(shape, lambda u: u * width + start, dtype, first, count)

    def standard_normal(self, size: Size = None, dtype: DType = np.float64, *, first: int = 0) -> Any:
        """Return normal numbers: √(−2·log u)·cos(2πv), at odd places sin(2πv) (Box and Muller, 1958).

        As `Generator.random`; differs in the distribution. u is in (0, 1], v in [0, 1). log, root, cosine and
        sine are correctly rounded, as is their product, in float64; float32 rounds that once more. |x| is at
        most 8.58.

        >>> float(abs(Generator(1).standard_normal(1000)).max()) < 8.58
        True
        """
        dtype, (shape, first, count) = _float(dtype), self._places(size, first)
        begin, pairs = first // 2, -(-(first + count) // 2) - first // 2

        def numbers(u: Array) -> Array:
            return _normal(u)[first - 2 * begin :][:count].astype(dtype, copy=False)

        return self._of_fractions(shape, numbers, _FLOATS[1], 2 * begin, 2 * pairs)

    def normal(
        self,
        loc: float = 0.0,
        scale: float = 1.0,
        size: Size = None,
        dtype: DType = np.float64,
        *,
        first: int = 0,
    ) -> Any:
        """Return loc + scale·z, z as of `standard_normal`: in the dtype, product and sum rounded.

        As `Generator.standard_normal`; differs in mean and deviation. ValueError for a negative scale.

        >>> Generator(1).normal(10.0, 0.0, 2)
        array([10., 10.])
        """
        if not scale >= 0:
            raise ValueError(f"scale must not be negative, got {scale}")
        dtype = _float(dtype)
        z = self.standard_normal(size, dtype, first=first)
        return z * dtype.type(scale) + dtype.type(loc)

    def integers(self, low: int, high: int | None = None, size: Size = None, *, first: int = 0) -> Any:
        """Return integers from low to high − 1, or from 0 to low − 1 if there is no high, as int64.

        As `Generator.random`; differs in the distribution: the upper half of the product of high − low and a
        word of 64 bits (Lemire, 2019, without rejecting: a number's probability is 1/(high − low) but for
        2**-64). ValueError where there is no such integer.

        >>> sorted(set(Generator(1).integers(3, size=100).tolist()))
        [0, 1, 2]
        """
        start, end = (0, low) if high is None else (low, high)
        start, end = integer("low", start), integer("high", end)
        if not -(1 << 63) <= start < end <= 1 << 63:
            raise ValueError(f"integers must be at least low and below high in int64, got {start}, {end}")
        shape, first, count = self._places(size, first)
        return self._made(shape, lambda w: _scaled(w, end - start, start), 2, first, count)

    def bernoulli(self, p: float, size: Size = None, *, first: int = 0) -> Any:
        """Return booleans that are true with probability p, rounded up to a multiple of 2**-53.

        As `Generator.random`; differs in the distribution. ValueError unless 0 ≤ p ≤ 1.

        >>> Generator(1).bernoulli(1.0, 3)
        array([ True,  True,  True])
        """
        if not 0 <= p <= 1:
            raise ValueError(f"p must be from 0 to 1, got {p}")
        return self._below(p, None, size, first)

    def _below(self, p: float, value: np.float32 | None, size: Size, first: int = 0) -> Any:
        shape, first, count = self._places(size, first)
        return self._of_call(shape, lambda x: x, partial(below, p, value=value), 2, first, count)

    def permutation(self, n: int) -> Array:
        """Return 0 to n − 1 in random order: sorted by words of 64 bits, and by place where these are equal.

        >>> sorted(Generator(1).permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        _, count = _shape(integer("n", n))
        return self._made((count,), lambda w: namespace(w).argsort(wide(w), kind="stable"), 2, 0, count)

    def _places(self, size: Size, first: int) -> tuple[tuple[int, ...] | None, int, int]:
        """Return a result's shape, None for a single number, its first place, and how many numbers it has."""
        shape, count = _shape(size)
        return shape, _in_range("first", first), count

    def _made(self, shape: tuple[int, ...] | None, numbers: Any, size: int, first: int, count: int) -> Any:
        """Return numbers of so many words each, made of this call's words."""

        def draw(seed: int, call: int, first: int, count: int, xp: ModuleType) -> Array:
            return words(seed, call, first * size, count * size, xp)

        return self._of_call(shape, numbers, draw, size, first, count)

    def _of_fractions(
        self, shape: tuple[int, ...] | None, numbers: Any, dtype: np.dtype, first: int, count: int
    ) -> Any:
        """Return numbers made of this call's fractions, one each."""
        draw = partial(fractions, dtype=dtype)
        return self._of_call(shape, numbers, draw, dtype.itemsize // 4, first, count)

    def _of_call(
        self, shape: tuple[int, ...] | None, numbers: Any, draw: Any, size: int, first: int, count: int
    ) -> Any:
        """Return numbers made of what is drawn for a new call, of so many words each."""
        if (first + count) * size > 1 << 64:
            raise ValueError(f"a call has 2**64 words, too few for {count} numbers from place {first} on")
        with self._lock:
            call = _in_range("call", self.call)
            self.call = call + 1
        with self._on_device():
            x = draw(self.seed, call, first, count, xp=self._xp)
            with quietly(x):
                result = numbers(x)
            return on_host(result)[0] if shape is None else result.reshape(shape)

    def _on_device(self) -> Any:
        return nullcontext() if self._device is None else self._device


def _in_range(name: str, value: Any) -> int:
    number = integer(name, value)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{name} must be from 0 to 2**64 − 1, got {number}")
    return number


def _float(dtype: DType) -> np.dtype:
    found = np.dtype(dtype)
    if found not in _FLOATS:
        raise TypeError(f"dtype must be float32 or float64, got {found}")
    return found


def _shape(size: Size) -> tuple[tuple[int, ...] | None, int]:
    """Return a shape, None for a single number, and how many numbers it has."""
    if size is None:
        return None, 1
    shape = tuple(integer("size", n) for n in (size if isinstance(size, tuple | list) else (size,)))
    if any(n < 0 for n in shape):
        raise ValueError(f"size must not be negative, got {shape}")
    return shape, prod(shape)


def _normal(fractions_: Array) -> Array:
    """Return two normal numbers for two fractions each."""
    u, v = fractions_.reshape(-1, 2).T
    radius = sqrt(log(u + 2.0**-53) * -2.0)  # of (0, 1]
    angle = v * 2.0
    return namespace(u).stack([radius * cospi(angle), radius * sinpi(angle)], axis=-1).reshape(-1)


def _scaled(w: Array, count: int, start: int) -> Array:
    """Return start + floor(word·count/2**64) of words of 64 bits, count at most 2**64."""
    x, half = wide(w), np.uint64(32)
    if count == 1 << 64:
        return x.view(np.int64) + np.int64(start)  # modulo 2**64
    low, high = x & np.uint64(0xFFFFFFFF), x >> half
    a, b = np.uint64(count & 0xFFFFFFFF), np.uint64(count >> 32)
    middle = high * a + (low * a >> half)
    other = low * b + (middle & np.uint64(0xFFFFFFFF))
    return (high * b + (middle >> half) + (other >> half)).view(np.int64) + np.int64(start)


def scaled_bernoulli(rng: Generator, p: float, value: np.float32, size: Size) -> Any:
    """Return a float32 value where `rng.bernoulli(p, size)` is true, 0 elsewhere: on a GPU by one kernel."""
    return rng._below(p, value, size)
