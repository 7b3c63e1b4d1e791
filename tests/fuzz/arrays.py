"""Random arrays: what numbers they hold and how they lie in memory."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.oracle import BFLOAT16, FORMATS, part_dtype

REAL = (np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), BFLOAT16)
COMPLEX = (np.dtype(np.complex128), np.dtype(np.complex64))
INTEGERS = tuple(
    np.dtype(t) for t in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "?")
)

KINDS = (
    "normal",
    "positive",
    "integers",
    "wide",
    "rows",
    "graded",
    "full",
    "subnormal",
    "edge",
    "cancelling",
    "ties",
    "zeros",
    "sparse",
    "powers",
    "equal",
)
SPECIAL = "special"
"""Normal numbers with an Inf, a NaN and a −0 here and there."""

MIXED = "mixed"
"""Every matrix of a stack of another kind, and spread over another number of octaves."""

ALL_BITS = "all bits"
"""Integers of their dtype's whole range, or of some of its bits."""

FAR = "far"
"""Normal numbers about a mean that is far from zero, of float64."""

LAYOUTS = ("C", "F", "strided", "reversed", "broadcast", "transposed", "window", "offset")
HOST_LAYOUTS = (*LAYOUTS, *LAYOUTS, "byteswapped", "unaligned", "readonly")


@dataclass(frozen=True)
class Spec:
    """An array to be made: the same for several draws of its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype
    kind: str
    layout: str
    octaves: int = 20

    def __str__(self) -> str:
        spreading = self.kind in ("wide", "rows", "graded", "powers")
        spread = f" over ±{self.octaves} octaves" if spreading else ""
        return f"{self.dtype.name} {self.shape} {self.kind}{spread}, {self.layout}"

    def make(self, rng, xp: Any = np) -> Any:
        """The array, of NumPy or of `xp`."""
        return place(values(rng, self), self.layout, xp)


def values(rng, spec: Spec) -> np.ndarray:
    """Numbers of the kind, C-contiguous."""
    dtype = spec.dtype
    if spec.kind == MIXED:
        return _mixed(rng, spec)
    if dtype.kind in "iub":
        return _whole(rng, spec)
    if dtype.kind == "c":
        part = Spec(spec.shape, part_dtype(dtype), spec.kind, "C", spec.octaves)
        result = np.empty(spec.shape, dtype)
        result.real, result.imag = values(rng, part), values(rng, part)
        return result
    with np.errstate(over="ignore", under="ignore"):
        return _real(rng, spec, *FORMATS[dtype]).astype(dtype)


def _mixed(rng, spec: Spec) -> np.ndarray:
    kinds = (
        "normal",
        "normal",
        "positive",
        "integers",
        "wide",
        "rows",
        "graded",
        "sparse",
        "zeros",
        "subnormal",
        SPECIAL,
    )
    result = np.empty(spec.shape, spec.dtype)
    for index in np.ndindex(*spec.shape[:-2]):
        kind, octaves = kinds[int(rng.integers(len(kinds)))], int(rng.choice([3, 20, 60, 250]))
        result[index] = values(rng, Spec(spec.shape[-2:], spec.dtype, kind, "C", octaves))
    return result


def _whole(rng, spec: Spec) -> np.ndarray:
    if spec.dtype.kind == "b":
        return rng.integers(0, 2, spec.shape).astype(bool)
    info = np.iinfo(spec.dtype)
    if spec.kind == ALL_BITS:
        x = rng.integers(info.min, info.max, spec.shape, spec.dtype, endpoint=True)
        return x >> spec.dtype.type(rng.integers(0, 8 * spec.dtype.itemsize))
    low, high = max(info.min, -(2**53)), min(info.max, 2**53)
    if spec.kind in ("normal", "integers", "zeros", "sparse", "equal"):
        low, high = max(low, -9), min(high, 9)
    return rng.integers(low, high, spec.shape, endpoint=True).astype(spec.dtype)


def _real(rng, spec: Spec, precision: int, emin: int, emax: int) -> np.ndarray:
    """Float64 numbers that the format holds, but for those of "normal" and "positive"."""
    shape, kind = spec.shape, spec.kind
    significand = rng.integers(-(2**precision) + 1, 2**precision, shape).astype(np.float64)
    unit = emin - precision + 1
    if kind in ("normal", "positive", SPECIAL):
        x = rng.standard_normal(shape)
        x = np.abs(x) if kind == "positive" else x
        return _sprinkled(rng, x) if kind == SPECIAL else x
    if kind == FAR:
        return rng.standard_normal(shape) + rng.choice([1.0, 1e9, -3e15])
    if kind == "integers":
        return rng.integers(-9, 10, shape).astype(np.float64)
    if kind in ("wide", "rows"):
        spread = min(spec.octaves, (emax - emin) // 2 - precision)
        which = shape
        if kind == "rows" and shape:
            which = (*shape[:-1], 1) if rng.integers(2) else (1, *shape[1:])
        return np.ldexp(significand, rng.integers(-spread, spread + 1, which) - precision)
    if kind == "graded":
        spread = min(spec.octaves, (emax - emin) // 2 - precision)
        return np.ldexp(significand, _grades(shape, spread) - precision)
    if kind == "full":
        lengths = 2.0 ** rng.integers(0, precision, shape)  # some with few bits, hence subnormals
        return np.ldexp(np.trunc(significand / lengths), rng.integers(unit, emax - precision + 1, shape))
    if kind == "subnormal":
        return np.ldexp(np.trunc(significand / 2), unit)
    if kind == "edge":
        return np.ldexp(significand, emax + 1 - precision - rng.integers(0, 3, shape))
    if kind == "cancelling":
        return _cancelling(rng, significand, precision)
    if kind == "ties":
        steps = np.array([0, 0, -precision, -precision, 1 - precision, -2 * precision])
        steps = steps[rng.integers(0, len(steps), shape)]
        return rng.choice([-1.0, 1.0], shape) * 2.0 ** np.maximum(steps, emin)
    if kind == "zeros":
        return rng.choice([0.0, -0.0], shape)
    if kind == "sparse":
        return np.where(
            rng.integers(0, 8, shape) == 0, rng.standard_normal(shape), rng.choice([0.0, -0.0], shape)
        )
    if kind == "powers":
        spread = min(spec.octaves, -emin)
        return rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.integers(-spread, spread + 1, shape).astype(float)
    assert kind == "equal", kind
    return np.full(shape, rng.standard_normal())


def _grades(shape: tuple[int, ...], octaves: int) -> np.ndarray:
    """Exponents that rise along the last axis but one and fall along the last.

    Where both operands of a product have them, they are opposite along the inner dimension.
    """
    rising, falling = (np.linspace(-octaves // 2, octaves // 2, n) for n in (1, 1, *shape)[-2:])
    return np.rint(rising[:, None] - falling).astype(np.int64).reshape(shape[-2:])


def _cancelling(rng, x: np.ndarray, precision: int) -> np.ndarray:
    """Numbers of which half are the other half, negated, a few last bits apart, in any order."""
    flat = x.reshape(-1).copy()
    half = flat.size // 2
    flat[half : 2 * half] = -flat[:half] + (rng.integers(0, 4, half) == 0) * rng.integers(-2, 3, half)
    limit = 2.0**precision
    return rng.permutation(np.clip(flat, -limit, limit)).reshape(x.shape) * 2.0 ** -int(rng.integers(0, 12))


def _sprinkled(rng, x: np.ndarray) -> np.ndarray:
    for value in (np.inf, -np.inf, np.nan, -0.0, 0.0):
        if rng.integers(2):
            x = np.where(rng.random(x.shape) < rng.choice([0.02, 0.2]), value, x)
    return x


def place(x: np.ndarray, layout: str, xp: Any = np) -> Any:
    """An array of `xp` with these numbers, lying in memory as the layout says.

    "broadcast" repeats the first row, so that its numbers are others.
    """
    shape, nd = x.shape, x.ndim
    if layout == "F" and nd:
        return moved(np.ascontiguousarray(x.T), xp).T
    if layout == "strided" and nd:
        return _filled(xp, (*shape[:-1], 2 * shape[-1] + 1), x, (..., slice(1, None, 2)))
    if layout == "reversed" and nd:
        backwards = (slice(None, None, -1),) * nd
        return moved(np.ascontiguousarray(x[backwards]), xp)[backwards]
    if layout == "broadcast" and nd and shape[0]:
        return xp.broadcast_to(moved(x[:1].copy(), xp), shape)
    if layout == "transposed" and nd > 1:
        turned = np.ascontiguousarray(x.transpose((*range(1, nd), 0)))
        return moved(turned, xp).transpose((nd - 1, *range(nd - 1)))
    if layout == "window" and nd:
        return _filled(xp, tuple(n + 3 for n in shape), x, tuple(slice(1, n + 1) for n in shape))
    if layout == "offset":
        return _filled(xp, (x.size + 1,), x.reshape(-1), slice(1, None)).reshape(shape)
    if layout == "byteswapped" and x.dtype != BFLOAT16:
        return x.astype(x.dtype.newbyteorder("S"))
    if layout == "unaligned":
        memory = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(shape)
        memory[...] = x
        return memory
    result = moved(x.copy(), xp)
    if layout == "readonly":
        result.setflags(write=False)
    return result


def moved(x: np.ndarray, xp: Any) -> Any:
    """A contiguous NumPy array as one of `xp`."""
    if xp is np:
        return x
    if not x.size:
        return xp.empty(x.shape, x.dtype)
    # As bytes: CuPy fills a single -0.0 as 0.0, and knows bfloat16 only in part.
    return xp.asarray(x.reshape(-1).view(np.uint8)).view(x.dtype).reshape(x.shape)


def fetched(x: Any) -> np.ndarray:
    """An array of either library, or a scalar, as a NumPy array."""
    if not hasattr(x, "get"):
        return np.asarray(x)
    return x.view(np.uint16).get().view(BFLOAT16) if x.dtype == BFLOAT16 else x.get()


def _filled(xp: Any, shape: tuple[int, ...], x: np.ndarray, where: Any) -> Any:
    """A view of a larger array, in which everything else is a number that would show."""
    memory = np.full(shape, 77, x.dtype)
    memory[where] = x
    return moved(memory, xp)[where]
