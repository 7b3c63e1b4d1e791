"""One random case: what has been drawn for it, in words, and how its results are compared."""

from typing import Any

import numpy as np

from tests.fuzz.arrays import HOST_LAYOUTS, INTEGERS, KINDS, SPECIAL, Spec


class Mismatch(AssertionError):
    """A result that is not what it must be. `sort` names the kind of failure in the table."""

    def __init__(self, sort: str, message: str) -> None:
        super().__init__(message)
        self.sort = sort


class Draw:
    """Random choices, noted by name so that a failing case can be described."""

    def __init__(self, seed: Any, layouts: tuple[str, ...] = HOST_LAYOUTS, case: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.seed, self.case = seed, case
        self.layouts = layouts
        self.notes: list[str] = []

    def pick(self, name: str, *options: Any) -> Any:
        """One of the options."""
        value = options[int(self.rng.integers(len(options)))]
        self.notes.append(f"{name}={value!r}")
        return value

    def size(self, name: str, low: int, high: int) -> int:
        """An integer from low to high."""
        value = int(self.rng.integers(low, high + 1))
        self.notes.append(f"{name}={value}")
        return value

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def kind(self, special: float = 0.1) -> str:
        """A kind of numbers, with Inf and NaN in that share of the cases."""
        return SPECIAL if self.chance(special) else KINDS[int(self.rng.integers(len(KINDS)))]

    def kinds(self, special: float = 0.1) -> tuple[str, str]:
        """Those of the numbers of both operands of a product; graded ones go together."""
        return ("graded", "graded") if self.chance(0.1) else (self.kind(special), self.kind(special))

    def spec(self, name: str, shape: tuple[int, ...], dtypes: Any, kind: str | None = None) -> Spec:
        """A description of an array, of one of the dtypes."""
        dtype = np.dtype(dtypes[int(self.rng.integers(len(dtypes)))])
        octaves = int(self.rng.choice([3, 20, 100, 500]))
        layout = "C" if self.chance(0.3) else self.layouts[int(self.rng.integers(len(self.layouts)))]
        spec = Spec(tuple(shape), dtype, kind or self.kind(), layout, octaves)
        self.notes.append(f"{name}: {spec}")
        return spec

    def array(self, name: str, shape: tuple[int, ...], dtypes: Any, kind: str | None = None) -> np.ndarray:
        """An array of one of the dtypes."""
        return self.spec(name, shape, dtypes, kind).make(self.rng)

    def shape(self, name: str, dimensions: int, most: int) -> tuple[int, ...]:
        """A shape, now and then with an empty axis or one of length 1."""
        sizes = [
            int(self.rng.choice([0, 1, int(self.rng.integers(1, most + 1))], p=[0.05, 0.15, 0.8]))
            for _ in range(dimensions)
        ]
        self.notes.append(f"{name}={tuple(sizes)}")
        return tuple(sizes)


def plain(x: np.ndarray) -> np.ndarray:
    """The same numbers in native byte order, C-contiguous."""
    return np.array(x, x.dtype.newbyteorder("="), order="C")


def bits(x: np.ndarray) -> np.ndarray:
    """The elements' bits as integers; complex numbers as two."""
    x = np.ascontiguousarray(x)
    if x.dtype.kind == "c":
        x = x.reshape(-1).view(x.real.dtype)
    return x.reshape(-1).view(f"u{x.dtype.itemsize}") if x.dtype.kind != "b" else x.reshape(-1)


def difference(got: Any, expected: Any) -> str | None:
    """What tells two arrays apart, all NaNs alike; None if nothing does."""
    got, expected = np.asarray(got), np.asarray(expected)
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return f"got {got.dtype} {got.shape}, expected {expected.dtype} {expected.shape}"
    one, other = bits(got), bits(expected)
    apart = one != other
    if not apart.any():
        return None
    if got.dtype.kind in "fcV" or got.dtype.name == "bfloat16":
        values = [plain(x).reshape(-1) for x in (got, expected)]
        values = [x.view(x.real.dtype) if x.dtype.kind == "c" else x for x in values]
        apart &= ~(np.isnan(values[0]) & np.isnan(values[1]))
        if not apart.any():
            return None
        where = int(apart.argmax())
        shown = [f"{float(v[where])!r} ({float(v[where]).hex()})" for v in values]
    else:
        where = int(apart.argmax())
        shown = [repr(v.reshape(-1)[where]) for v in (got, expected)]
    return f"number {where} of {apart.size} ({int(apart.sum())} differ): got {shown[0]}, expected {shown[1]}"


def check_same(sort: str, got: Any, expected: Any, note: str = "") -> None:
    """Bit for bit, all NaNs alike."""
    text = difference(got, expected)
    if text is not None:
        raise Mismatch(sort, f"{note + ': ' if note else ''}{text}")


def check(sort: str, condition: Any, message: str) -> None:
    if not condition:
        raise Mismatch(sort, message)


def check_one_nan(sort: str, x: Any) -> None:
    """All NaNs have the bits of numpy.nan in their dtype."""
    x = plain(np.asarray(x)).reshape(-1)
    x = x.view(x.real.dtype) if x.dtype.kind == "c" else x
    if x.dtype.kind not in "fV":
        return
    patterns = set(bits(x[np.isnan(x)]).tolist()) - set(bits(np.array([np.nan]).astype(x.dtype)).tolist())
    check(sort, not patterns, f"a NaN with the bits {', '.join(map(hex, sorted(patterns)))}")


SMALL_INTEGERS = tuple(t for t in INTEGERS if t.itemsize <= 2)
