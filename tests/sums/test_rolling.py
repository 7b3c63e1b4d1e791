"""Rolling sums, means and variances: against exact ones, pandas' conventions, and windows one by one."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

import ozaki
from multiword.runtime.compiled import numpy_forms
from ozaki.sums import rolling
from tests.fuzz.fixed import check_family

ROLLING = {name: getattr(ozaki, f"rolling_{name}") for name in ("sum", "mean", "var", "std")}
WITHOUT_NAN = {name: getattr(ozaki, f"nan{name}") for name in ROLLING}
RNG = np.random.default_rng(8)


def test_every_window_is_rounded_once():
    check_family("rolling sums", 60)


def windows(x, window, ahead=0):
    return [x[max(0, i + ahead + 1 - window) : i + ahead + 1] for i in range(len(x))]


@pytest.mark.parametrize("name", ROLLING)
@pytest.mark.parametrize(
    "x",
    [
        RNG.standard_normal(90) + 1e9,
        RNG.standard_normal(90) * 2.0 ** RNG.integers(-500, 500, 90),
        np.cumsum(RNG.standard_normal(90)).astype(np.float32),
        RNG.integers(-(2**27), 2**27, 90),
        np.where(np.arange(90) < 150, 1e300, 1e-300),
        np.where(np.arange(90) % 7, 1e-310, 0.1),
        np.where(np.arange(90) % 50 == 7, np.inf, -0.0),
    ],
    ids=["far from zero", "all sizes", "float32", "integers", "large, then small", "subnormal", "Inf and −0"],
)
def test_windows_have_the_bits_of_reductions(name, x):
    """What has left a window leaves no trace."""
    for window, least in ((1, 1), (7, 0), (64, 64), (1000, 5)):
        found = ROLLING[name](x, window, min_count=least)
        alone = [
            WITHOUT_NAN[name](w, dtype=found.dtype) if len(w) >= least else np.nan for w in windows(x, window)
        ]
        assert found.tobytes() == np.array(alone, found.dtype).tobytes()


@pytest.mark.parametrize(
    ("window", "least", "center"), [(6, 2, True), (1, 0, False), (7, 7, False), (99, 3, True)]
)
def test_without_compiled_loops_the_bits_are_the_same(monkeypatch, window, least, center):
    """Windows of one length together, and as many at once as there is room for."""
    monkeypatch.setattr(rolling, "_GATHERED", 40)
    x = RNG.standard_normal((3, 40))
    x[1, ::3] = np.nan
    x[2] = np.where(RNG.random(40) < 0.5, -0.0, 0.0)
    for name, function in ROLLING.items():
        expected = function(x, window, min_count=least, center=center)
        with numpy_forms():
            found = function(x, window, min_count=least, center=center)
        assert found.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("name", ROLLING)
def test_conventions_are_those_of_pandas(name):
    pandas = pytest.importorskip("pandas")
    x = RNG.integers(-8, 9, 40) / 4.0
    x[RNG.random(40) < 0.2] = np.nan
    ddof = {"ddof": 1} if name in ("var", "std") else {}
    for window in (1, 2, 5, 8, 60):
        for least in (None, 0, 1, 2):
            for center in (False, True):
                if least is not None and least > window:
                    continue
                rolling = pandas.Series(x).rolling(window, min_periods=least, center=center)
                found = ROLLING[name](x, window, min_count=least, center=center, **ddof)
                expected = getattr(rolling, name)().to_numpy()
                assert np.allclose(found, expected, rtol=1e-6, atol=1e-9, equal_nan=True), (
                    window,
                    least,
                    center,
                )


def of_windows(x, window):
    """For each window how many numbers it has, and the sums of these and of squares, in units of 2**-80."""
    integers = [int(Fraction(v) * 2**80) if not np.isnan(v) else 0 for v in x.tolist()]
    rows = (~np.isnan(x)).tolist(), integers, [v * v for v in integers]
    running = [list(accumulate(row, initial=0)) for row in rows]
    for end in range(1, len(x) + 1):
        yield [row[end] - row[max(0, end - window)] for row in running]


@pytest.mark.parametrize(
    "x",
    [
        RNG.standard_normal(9000),
        np.cumsum(RNG.standard_normal(9000)),
        np.where(np.arange(9000) % 9, RNG.standard_normal(9000) - 1e9, np.nan),
        RNG.integers(-9, 9, 9000) / 4,
        np.where(np.arange(9000) < 300, 1e20, RNG.standard_normal(9000)),
    ],
    ids=["normal", "walk", "far from zero, missing", "ties", "large, then small"],
)
def test_long_rows_are_cut_into_parts(x):
    """Python divides integers with one rounding."""
    for window in (7, 300):
        windows = list(of_windows(x, window))
        expected = {
            "sum": [s / 2**80 for n, s, _ in windows],
            "mean": [s / (n * 2**80) if n else np.nan for n, s, _ in windows],
            "var": [(n * q - s * s) / (n * (n - 1) * 2**160) if n > 1 else np.nan for n, s, q in windows],
        }
        for name, values in expected.items():
            ddof = {"ddof": 1} if name == "var" else {}
            found = ROLLING[name](x, window, min_count=0, **ddof)
            assert np.array_equal(found, values, equal_nan=True), (name, window)


def test_axes_and_dtypes():
    x = RNG.standard_normal((4, 5, 6)).astype(np.float32)
    for axis in (0, 1, -1):
        found = ozaki.rolling_sum(x, 3, axis=axis)
        assert (found.shape, found.dtype) == (x.shape, np.float32)
        assert (
            found.tobytes()
            == np.moveaxis(ozaki.rolling_sum(np.moveaxis(x, axis, 0), 3, 0), 0, axis).tobytes()
        )
    assert ozaki.rolling_mean(x, 2, dtype=np.float64).dtype == np.float64
    assert ozaki.rolling_sum(np.ones(4, np.float16), 2).dtype == np.float16
    assert ozaki.rolling_sum(np.ones((0, 3)), 2).shape == (0, 3)
    assert ozaki.rolling_sum(np.ones((3, 0)), 2).shape == (3, 0)


def test_what_is_refused():
    x = np.ones(5)
    for window, options, error in (
        (0, {}, "window must be at least 1"),
        (3, {"min_count": 4}, "min_count must be from 0 to window, which is 3"),
        (3, {"min_count": -1}, "min_count"),
    ):
        with pytest.raises(ValueError, match=error):
            ozaki.rolling_sum(x, window, **options)
    with pytest.raises(TypeError, match="window"):
        ozaki.rolling_sum(x, 2.5)
    with pytest.raises(TypeError, match="x must be real"):
        ozaki.rolling_sum(x * 1j, 2)
    with pytest.raises(TypeError, match="cannot hold exactly"):
        ozaki.rolling_sum(np.array([2**60 + 1]), 1)
    with pytest.raises(IndexError):
        ozaki.rolling_sum(x, 2, axis=1)


def test_dask_arrays_have_the_bits_of_whole_ones():
    da = pytest.importorskip("dask.array")
    x = RNG.standard_normal((6, 50)) * 1e3
    x[2, 5:9] = np.nan
    for chunks in ((2, 7), (6, 50), (3, (1, 20, 29))):
        for window, center in ((1, False), (4, True), (9, False), (30, True), (80, False)):
            for name, function in ROLLING.items():
                expected = function(x, window, min_count=1, center=center)
                lazy = function(da.from_array(x, chunks=chunks), window, min_count=1, center=center)
                assert isinstance(lazy, da.Array)
                assert lazy.dtype == expected.dtype
                assert lazy.compute(scheduler="sync").tobytes() == expected.tobytes(), (name, chunks, window)
    with pytest.raises(ValueError, match="window"):
        ozaki.rolling_sum(da.ones(5), 0)
