"""Products of a matrix with its own transpose, against full products and fractions."""

import numpy as np
import pytest

import ozaki
from multiword.engines.host import Host
from tests.cases import in_dtype, matrices


def same(x, y):
    return x.dtype == y.dtype and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("kind", ["wide6", "graded", "underflow"])
@pytest.mark.parametrize("accuracy", [None, "exact", "normwise"])
def test_gram_has_the_bits_of_the_product(dtype, kind, accuracy):
    for m in (7, 300):
        x, _ = in_dtype(*matrices(kind, 20, m, 20), dtype)
        full = ozaki.matmul(x.conj().T.copy(), x, accuracy=accuracy)
        half = ozaki.gram(x, accuracy=accuracy)
        assert same(half, full)
        assert np.array_equal(half, half.conj().T, equal_nan=True)


@pytest.mark.parametrize("accuracy", ["fp64", "exact"])
def test_panels_in_a_small_workspace_and_nonfinite_columns(accuracy):
    x = matrices("uniform", 700, 50, 1)[0].T
    x[3, 500], x[4, 2] = np.inf, np.nan
    full = ozaki.matmul(x.T.copy(), x, accuracy=accuracy)
    for workspace in (None, 1 << 22, 1 << 20):
        assert same(ozaki.gram(x, accuracy=accuracy, workspace=workspace), full)


class Counting(Host):
    """Counts the multiplications of words."""

    def __init__(self):
        self.count = 0

    def _compute(self, kind, a, bt, out, alpha, beta):
        self.count += a.size * bt.shape[-2]
        super()._compute(kind, a, bt, out, alpha, beta)


def multiplications(a, b):
    engine = Counting()
    ozaki.matmul(a, b, accuracy="normwise", engine=engine)
    return engine.count


def test_half_the_products_where_a_matrix_meets_its_transpose():
    x = matrices("uniform", 2048, 64, 1)[0]
    full = multiplications(x, x.T.copy())
    for rows in (x, np.asfortranarray(x), x[:, ::2].repeat(2, axis=1), x[::-1], x[:, ::-1]):
        assert multiplications(rows, rows.T) == full * 9 // 16
        assert multiplications(rows, rows[::-1].T) == full
    assert multiplications(x.T, x) == multiplications(x.T.copy(), x)  # of 64 columns
    engine = Counting()
    ozaki.gram(x.T, accuracy="normwise", engine=engine)
    assert engine.count == full * 9 // 16
