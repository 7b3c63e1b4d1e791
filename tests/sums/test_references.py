"""Every reduction of one array has the value of its exact reference, rounded once: at ties, and beside."""

import pickle

import numpy as np

import ozaki
from multiword.runtime.compiled import numpy_forms
from ozaki.arrays.functions import FUNCTIONS
from ozaki.public import PUBLIC
from ozaki.sums.table import REDUCTIONS
from tests.cells import cells
from tests.fuzz.draw import difference
from tests.oracle import FORMATS, joined
from tests.reductions import ONE_ARRAY, REFERENCES

LENGTHS = 1, 3, 64, 3000
"""Those of each form: a few numbers, and many, whose mean divides by a power of two or not."""


def rows(precision: int, n: int) -> list[np.ndarray]:
    """Numbers whose mean and root mean square are halfway between two of a format, or just beside that."""
    tie = (1 << precision) + 1
    whole = np.full(n, tie, np.int64)
    beside = [whole.copy() for _ in range(4)]
    for row, step in zip(beside, (1, -1, 2, -2), strict=True):
        row[n // 2] += step
    rng = np.random.default_rng(n)
    far = np.ldexp(rng.standard_normal(n), rng.integers(-1000, 1000, n))
    near = rng.standard_normal(n)
    special = np.where(np.arange(n) == n // 2, np.nan, near)
    return [
        *(whole, 2 * whole, *beside, far, near, near * 2.0**-1060, near + 1j * near[::-1]),
        *(np.full(n, -0.0), np.where(np.arange(n) == 0, np.inf, near), special),
    ]


def expected(name: str, row: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The reference, in a dtype that holds it."""
    found = REFERENCES[name](row, FORMATS[dtype])
    result = dtype if len(found) == 1 else {4: np.complex64, 8: np.complex128}[dtype.itemsize]
    return joined([np.array(part) for part in found], result)


@cells(name=ONE_ARRAY, dtype=FORMATS, n=LENGTHS)
def test_a_result_is_the_reference(name, dtype, n):
    function = getattr(ozaki, name)
    for row in rows(FORMATS[dtype][0], n):
        if row.dtype.kind == "c" and not REDUCTIONS[name].real and dtype.itemsize < 4:
            continue  # complex numbers of two float16 are of no dtype
        wanted = expected(name, row, dtype)
        several = np.stack([row, row[::-1], row], axis=1)
        with np.errstate(all="ignore"):
            for compute in (function, numpy_forms()(function)):
                assert difference(compute(row, dtype=wanted.dtype), wanted[()]) is None
                found = compute(several, axis=0, dtype=wanted.dtype)
                assert difference(found, np.broadcast_to(wanted, 3)) is None


def test_rounding_twice_would_be_seen():
    """The mean of squares rounded before its root is drawn is another number for some of these rows."""
    seen = 0
    for n in LENGTHS[2:]:
        for row in rows(24, n)[:8]:
            x = row.astype(np.float64)
            twice = np.sqrt(np.float32(ozaki.dot(x, x) / n))
            seen += twice != expected("rms", row, np.dtype(np.float32))
    assert seen > 3


def test_every_reduction_of_one_array_has_a_reference():
    assert set(REFERENCES) == set(ONE_ARRAY)


def test_public_functions_are_those_that_are_defined():
    """So that `help`, an editor and pickle find them."""
    for name, record in PUBLIC.items():
        module = __import__(record.value.__module__, fromlist=[name])
        assert getattr(ozaki, name) is record.value is getattr(module, name)
        assert pickle.loads(pickle.dumps(record.value)) is record.value
    assert ozaki.__all__ == sorted(PUBLIC)


def test_functions_of_numpy_are_those_of_the_table():
    assert {name for name in REDUCTIONS if hasattr(np, name)} <= {f.__name__ for f in FUNCTIONS}
    x = ozaki.array([3.0, 4.0])
    assert all(getattr(ozaki, name)(x) == getattr(ozaki, name)(np.array(x)) for name in ONE_ARRAY)
