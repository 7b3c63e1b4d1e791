"""Calls that come again on a CPU: their checks are left away, and nothing else. (On a GPU: tests/gpu.)"""

import numpy as np
import pytest

import ozaki
from multiword.runtime.compiled import compiling, numpy_forms
from ozaki.execution import repeated
from tests.cells import cells
from tests.matrices import FACES, KINDS, in_dtype, matrices
from tests.oracle import same

pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")

SHAPES = [(1, 1, 1), (5, 4, 6), (1, 60, 30), (30, 60, 1), (600, 3, 3), (40, 70, 50)]


@pytest.fixture(autouse=True)
def nothing_known():
    repeated._signatures.clear()


def usual(multiply, *arguments, **options):
    """What a call returns whose layout is not known."""
    repeated._signatures.clear()
    return multiply(*arguments, **options)


@cells(shape=SHAPES, dtype=FACES)
def test_each_call_has_the_bits_of_its_own_data(shape, dtype):
    kinds = [kind for kind in KINDS if shape[1] % 2 == 0 or kind != "cancelling"]
    data = [in_dtype(*matrices(kind, *shape, seed=i), dtype) for i, kind in enumerate(kinds)]
    data[-1][0][0, -1] = np.nan
    for multiply, options in (
        (ozaki.matmul, {}),
        (FACES[dtype], {}),
        (ozaki.matmul, {"accuracy": "normwise"}),
        (ozaki.matmul, {"accuracy": "exact"}),
    ):
        expected = [usual(multiply, a, b, **options) for a, b in data]
        usual(multiply, *data[0], **options)
        assert len(repeated._signatures) == 1
        for (a, b), c in zip(data, expected, strict=True):
            assert same(multiply(a, b, **options), c)
        assert len(repeated._signatures) == 1


def test_what_is_no_accuracy_is_none_of_a_known_layout_either():
    a = np.ones((5, 5))
    ozaki.matmul(a, a)
    with pytest.raises((TypeError, ValueError), match="accuracy"):
        ozaki.matmul(a, a, accuracy=...)


def test_vectors_and_views():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((12, 14)), rng.standard_normal((14, 12))
    x, y = a[0], b[:, 0]
    for left, right in (
        (x, y), (x, b), (a, y), (a, b), (a[::-1], b), (a.copy("F"), b[:, ::-1]), (b.T, a.T), (a[:, :12], a),
    ):  # fmt: skip
        expected = usual(ozaki.matmul, left, right)
        again = ozaki.matmul(left, right)
        assert type(again) is type(expected)
        assert same(again, expected)
    repeated._signatures.clear()
    first = ozaki.matmul(x, y)
    assert len(repeated._signatures) == 1
    assert first == ozaki.matmul(x, y)
    assert first == ozaki.dot(x, y)
    assert len(repeated._signatures) == 1


def test_a_matrix_that_meets_its_transpose():
    a = np.random.default_rng(1).standard_normal((30, 30))
    for x in (a, a + 1j * a.T):
        others = [x.copy(), x.conj().T]  # its layout is known before it comes
        expected = [usual(ozaki.matmul, x, y) for y in others]
        repeated._signatures.clear()
        for y, c in zip((*others, *others), (*expected, *expected), strict=True):
            assert same(ozaki.matmul(x, y), c)


def test_calls_that_are_not_known():
    a = np.ones((4, 4))
    for _ in range(2):
        ozaki.matmul(a, a, out=np.empty((4, 4)))
        ozaki.matmul(a, a, words=2)
        ozaki.matmul(a, a, engine="host")
        ozaki.accurate_dgemm(a, a, alpha=2.0)
        ozaki.matmul(a.astype(np.int64), a.astype(np.int64), dtype=np.int64)
        ozaki.matmul(a.astype(">f8"), a)
        ozaki.matmul(a[None], a[None])
        ozaki.matmul(a[:0], a)
        with ozaki.executor("steps"):
            ozaki.matmul(a, a)
        with pytest.raises(ValueError, match="inner dimensions differ"):
            ozaki.matmul(a, a[:3])
        with pytest.raises(ValueError, match="accuracy must be"):
            ozaki.matmul(a, a, accuracy="none")
    assert not repeated._signatures


def test_errors_are_those_of_a_first_call():
    a, b = np.ones((2, 5, 5))
    for _ in range(2):
        ozaki.accurate_dgemm(a, b)
        ozaki.matmul(a, b)
    assert len(repeated._signatures) == 2
    for accuracy in ("", None, "fp65", 0):
        with pytest.raises(ValueError, match="accuracy"):
            ozaki.accurate_dgemm(a, b, accuracy=accuracy)
    assert same(ozaki.matmul(a, b, accuracy=None), ozaki.matmul(a, b))


def test_an_executor_that_is_named_runs_a_known_layout():
    a, b = np.ones((4, 4)), np.ones((4, 4))
    expected = ozaki.matmul(a, b)
    assert repeated._signatures
    with ozaki.executor("definition"):
        assert same(ozaki.matmul(a, b), expected)
    with ozaki.executor("graph"), pytest.raises(ValueError, match="executor 'graph' cannot take this"):
        ozaki.matmul(a, b)


@pytest.mark.skipif(not compiling(), reason="needs numba")
def test_forms_of_numpy_are_known_apart():
    a, b = np.random.default_rng(2).standard_normal((2, 6, 6))
    expected = ozaki.matmul(a, b)
    with numpy_forms():
        assert same(ozaki.matmul(a, b), expected)
        assert same(ozaki.matmul(a, b), expected)
    assert len(repeated._signatures) == 2


def test_layouts_are_forgotten(monkeypatch):
    monkeypatch.setattr(repeated, "LAYOUTS_KNOWN", 3)
    for n in range(1, 9):
        assert ozaki.matmul(np.ones((1, n)), np.ones((n, 1))).item() == n
        assert len(repeated._signatures) <= 3
