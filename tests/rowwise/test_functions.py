"""softmax, norms of layers and other means are their formulas, for any layout, dtype and order of a row."""

from functools import partial
from math import inf, nan

import ml_dtypes
import numpy as np
import pytest

import ozaki
from multiword.rounding import round_to
from multiword.runtime.compiled import numpy_forms
from ozaki.elementary.api import FORMATS
from ozaki.public import PUBLIC
from ozaki.rowwise import host
from ozaki.rowwise.api import inverse_deviation
from tests.rowwise.definitions import DEFINITIONS, NOT_FINITE, POSITIVE

NAMES = sorted(DEFINITIONS)


def drawn(name, *shape, dtype=np.float64):
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 6, shape)
    return (np.abs(x) if name in POSITIVE else x).astype(dtype)


def defined(name, rows):
    """The definition of float64 rows, rounded to their dtype."""
    wide = np.array([DEFINITIONS[name](row.tolist()) for row in rows.astype(np.float64)])
    return round_to(wide, FORMATS[rows.dtype.name])


def same(x, y):
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def test_all_are_defined():
    assert {r.name for r in PUBLIC.values() if r.heading == "Functions of rows"} == set(NAMES)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_definition(name, dtype):
    """Of short rows and long ones, in every dtype."""
    function, keep = getattr(ozaki, name), {"keepdims": True} if "keepdims" in PUBLIC[name].parameters else {}
    for n in (1, 5, 60):
        x = drawn(name, 7, n, dtype=dtype)
        assert same(function(x, axis=1, **keep), defined(name, x))


@pytest.mark.parametrize("name", NAMES)
def test_layouts_axes_and_order(name):
    function, x = getattr(ozaki, name), drawn(name, 6, 5, 40)
    reduced = "keepdims" in PUBLIC[name].parameters
    for axis in (None, 0, 1, (0, 2)):
        expected = np.ascontiguousarray(function(x, axis=axis))
        for view in (np.asfortranarray(x), x[::-1, ::-1, ::-1][::-1, ::-1, ::-1]):
            assert same(np.ascontiguousarray(function(view, axis=axis)), expected)
        with numpy_forms():
            assert same(np.ascontiguousarray(function(x, axis=axis)), expected)
    order = np.random.default_rng(0).permutation(40)
    moved = function(x[..., order], axis=-1)
    expected = function(x, axis=-1)
    assert same(
        np.ascontiguousarray(moved), np.ascontiguousarray(expected if reduced else expected[..., order])
    )
    out = np.full_like(expected, 7)
    assert function(x, axis=-1, out=out) is out
    assert same(out, expected)
    if not reduced:
        assert same(function(x, axis=-1, out=x), expected)


def _of_every_kind(rng, m, n):
    """Rows of usual numbers, of large and small ones, of many zeros, masked ones, equal ones, Inf and NaN."""
    x = rng.standard_normal((m, n))
    yield x
    yield x * 10.0 ** rng.integers(-45, 38, (m, 1))
    yield x * 10.0 ** rng.integers(-6, 3, (m, n))
    yield x + 10.0 ** rng.integers(-3, 7, (m, 1))
    yield np.where(rng.random((m, n)) < 0.4, -inf, 5 * x)
    yield np.where(rng.random((m, n)) < 0.5, -0.0, x)
    yield rng.integers(-3, 3, (m, n))
    yield rng.uniform(-104, -86, (m, n)) * (np.arange(n) > 0)  # powers that are subnormal, or 0
    yield np.where(rng.random((m, n)) < 0.01, rng.choice([inf, nan], (m, n)), x)
    yield np.repeat(x[:, :1], n, axis=1)


@pytest.mark.parametrize("n", [2, 3, 17, 257, 4096, pytest.param(70_001, marks=pytest.mark.slow)])
def test_what_is_enclosed_has_the_bits_of_exact_sums(n, monkeypatch):
    rng = np.random.default_rng(n)
    weight, bias = rng.standard_normal((2, n)).astype(np.float32)
    calls = [partial(getattr(ozaki, name), axis=1) for name in ("softmax", "log_softmax", "logsumexp")]
    calls += [partial(ozaki.layer_norm, eps=eps) for eps in (1e-5, 0.0, 1e30, -1e-3)]
    calls += [partial(ozaki.layer_norm, weight=weight, bias=bias), partial(ozaki.rms_norm, weight=weight)]
    calls += [
        partial(ozaki.layer_norm, bias=bias * np.float32(inf)),
        partial(inverse_deviation, axis=1, eps=0),
    ]
    for x in _of_every_kind(rng, 6000 // n + 2, n):
        with np.errstate(all="ignore"):
            x = x.astype(np.float32)
        found = [call(x) for call in calls]
        with monkeypatch.context() as patched:
            patched.setattr(host, "MOST_ENCLOSED", 0)
            assert all(same(one, call(x)) for one, call in zip(found, calls, strict=True))


@pytest.mark.parametrize("n", [1, 2, 40, 1000])
def test_steps_row_by_row_have_the_bits_of_numpys(n):
    """Of float64 rows, together and alone."""
    pytest.importorskip("numba")
    calls = [partial(getattr(ozaki, name), axis=1) for name in ("softmax", "log_softmax", "logsumexp")]
    for x in _of_every_kind(np.random.default_rng(n), 4, n):
        x = x.astype(np.float64)
        for rows in (x, *(x[i : i + 1] for i in range(4))):
            found = [call(rows) for call in calls]
            with numpy_forms():
                assert all(same(one, call(rows)) for one, call in zip(found, calls, strict=True))


@pytest.mark.parametrize(
    ("name", "seed", "row"), [("softmax", 16, 11381), ("layer_norm", 969, 861), ("rms_norm", 523, 702)]
)
def test_rows_that_plain_float64_would_round_wrong(name, seed, row, monkeypatch):
    """Found among 10⁹ numbers or so; their errors are below what the bound allows."""
    x = np.random.default_rng(seed).standard_normal((1 << 14, 64)).astype(np.float32)[row : row + 1]
    found = getattr(ozaki, name)(x, 1)
    monkeypatch.setattr(host, "MOST_ENCLOSED", 0)
    assert same(found, getattr(ozaki, name)(x, 1))


@pytest.mark.parametrize("name", ["log_softmax", "logsumexp"])
def test_logarithms_that_plain_float64_would_round_wrong(name, monkeypatch):
    x = np.array([[0.0, float.fromhex("-0x1.5776bap+3")]], np.float32)
    found = getattr(ozaki, name)(x, 1)
    monkeypatch.setattr(host, "MOST_ENCLOSED", 0)
    assert same(found, getattr(ozaki, name)(x, 1))


def test_memory_of_every_kind():
    """Read-only, not aligned, of other byte order, reversed: rows, weights and biases."""
    x, weight, bias = drawn("", 40, 8, dtype=np.float32), *drawn("", 2, 8, dtype=np.float32)

    def unaligned(a):
        memory = np.empty(a.nbytes + 1, np.uint8)[1:].view(a.dtype).reshape(a.shape)
        memory[...] = a
        return memory

    def locked(a):
        a = a.copy()
        a.flags.writeable = False
        return a

    expected = ozaki.layer_norm(x, -1, weight, bias), ozaki.softmax(x, -1), ozaki.logsumexp(x, -1)
    for form in (locked, unaligned, lambda a: a.astype(">f4"), lambda a: a[::-1].copy()[::-1]):
        y, w, b = map(form, (x, weight, bias))
        found = ozaki.layer_norm(y, -1, w, b), ozaki.softmax(y, -1), ozaki.logsumexp(y, -1)
        assert all(map(same, found, expected))


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "layer_norm", "rms_norm", "inverse_deviation"])
def test_few_rows_are_left_in_doubt(kind):
    pytest.importorskip("numba")
    x = np.random.default_rng(1).standard_normal((1000, 768)).astype(np.float32)
    _, left = host.run(kind, x, *[1e-5] * (kind not in ("softmax", "log_softmax")))
    assert left is None or len(left) < 30


@pytest.mark.parametrize("name", sorted(NOT_FINITE))
def test_not_finite(name):
    for value, expected in NOT_FINITE[name].items():
        result = np.atleast_1d(getattr(ozaki, name)(np.array([1.0, value, 0.5]), axis=0))
        assert np.array_equal(result[result.size // 2], expected, equal_nan=True)
        assert result.tobytes() == np.where(np.isnan(result), nan, result).tobytes()
    assert np.isnan(ozaki.softmax(np.full(3, -inf))).all()
    assert ozaki.logsumexp(np.full(3, -inf)) == -inf


def test_nothing_and_zero():
    assert ozaki.softmax(np.ones((0, 3)), 0).shape == (0, 3)
    assert ozaki.logsumexp(np.ones((0, 3)), 0).tolist() == [-inf] * 3
    assert np.isnan(ozaki.gmean(np.ones((0, 3)))).all()
    assert ozaki.gmean(np.array([0.0, 4.0])) == 0
    assert ozaki.hmean(np.array([0.0, 4.0])) == 0
    assert np.isnan([ozaki.gmean(np.array([-1.0, 4.0])), ozaki.hmean(np.array([-1.0, 4.0]))]).all()
    for x in ([-np.inf] * 3, [4.0, -np.inf], [np.inf, -np.inf], [-0.0, -np.inf], [-np.inf, np.nan]):
        assert np.isnan([ozaki.gmean(np.array(x)), ozaki.hmean(np.array(x))]).all()
    assert ozaki.hmean(np.array([4.0, np.inf])) == 8


def test_weights_and_arguments():
    x, weight, bias = drawn("", 3, 8, dtype=np.float32), *drawn("", 2, 8, dtype=np.float32)
    expected = ozaki.layer_norm(x) * weight + bias
    assert same(ozaki.layer_norm(x, -1, weight, bias), expected)
    assert same(ozaki.layer_norm(x.T, 0, weight, bias).T.copy(), expected)
    both = ozaki.rms_norm(x, (0, 1), x)
    assert same(both, ozaki.rms_norm(x, (1, 0)) * x)
    with pytest.raises(ValueError, match="weight must be float32 of shape"):
        ozaki.rms_norm(x, -1, weight[1:])
    with pytest.raises(TypeError, match="bias must be float32"):
        ozaki.layer_norm(x, -1, None, bias.astype(float))
    with pytest.raises(TypeError, match="real"):
        ozaki.softmax(x * 1j)
    with pytest.raises(ValueError, match="out must be"):
        ozaki.softmax(x, out=np.empty(3, np.float32))


def test_rows_of_many_blocks():
    """More numbers than a block has, a row longer than one, and threads."""
    x = drawn("", 300, 500, dtype=np.float32)
    assert same(ozaki.softmax(x, -1), np.concatenate([ozaki.softmax(row[None], -1) for row in x]))
    assert ozaki.softmax(x).sum(dtype=float) == pytest.approx(1)
