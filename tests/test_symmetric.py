"""Products of a matrix with its own transpose, covariances and distances, against exact ones."""

from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.engines.host import Host
from multiword.engines.int8_cpu.kernels import available_kernels
from tests.cells import cells
from tests.matrices import in_dtype, matrices

ENGINES = ("auto", "host", *(f"int8_cpu:{kernel.name}" for kernel in available_kernels()))


def same(x, y):
    return x.dtype == y.dtype and x.tobytes() == y.tobytes()


@cells(
    dtype=["float64", "float32", "complex128", "complex64"],
    kind=["wide6", "graded", "underflow"],
    accuracy=[None, "exact", "normwise"],
)
def test_gram_has_the_bits_of_the_product(dtype, kind, accuracy):
    for m in (7, 300):
        x, _ = in_dtype(*matrices(kind, 20, m, 20), dtype)
        full = ozaki.matmul(x.conj().T[::-1], x, accuracy=accuracy, engine="host")[::-1]  # unseen
        for engine in ENGINES:
            half = ozaki.gram(x, accuracy=accuracy, engine=engine)
            assert same(half, full)
            assert np.array_equal(half, half.conj().T, equal_nan=True)


@pytest.mark.parametrize("engine", ENGINES)
def test_imaginary_parts_that_underflow_keep_their_signs(engine):
    x = matrices("uniform", 20, 300, 2)[0] * 2.0**-540
    x = x + 1j * np.roll(x, 1, axis=1)
    full = ozaki.matmul(x.conj().T.copy(), x, engine="host")
    assert np.signbit(full.imag[full.imag == 0]).any()
    assert same(ozaki.gram(x, engine=engine), full)


@pytest.mark.parametrize("accuracy", ["fp64", "exact"])
def test_panels_in_a_small_workspace_and_nonfinite_columns(accuracy):
    x = matrices("uniform", 700, 50, 1)[0].T
    x[3, 500], x[4, 2] = np.inf, np.nan
    full = ozaki.matmul(x.T.copy(), x, accuracy=accuracy)
    for workspace in (None, 1 << 22, 1 << 20):
        assert same(ozaki.gram(x, accuracy=accuracy, workspace=workspace), full)


class Counting(Host):
    """Counts the multiplications of words, and does none."""

    def __init__(self):
        self.count = 0

    def _compute(self, kind, a, bt, out, alpha, beta):
        self.count += a.size * bt.shape[-2]
        out[...] = 0


def multiplications(a, b):
    engine = Counting()
    ozaki.matmul(a, b, accuracy="normwise", engine=engine)
    return engine.count


def test_half_the_products_where_a_matrix_meets_its_transpose():
    x = matrices("uniform", 2048, 64, 1)[0]
    full = multiplications(x, x.T.copy())
    for rows in (x, np.asfortranarray(x), x[::-1, ::-1]):
        assert multiplications(rows, rows.T) == full * 9 // 16
        assert multiplications(rows, rows[::-1].T) == full
    for y in ((9 * x).astype("int32"), np.stack([9 * x, x]).astype("int8")):
        assert multiplications(y, y.mT) == multiplications(y, y.mT.copy()) * 9 // 16
    assert multiplications(x.T, x) == multiplications(x.T.copy(), x)  # of 64 columns
    engine = Counting()
    ozaki.gram(x.T, accuracy="normwise", engine=engine)
    assert engine.count == full * 9 // 16


def test_half_the_products_where_a_matrix_meets_its_conjugate_transpose():
    x = matrices("uniform", 64, 2048, 1)[0] * (1 - 0.5j)
    full = multiplications(x.conj().T[::-1], x)
    other = x.copy()
    other[1, 7] += 2.0**-50
    for y in (x.conj().T, np.conj(np.asfortranarray(x)).T):
        assert multiplications(y, x) == full * 9 // 16
    assert multiplications(y, other) == multiplications(x.T, x) == full


def exactly(x):
    return [[Fraction(float(v)) for v in row] for row in x]


def exact_cov(x, ddof):
    rows, n = exactly(x), x.shape[1]
    centred = [[v - sum(row) / n for v in row] for row in rows]
    return [[sum(p * q for p, q in zip(a, b, strict=True)) / (n - ddof) for b in centred] for a in centred]


OBSERVED = {
    "small means": lambda rng: rng.standard_normal((4, 30)),
    "large means": lambda rng: 1e8 + rng.standard_normal((4, 30)),
    "a few last bits": lambda rng: 1e16 + 2.0 * rng.integers(0, 2, (4, 30)),
    "last bits about a power of two": lambda rng: 2.0**53 + rng.integers(-3, 3, (4, 30)),
    "scales apart": lambda rng: 10.0 ** np.array([[-200], [-3], [0], [9]]) * (3 + rng.random((4, 30))),
    "nearly constant": lambda rng: 0.1 + 2.0**-56 * (np.arange(4 * 101).reshape(4, 101) % 100 == 7),
}


@pytest.mark.parametrize("data", OBSERVED)
@pytest.mark.parametrize("ddof", [0, 1])
def test_covariances_have_the_error_of_their_variances(data, ddof):
    x, u = OBSERVED[data](np.random.default_rng(1)), 2.0**-53
    want, got = exact_cov(x, ddof), ozaki.cov(x, ddof=ddof, accuracy="exact")
    with np.errstate(all="ignore"):
        correlations = ozaki.corrcoef(x, accuracy="exact")
    assert same(got, got.T.copy())
    assert same(correlations, correlations.T.copy())
    assert same(got.diagonal().copy(), ozaki.var(x, axis=1, ddof=ddof))
    for i, j in np.ndindex(got.shape):
        size = want[i][i] * want[j][j]
        assert (Fraction(got[i, j]) - want[i][j]) ** 2 <= (16 * Fraction(u)) ** 2 * size + Fraction(
            2.0**-1070
        )
        if i != j and size > 1e-250:
            error = float(correlations[i, j]) - float(want[i][j]) / float(size) ** 0.5
            assert abs(error) <= 22 * u


@pytest.mark.parametrize("value", [0.5, np.inf, -np.nan, 1e300])
def test_nans_of_covariances_are_the_canonical_one(value):
    """Processors make NaNs of either sign, of 0/0 as of Inf - Inf."""
    x = np.array([[value] * 3, [1.0, 2.0, 4.0]])
    for result in (ozaki.cov(x), ozaki.corrcoef(x)):
        nans = result[np.isnan(result)]
        assert same(nans, np.full(len(nans), np.nan))
    assert np.isnan(ozaki.corrcoef(x)[0]).all()


DEVIATING = {
    **OBSERVED,
    "half a last place off": lambda rng: 1.0 + 2.0**-52 * (np.arange(120).reshape(4, 30) % 2),
    "both signs": lambda rng: rng.standard_normal((4, 30)) * 2.0 ** rng.integers(-60, 60, (4, 30)),
    "one far from the others": lambda rng: (
        np.where(np.arange(30) == 3, -1e9, 1.0) * (1 + rng.random((4, 30)))
    ),
    "subnormal": lambda rng: 5e-324 * rng.integers(-4, 9, (4, 30)),
}


@pytest.mark.parametrize("data", DEVIATING)
def test_rounded_means_and_deviations_are_as_near_as_the_bound_on_covariances_needs(data):
    """No number is nearer to its exact mean than the rounded one, and deviations are rounded by u at most.

    Hence n·δ² <= Σ c² and Σ ε² <= u²·(1 + 3u)²·Σ c², and the whole error is at most 12u with exact products.
    """
    x, u = DEVIATING[data](np.random.default_rng(7)), Fraction(2.0**-53)
    means = ozaki.mean(x, axis=1)
    for row, mean, rounded in zip(exactly(x), means, x - means[:, None], strict=True):
        exact = sum(row) / len(row)
        for number, deviation in zip(row, rounded, strict=True):
            error = Fraction(float(deviation)) - (number - Fraction(float(mean)))
            assert abs(Fraction(float(mean)) - exact) <= abs(number - exact)
            assert abs(error) <= u * (1 + 3 * u) * abs(number - exact)
    want, got = exact_cov(x, 1), ozaki.cov(x, accuracy="exact")
    for i, j in np.ndindex(got.shape):
        error = Fraction(float(got[i, j])) - want[i][j]
        assert max(abs(error) - Fraction(2.0**-1073), 0) ** 2 <= (12 * u) ** 2 * want[i][i] * want[j][j]


def test_deviations_may_overflow():
    x = np.array([[1.5e308, -1.5e308, 1.7e308], [1e-300, 3e-300, 2e-300]])
    want, got = exact_cov(x, 1), ozaki.cov(x)
    assert got[0, 0] == np.inf
    assert abs(Fraction(got[0, 1]) / want[0][1] - 1) <= 16 * 2.0**-53


@pytest.mark.parametrize("function", [ozaki.gram, ozaki.cov, ozaki.corrcoef])
@pytest.mark.parametrize("accuracy", [0, ""])
def test_accuracies_are_those_of_matmul(function, accuracy):
    with pytest.raises(ValueError, match="accuracy"):
        function(np.eye(2), accuracy=accuracy)


def test_columns_and_vectors_have_covariances():
    x = np.random.default_rng(2).standard_normal((5, 3))
    assert same(ozaki.cov(x, rowvar=False), ozaki.cov(x.T.copy()))
    assert ozaki.cov(x[0]).tolist() == [[ozaki.var(x[0], ddof=1)]]
    assert np.allclose(ozaki.cov(x, rowvar=False), np.cov(x, rowvar=False))
    assert np.allclose(ozaki.corrcoef(x), np.corrcoef(x))
    x[1, 1] = np.inf
    assert np.isnan(ozaki.cov(x)[1]).all()
    assert np.isfinite(ozaki.cov(x)[2, 0])
    with pytest.raises(ValueError, match="x must be a matrix"):
        ozaki.cov(np.ones((2, 2, 2)))
    with pytest.raises(TypeError, match="ddof must be"):
        ozaki.cov(x, ddof="a")
    with pytest.raises(TypeError, match="x must be real"):
        ozaki.cov(np.ones((2, 2), complex))


DISTANT = {
    "near": lambda rng: 1e8 + np.ldexp(rng.standard_normal((6, 5)), -30),
    "equal": lambda rng: np.full((6, 5), 0.1),
    "wide": lambda rng: np.ldexp(rng.standard_normal((6, 5)), rng.integers(-150, 150, (6, 5))),
    "single": lambda rng: rng.standard_normal((6, 5)).astype(np.float32),
    "integers": lambda rng: rng.integers(-9, 9, (6, 5)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("data", DISTANT)
def test_distances_are_correctly_rounded(data):
    rng = np.random.default_rng(3)
    x, y = DISTANT[data](rng), DISTANT[data](rng)[:4]
    x[2] = y[1]
    got = ozaki.cdist_squared(x, y)
    pairs = [[zip(a, b, strict=True) for b in exactly(y)] for a in exactly(x)]
    want = [[float(sum((p - q) ** 2 for p, q in pair)) for pair in row] for row in pairs]
    assert got.tolist() == want
    assert got[2, 1] == 0


@pytest.mark.parametrize("exponent", [-530, -538, -540])
def test_distances_whose_squares_underflow_are_not_negative(exponent):
    x = np.ldexp(np.random.default_rng(0).standard_normal((50, 3)), exponent)
    found = ozaki.cdist_squared(x, x)
    assert not np.signbit(found).any()
    assert found.diagonal().max() <= 5e-324


def test_distances_of_what_has_none():
    x = np.ones((3, 2))
    x[0, 0], x[1, 1] = np.inf, np.nan
    assert np.isnan(ozaki.cdist_squared(x, x)[:2]).all()
    assert ozaki.cdist_squared(x, x)[2, 2] == 0
    assert ozaki.cdist_squared(x[:, :0], x[:, :0]).shape == (3, 3)
    with pytest.raises(ValueError, match="one length"):
        ozaki.cdist_squared(x, x.T)
    with pytest.raises(OverflowError, match="power of two"):
        ozaki.cdist_squared(x * 1e200, x)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("kind", ["uniform", "wide6", "graded", "underflow", "nonfinite"])
@pytest.mark.parametrize("accuracy", [None, "exact", "normwise"])
def test_gram_on_a_gpu_has_the_bits_of_a_cpu(dtype, kind, accuracy):
    cupy = pytest.importorskip("cupy")
    for m, k in ((7, 20), (300, 20), (1030, 300)):
        x, _ = in_dtype(*matrices("uniform" if kind == "nonfinite" else kind, k, m, 20), dtype)
        if kind == "nonfinite":
            x[k // 2, 5], x[0, m // 2] = np.inf, np.nan
        want, on_device = ozaki.gram(x, accuracy=accuracy), cupy.asarray(x)
        for y in (on_device, on_device.T.copy().T):
            for options in [{}] * 3 + [{"workspace": 1 << 20}]:  # launched, captured, replayed; in panels
                assert same(ozaki.gram(y, accuracy=accuracy, **options).get(), want)
            if accuracy != "normwise":
                assert same(ozaki.matmul(y.T.conj(), y, accuracy=accuracy).get(), want)


@pytest.mark.gpu
def test_distances_of_rows_of_nothing_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    assert ozaki.cdist_squared(cupy.ones((3, 0)), cupy.ones((2, 0))).tolist() == [[0.0, 0.0]] * 3
