"""Products of matrices are added to exact sums without an error, in any parts of the inner dimension."""

from fractions import Fraction

import numpy as np
import pytest

from ozaki import ExactSum
from ozaki.sums.exact import matrix_products


def wide(*shape, dtype, seed):
    """Numbers of very different sizes, some of them zeros and subnormal."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.uniform(-70, 60, shape)) * (rng.random(shape) > 0.1)
    x.flat[0] = np.finfo(dtype).smallest_subnormal
    return x.astype(dtype)


def exact(a, b):
    rows, columns = ([[Fraction(float(v)) for v in row] for row in x] for x in (a, b.T))
    return [sum(p * q for p, q in zip(row, column, strict=True)) for row in rows for column in columns]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_are_exact_in_any_parts(dtype, monkeypatch):
    a, b = wide(3, 40, dtype=dtype, seed=1), wide(40, 5, dtype=dtype, seed=2)
    total = ExactSum(dtype, (3, 5)).add_matmul(a, b)
    assert total.fractions() == exact(a, b)
    monkeypatch.setattr(matrix_products, "INNER", 7)
    monkeypatch.setattr(matrix_products, "ELEMENTS", 5)
    parts = ExactSum(dtype, (3, 5))
    for start in (25, 0):
        parts.add_matmul(a[:, start:][:, : 25 + start], b[start:][: 25 + start])
        a, b = a[:, :25], b[:25]
    assert parts.to_bytes() == total.to_bytes()


def test_slices_of_ones_add_up_to_numbers_of_float64():
    """Two bits more to a slice, and the sums of products over the longest inner dimension are rounded."""
    rng, k = np.random.default_rng(1), matrix_products.INNER
    a, b = (2**53 - 1 - 2 * rng.integers(2**8, size=k) for _ in "ab")
    a[0] -= 1  # the largest sum is odd
    total = ExactSum(shape=(1, 1)).add_matmul(a[None].astype(float), b[:, None].astype(float))
    assert total.fractions() == [sum(p * q for p, q in zip(a.tolist(), b.tolist(), strict=True))]


def test_ends_of_the_range():
    big, tiny = np.finfo(np.float64).max, np.finfo(np.float64).smallest_subnormal
    total = ExactSum(shape=(1, 1)).add_matmul(np.array([[big, tiny, big]]), np.array([[big], [tiny], [-big]]))
    assert total.fractions() == [Fraction(tiny) ** 2]


def test_inf_and_nan_stay_in_their_rows_and_columns():
    a = np.array([[np.inf, 1.0], [2.0, 3.0], [-np.inf, np.inf]])
    b = np.array([[1.0, 1.0, np.nan], [1e308, -1e308, 1e308]])
    found = ExactSum(shape=(3, 3)).add_matmul(a, b).round()
    expected = [[np.inf, np.inf, np.nan], [np.inf, -np.inf, np.nan], [np.nan, -np.inf, np.nan]]
    np.testing.assert_array_equal(found, expected)


def test_no_terms():
    assert ExactSum(shape=(2, 1)).add_matmul(np.ones((2, 0)), np.ones((0, 1))).round().tolist() == [
        [0.0],
        [0.0],
    ]


def test_misfits_are_refused():
    ones = np.ones((2, 2))
    with pytest.raises(ValueError, match="matrices"):
        ExactSum(shape=(2, 2)).add_matmul(ones, ones[:1])
    with pytest.raises(ValueError, match="the product must have shape"):
        ExactSum(shape=(2, 3)).add_matmul(ones, ones)
    with pytest.raises(TypeError, match="complex"):
        ExactSum(np.complex128, (2, 2)).add_matmul(ones, ones)
    with pytest.raises(TypeError, match="exactly"):
        ExactSum(np.float32, (2, 2)).add_matmul(ones, ones)


def test_places_are_taken_and_merged():
    total = ExactSum(np.complex64, (2,)).add(np.array([1 + 2j, 3 + 4j], np.complex64))
    assert total.take(np.array([[1, 0], [1, 1]])).round().tolist() == [[3 + 4j, 1 + 2j], [3 + 4j, 3 + 4j]]
    real = ExactSum(shape=(2, 2)).merge_at(ExactSum(shape=2).add(np.array([1e100, 2.0])), np.array([3, 0]))
    assert real.round().tolist() == [[2.0, 0.0], [0.0, 1e100]]
