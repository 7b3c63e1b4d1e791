"""Products of sums of two words, against fractions; the family of the fuzz has ordinary numbers."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

import ozaki
from ozaki.definition.rounding import nearest
from ozaki.execution import two_words
from ozaki.product.panels import in_panels
from tests.fuzz.fixed import check_family
from tests.oracle import same

RNG = np.random.default_rng(66)


def normal(*shape):
    return RNG.standard_normal(shape)


def exact_sums(words):
    """Rows of fractions: the sums of words."""
    numbers = [[list(map(Fraction, row)) for row in word.tolist()] for word in words]
    return [[sum(x) for x in zip(*rows, strict=True)] for rows in zip(*numbers, strict=True)]


def products(a, b):
    """Σ a·b and Σ |a·b| by row and column."""
    columns = [list(column) for column in zip(*exact_sums(b), strict=True)]
    for i, row in enumerate(exact_sums(a)):
        for j, column in enumerate(columns):
            terms = [x * y for x, y in zip(row, column, strict=True)]
            yield (i, j), sum(terms), sum(map(abs, terms))


def wide(x, octaves):
    return np.ldexp(x, RNG.integers(-octaves, octaves + 1, x.shape))


K = 12
B = normal(K, 3), 2.0**-54 * normal(K, 3)
GRADED = 2.0 ** np.arange(0, 40 * K, 40)
OPERANDS = {
    "words": ((normal(3, K), 2.0**-54 * normal(3, K)), B),
    "overlapping": ((normal(3, K), normal(3, K)), (normal(K, 3), 2.0**-20 * normal(K, 3))),
    "low words first": ((2.0**-60 * normal(3, K), normal(3, K)), B),
    "words that cancel": ((1 + normal(3, K), -1 - normal(3, K)), B),
    "sums that cancel": (
        (np.tile(normal(3, K // 2), 2), np.zeros((3, K))),
        tuple(np.vstack([word[: K // 2], -word[: K // 2] * (1 + 2.0**-50)]) for word in B),
    ),
    "wide": ((wide(normal(3, K), 40), 2.0**-54 * normal(3, K)), B),
    "too wide": ((wide(normal(3, K), 400), 2.0**-54 * normal(3, K)), B),
    "graded": (
        (GRADED * normal(3, K), 2.0**-54 * GRADED * normal(3, K)),
        tuple(word / GRADED[:, None] for word in B),
    ),
    "sparse": ((normal(3, K) * (RNG.random((3, K)) < 0.2), 2.0**-54 * np.eye(3, K)), B),
    "one word": ((normal(3, K),), B),
    "one word each": ((normal(3, K),), B[:1]),
}


@pytest.mark.parametrize("kind", OPERANDS)
def test_error_is_that_of_fp64_with_the_square_of_its_unit_roundoff(kind):
    a, b = OPERANDS[kind]
    high, low = ozaki.matmul(a if len(a) > 1 else a[0], b if len(b) > 1 else b[0], words=2)
    tolerance = Fraction(min(K / 2, 12 * sqrt(K)) + 1) / 2**106
    for at, exact, size in products(a, b):
        assert abs(Fraction(high[at]) + Fraction(low[at]) - exact) <= tolerance * size
        assert abs(low[at]) <= np.spacing(abs(high[at])) / 2


@pytest.mark.parametrize("kind", OPERANDS)
def test_exact_words_are_rounded_from_the_product_and_from_what_is_left(kind):
    a, b = OPERANDS[kind]
    high, low = ozaki.matmul(a if len(a) > 1 else a[0], b if len(b) > 1 else b[0], words=2, accuracy="exact")
    for at, exact, _ in products(a, b):
        assert (high[at], low[at]) == (nearest(exact), nearest(exact - Fraction(high[at])))


def test_ordinary_numbers_of_all_dtypes():
    check_family("matmul, two words", 40)


def test_stacks_vectors_panels_and_engines_have_the_bits_of_one_matrix():
    a, b = (normal(2, 5, 70), 2.0**-53 * normal(2, 5, 70)), (normal(70, 6), normal(70, 6))
    stack = ozaki.matmul(a, b, words=2)
    for i in range(2):
        alone = ozaki.matmul((a[0][i], a[1][i]), b, words=2)
        in_panels = ozaki.matmul((a[0][i], a[1][i]), b, words=2, workspace=1 << 17, engine="host")
        for whole, *others in zip(stack, alone, in_panels, strict=True):
            assert all(same(whole[i], x) for x in others)
    rows = ozaki.matmul((a[0][0, 0], a[1][0, 0]), b, words=2)
    inner = ozaki.matmul((a[0][0, 0], a[1][0, 0]), tuple(x[:, 1] for x in b), words=2)
    for whole, row, number in zip(stack, rows, inner, strict=True):
        assert same(whole[0, 0], row)
        assert same(whole[0, 0, 1], number[()])


def test_inf_nan_and_sums_that_overflow():
    big = np.finfo(np.float64).max
    a = np.array([[np.inf, 1], [1, 2], [big, 1], [big, 0], [np.nan, 1]]), np.zeros((5, 2))
    a[1][1:4, 0] = 2.0**-60, big, -(2.0**969)
    high, low = ozaki.matmul(a, np.array([[1.0, 0], [1, 0]]), words=2)
    first, second = [np.inf, 3, np.inf, big, np.nan], [np.nan, 0, np.nan, 0, np.nan]
    assert same(high, np.array([first, second]).T)
    assert low.tolist() == [[0, 0], [2.0**-60, 0], [0, 0], [-(2.0**969), 0], [0, 0]]
    high, low = ozaki.matmul((np.array([[1e300, 1e300]]),) * 2, np.full((2, 1), 1e300), words=2)
    assert (high, low) == (np.inf, 0)
    high, low = ozaki.matmul((np.array([[1e-300]]), np.array([[1e-320]])), np.full((1, 1), 1e-20), words=2)
    assert (high, low) == (1e-320, 0)


def test_a_part_of_a_complex_number_that_overflows_leaves_the_other_alone():
    x = 1 + 2.0**-52
    a, b = np.full((1, 1), 2.0**600 * x), np.full((1, 1), complex(2.0**500, 2.0**300 * x))
    high, low = ozaki.matmul(a, b, words=2, accuracy="exact")
    assert (high, low) == (complex(np.inf, 2.0**900 * (1 + 2.0**-51)), 2.0**796 * 1j)


@pytest.mark.parametrize("shapes", [((2, 0), (0, 3)), ((0, 2), (2, 3)), ((0, 2, 3), (3, 4))])
def test_nothing(shapes):
    a, b = map(np.ones, shapes)
    wanted = np.matmul(a, b)
    assert all(same(word, wanted) for word in ozaki.matmul((a, a), b, words=2))


def test_memory(monkeypatch):
    a, b = OPERANDS["words"]
    with pytest.raises(MemoryError, match="the smallest panel of this 3 x 12 x 3 product"):
        ozaki.matmul(a, b, words=2, workspace=10)
    wanted, tries = ozaki.matmul(a, b, words=2), []

    def short(scheme, pair, *arguments):
        tries.append(pair.request.workspace)
        if len(tries) == 1:
            raise MemoryError
        in_panels(scheme, pair, *arguments)

    monkeypatch.setattr(two_words, "in_panels", short)
    assert all(map(same, ozaki.matmul(a, b, words=2), wanted))
    assert tries == [tries[0], tries[0] // 2]


X = np.ones((2, 2))
ERRORS = {
    "words must be 1 or 2, got 3": {"words": 3},
    "a must be an array, or a tuple of two of one shape, got none": {"a": ()},
    r"a must be .*, got \(2, 2\), \(2, 2\), \(2, 2\)": {"a": (X, X, X)},
    r"a must be .*, got \(2, 2\), \(2,\)": {"a": (X, X[0])},
    "inner dimensions differ": {"a": (X[:, :1], X[:, :1])},
    "accuracy of two words must be 'fp64' or 'exact', got 'normwise'": {"accuracy": "normwise"},
    "scheme of two words must be 'auto' or 'residues', got 'slices'": {"scheme": "slices"},
    "out is not taken together with words=2": {"out": X},
    "dtype is not taken together with words=2": {"dtype": np.int64},
}


@pytest.mark.parametrize("message", ERRORS)
def test_wrong_arguments(message):
    with pytest.raises(ValueError, match=message):
        ozaki.matmul(**{"a": (X, X), "b": X, "words": 2} | ERRORS[message])


@pytest.mark.parametrize("bad", [(X, np.full((2, 2), "a")), (X, np.full((2, 2), 2**62 + 1)), (X, None)])
def test_what_is_no_number(bad):
    with pytest.raises(TypeError, match=r"a must be|a has integers"):
        ozaki.matmul(bad, X, words=2)
