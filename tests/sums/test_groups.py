"""Sums by group against fractions: any order, cut and labels, and every kind of number."""

import importlib
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest

import ozaki
from multiword.formats import FORMATS
from multiword.runtime.compiled import compiles, numpy_forms
from ozaki.definition.sums import rounded_covariance
from ozaki.sums.exact import extraction, groups, groups_enclosed
from ozaki.sums.exact.summands import Summands
from tests.cells import cells
from tests.oracle import nearest, nearest_root

RNG = np.random.default_rng(35)
N, GROUPS = 6000, 5
label_of = RNG.integers(0, GROUPS - 1, N)  # the last group is empty
NORMAL = RNG.standard_normal(N)
VALUES = {
    "ordinary": NORMAL,
    "of all sizes": NORMAL * 2.0 ** RNG.integers(-1060, 1000, N),
    "growing": np.geomspace(1e-200, 1e200, N) * np.sign(NORMAL),
    "cancelling": np.concatenate([NORMAL[: N // 2] * 1e200, -NORMAL[: N // 2] * 1e200]),
    "subnormal": NORMAL * 2.0**-1060,
    "close to overflow": NORMAL * 2.0**1020,
    "single": NORMAL.astype(np.float32),
    "half": NORMAL.astype(np.float16),
    "strided": RNG.standard_normal((N, 2))[:, 1],
}


BLOCKS = {"GROUP_TERMS": 4096}
FORMS = {
    "compiled": BLOCKS,
    "by threads": BLOCKS | {"shares_of": lambda terms, groups: 3},
    "plain": BLOCKS,
    "enclosed": {},
    "enclosed by threads": {"shares_of": lambda terms, groups: 3},
}


@pytest.fixture(params=FORMS, autouse=True)
def _form(request, monkeypatch):
    """In short blocks, so that words are carried; with and without numba."""
    enclosed = request.param.startswith("enclosed")
    for name, value in FORMS[request.param].items():
        monkeypatch.setattr(groups_enclosed if enclosed else groups, name, value)
    if not enclosed:
        monkeypatch.setattr(groups_enclosed, "ENCLOSED_GROUPS", 0)
    with numpy_forms() if request.param == "plain" else nullcontext():
        yield


def members(x):
    """The elements of each group as fractions."""
    return [[Fraction(v) for v in x[label_of == g].tolist()] for g in range(GROUPS)]


def to(dtype):
    return lambda q: nearest(
        q, FORMATS[{"float64": "fp64", "float32": "fp32", "float16": "fp16"}[dtype.name]]
    )


@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES)
def test_sums_and_means_are_the_nearest(x):
    rounded = to(x.dtype)
    sums = [sum(group) for group in members(x)]
    np.testing.assert_array_equal(ozaki.group_sum(x, label_of, GROUPS), [rounded(s) for s in sums])
    means = [rounded(s / len(g)) for s, g in zip(sums, members(x), strict=True) if g]
    np.testing.assert_array_equal(ozaki.group_mean(x, label_of, GROUPS), [*means, np.nan])


@pytest.mark.parametrize("name", ["ordinary", "of all sizes", "single", "growing"])
def test_products_and_variances_are_the_nearest(name):
    x, y = VALUES[name], VALUES[name][::-1]
    rounded = to(x.dtype)
    pairs = zip(members(x), members(y), strict=True)
    dots = [rounded(sum(a * b for a, b in zip(*pair, strict=True))) for pair in pairs]
    np.testing.assert_array_equal(ozaki.group_dot(x, y, label_of, GROUPS), dots)
    squares = [(sum(v * v for v in g) - sum(g) ** 2 / len(g)) / (len(g) - 1) for g in members(x) if g]
    variances = ozaki.group_var(x, label_of, GROUPS, ddof=1)
    np.testing.assert_array_equal(variances, [*map(rounded, squares), np.nan])
    fmt = FORMATS["fp64" if x.dtype == np.float64 else "fp32"]
    roots = [nearest_root(q, fmt) for q in squares]
    np.testing.assert_array_equal(ozaki.group_std(x, label_of, GROUPS, ddof=1), [*roots, np.nan])


@pytest.mark.parametrize("name", ["ordinary", "of all sizes", "growing"])
def test_neither_order_nor_cut_can_be_seen(name):
    x, order = VALUES[name], RNG.permutation(N)
    at_once = ozaki.ExactSum(shape=GROUPS).add_groups(x[order], label_of[order])
    left, right = ozaki.ExactSum(shape=GROUPS), ozaki.ExactSum(shape=GROUPS)
    left.add_groups(x[:1234], label_of[:1234])
    right.add_groups(x[1234:], label_of[1234:])
    assert left.merge(right) == at_once
    one_by_one = [ozaki.ExactSum().add(x[label_of == g]).to_bytes() for g in range(GROUPS)]
    assert at_once.to_bytes() == b"".join(one_by_one)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_leading_axes_have_their_own_sums(dtype):
    x = (RNG.standard_normal((2, 3, N, 2)) @ np.array([1, dtype(1j) if dtype is np.complex64 else 0])).astype(
        dtype
    )
    sums, variances = (f(x, label_of, GROUPS) for f in (ozaki.group_sum, ozaki.group_var))
    assert (sums.shape, sums.dtype) == ((2, 3, GROUPS), dtype)
    for g in range(GROUPS - 1):
        np.testing.assert_array_equal(sums[..., g], ozaki.sum(x[..., label_of == g], axis=-1))
        np.testing.assert_array_equal(variances[..., g], ozaki.var(x[..., label_of == g], axis=-1))
    total = ozaki.ExactSum(dtype, (2, 3, GROUPS)).add_groups(x, label_of)
    np.testing.assert_array_equal(total.round(), sums)


def test_zeros_and_special_values():
    x = np.array([-0.0, 0.0, -0.0, np.inf, -np.inf, np.nan, np.inf, 1.0, -0.0, 2.0, -2.0])
    labels = np.array([0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6])
    sums = ozaki.group_sum(x, labels, 8)
    np.testing.assert_array_equal(sums, [0, 0, np.nan, np.nan, np.inf, 0, 0, 0])
    assert np.signbit(sums).nonzero()[0].tolist() == [1, 5]
    products = ozaki.group_dot(x, np.ones(11), labels, 8)
    assert products.tobytes() == sums.tobytes()


def test_overflow_of_a_part_of_a_sum():
    x = np.array([1.5e308, 1.5e308, -1.5e308, 5e-324, 1e308])
    assert ozaki.group_sum(x, np.zeros(5, int), 1)[0] == 1.5e308 + 1e308 == np.inf
    assert ozaki.group_sum(x[:4], np.zeros(4, int), 1)[0] == 1.5e308


def test_integers_are_summed_as_integers():
    x = RNG.integers(-(2**62), 2**62, N)
    sums = np.zeros(GROUPS, np.int64)
    np.add.at(sums, label_of, x)
    np.testing.assert_array_equal(ozaki.group_sum(x, label_of, GROUPS), sums)
    np.testing.assert_array_equal(
        ozaki.group_sum(x % 2 == 0, label_of, GROUPS)[:1], [(x % 2 == 0)[label_of == 0].sum()]
    )
    exact = [nearest(Fraction(sum(g)), FORMATS["fp64"]) for g in members(x)]
    np.testing.assert_array_equal(ozaki.group_sum(x, label_of, GROUPS, dtype=float), exact)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, ">i8"])
def test_labels_of_any_integer_dtype(dtype):
    expected = ozaki.group_sum(NORMAL, label_of, GROUPS)
    assert np.array_equal(ozaki.group_sum(NORMAL, label_of.astype(dtype), GROUPS), expected, equal_nan=True)
    assert ozaki.group_count(label_of.astype(dtype), GROUPS).tolist() == [*np.bincount(label_of), 0]


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 3, -1], ValueError, "labels must be from 0 to .* = 2, got 3 at index 2"),
        ([0, -2, 3, -1], ValueError, "got -2 at index 1"),
        (np.array([0, 1, 2**63, 0], np.uint64), ValueError, "got 9223372036854775808 at index 2"),
        ([0.0, 1.0, np.nan, 2.0], TypeError, "labels must be integers.*NaN"),
        ([True, False, True, True], TypeError, "got bool; labels.astype"),
        (np.array(["a", "b", "a", None], object), TypeError, "got object; np.unique"),
        (0, ValueError, "one dimension"),
        ([[0, 1, 1, 0]], ValueError, "one dimension"),
        ([0, 1, 1], ValueError, r"values must have shape \(..., 3\)"),
    ],
)
def test_labels_that_name_no_group(labels, error, message):
    for function in (ozaki.group_sum, ozaki.group_var):
        with pytest.raises(error, match=message):
            function(np.ones(4), labels, 3)


def test_nothing():
    empty = np.zeros((2, 0))
    np.testing.assert_array_equal(ozaki.group_sum(empty, np.zeros(0, int), 3), np.zeros((2, 3)))
    assert np.isnan(ozaki.group_mean(empty, np.zeros(0, int), 3)).all()
    assert ozaki.group_sum(empty, np.zeros(0, int), 0).shape == (2, 0)
    assert ozaki.group_count(np.zeros(0, int), 2).tolist() == ozaki.group_count([], 2).tolist() == [0, 0]
    assert ozaki.ExactSum(shape=2).add_groups([], []).round().tolist() == [0, 0]


@pytest.mark.parametrize("x", [np.ones(9000), np.full(9000, 1e300), np.zeros(9000), np.ones((2, 9000))])
@pytest.mark.parametrize("bad", [-1, 3, 2**40, -(2**62)])
@pytest.mark.parametrize("reduction", ["sum", "mean", "std", "dot"])
def test_labels_of_no_group_are_named_in_every_block(reduction, bad, x):
    label_of = np.arange(9000) % 3
    label_of[[8500, 8700]] = bad, -7
    arrays = (x, x) if reduction == "dot" else (x,)
    with pytest.raises(ValueError, match=f"= 2, got {bad} at index 8500"):
        getattr(ozaki, f"group_{reduction}")(*arrays, label_of, 3)


def test_unsigned_labels_beyond_int64_are_named_as_they_are():
    with pytest.raises(ValueError, match=f"got {2**63 + 5} at index 1"):
        ozaki.group_sum(np.ones(2), np.array([0, 2**63 + 5], np.uint64), 3)
    assert ozaki.group_sum(np.ones(2), np.array([0, 2], np.uint64), 3).tolist() == [1, 0, 1]


def test_zeros_of_groups_have_the_signs_that_ieee_754_adds_up_to():
    x = np.array([-0.0, -0.0, 1.0, -1.0, -0.0, -0.0, 0.0, 1.0, -1.0])
    label_of = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3])
    assert np.signbit(ozaki.group_sum(x, label_of, 5)).tolist() == [True, False, False, False, False]
    parts = ozaki.ExactSum(shape=5).add_groups(x[7:], label_of[7:])
    parts.add_groups(np.array([-0.0, -0.0]), np.array([3, 4]))
    assert np.signbit(parts.round()).tolist() == [False, False, False, False, True]


def test_means_that_are_half_way_between_numbers_are_rounded_to_even():
    x = np.array([2.0**53, 2.0**53 + 2, 2.0**53 + 4, 2.0**53 + 2, 2.0**53, 10.0])
    counted = np.repeat(x, 3)
    label_of = np.arange(len(counted)) % 5
    means = ozaki.group_mean(counted, label_of, 5)
    exact = [
        nearest(sum(map(Fraction, group)) / len(group), FORMATS["fp64"])
        for group in (
            [v for v, g in zip(counted.tolist(), label_of, strict=True) if g == j] for j in range(5)
        )
    ]
    assert means.tolist() == exact


@cells(groups=[200, 10_000], lead=[(), (3,)])
def test_many_groups_of_few_numbers(groups, lead):
    """Those that have none are left out."""
    x = RNG.standard_normal((*lead, 90)) * 2.0 ** RNG.integers(-900, 900, 90)
    label_of = RNG.integers(0, groups, 90)
    for name in ("sum", "mean", "var", "std"):
        result = getattr(ozaki, f"group_{name}")(x, label_of, groups)
        assert result.shape == (*lead, groups)
        for index in np.ndindex(lead):
            for g in (*np.unique(label_of).tolist(), 0, groups - 1):
                members = x[index][label_of == g]
                expected = getattr(ozaki, name)(members) if len(members) or name == "sum" else np.nan
                assert np.array_equal(result[(*index, g)], expected, equal_nan=True), (name, g)
    with pytest.raises(ValueError, match=f"got {groups} at index 2"):
        ozaki.group_sum(np.ones(3), [0, 1, groups], groups)


def test_groups_that_an_enclosure_leaves_open_are_rounded_exactly():
    """Ties, cancellation, equal numbers, Inf and NaN, each in a group of its own among ordinary ones."""
    tie = [1.0, 1.0 + 2.0**-52, 0.0, 2.0**-60]
    parts = [NORMAL[:9], tie, [0.1] * 7, [1e308, -1e308, 1e308], [np.inf, 1.0], [np.nan, 2.0, 3.0]]
    parts += [[2.0**-1070, 2.0**-1060, 0.0], [3.0, 3.0 + 2.0**-51], [-0.0, -0.0], NORMAL[9:20], [7.0], []]
    x, labels = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    w = np.abs(x[::-1]) + 0.5
    w[~np.isfinite(w)] = 1.0
    order = RNG.permutation(len(x))
    for name in ("mean", "var", "std", "nanmean", "nanvar", "nanstd"):
        found = getattr(ozaki, f"group_{name}")(x[order], labels[order], len(parts))
        expected = [getattr(ozaki, name)(np.array(part, float)) for part in parts]
        np.testing.assert_array_equal(found, expected, err_msg=name)
    means = ozaki.group_average(x[order], labels[order], len(parts), w[order])
    weighted = [ozaki.average(x[labels == g], weights=w[labels == g]) for g in range(len(parts) - 1)]
    np.testing.assert_array_equal(means, [*weighted, np.nan])
    both = ozaki.group_cov(np.stack([x, w])[:, order], labels[order], len(parts))
    for g in range(len(parts) - 2):
        pair = x[labels == g].tolist(), w[labels == g].tolist()
        assert str(float(both[g, 0, 1])) == str(rounded_covariance(*pair, Fraction(1))), g


@pytest.mark.parametrize("size", [2.0**-500, 2.0**-20, 1.0, 2.0**400])
def test_deviations_far_below_the_mean_are_not_lost(size):
    x = 1.0 + NORMAL * 2.0**-40 if size == 1 else size * (3.0 + NORMAL.round(1))
    squares = [(sum(v * v for v in g) - sum(g) ** 2 / len(g)) / len(g) for g in members(x) if g]
    expected = [*(nearest(q, FORMATS["fp64"]) for q in squares), np.nan]
    np.testing.assert_array_equal(ozaki.group_var(x, label_of, GROUPS), expected)
    products = ozaki.group_cov(np.stack([x, NORMAL]), label_of, GROUPS)
    for g in range(GROUPS - 1):
        assert products[g, 0, 1] == rounded_covariance(x[label_of == g], NORMAL[label_of == g], Fraction(1))


def test_groups_are_counted_by_an_integer():
    with pytest.raises(TypeError, match="num_groups must be an integer"):
        ozaki.group_sum(np.ones(1), [0], 2.0)
    with pytest.raises(ValueError, match="labels must be none where num_groups is 0, got 3 at index 0"):
        ozaki.group_sum(np.ones(1), [3], 0)
    for number in (-1, 2**60, 2**70):
        with pytest.raises(ValueError, match=rf"num_groups must be from 0 to 2\*\*48, got {number}"):
            ozaki.group_sum(np.ones(1), [0], number)
    with pytest.raises(ValueError, match=r"x and y must have shapes that broadcast, got \(3,\) and \(2,\)"):
        ozaki.group_dot(np.ones(3), np.ones(2), [0, 0, 0], 1)
    assert ozaki.group_var(np.ones(3), [0, 1, 1], 3, ddof=1).tolist()[1] == 0


MANY = 1 << 26


def of_lanes_that_overflow_together(xp):
    """Sums of two thirds of 2**64 units of a window, in whose lanes 2**51 are; and what they should be."""
    small, large = np.nextafter(2.0, 0), np.nextafter(8.0, 0)
    labels = xp.zeros(MANY, np.int64)
    summands = [Summands((xp.broadcast_to(xp.asarray(x), (MANY,)),)) for x in (small, large)]
    sums = groups.group_sums(summands, labels, 1).round()
    return float(sums[0]), float(MANY * (Fraction(float(small)) + Fraction(float(large))))


def test_lanes_of_a_group_overflow_no_word_together(monkeypatch, request):
    if request.node.callspec.params["_form"] == "plain":
        pytest.skip("no lanes")
    monkeypatch.undo()
    total, exact = of_lanes_that_overflow_together(np)
    assert total == exact


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "nansum", "nanmean", "nanvar", "cov", "dot"])
def test_groups_with_inf_and_nan(name, without_numba):
    """Alone, of both signs, beside large numbers, and left out."""
    rng, function = np.random.default_rng(5), getattr(ozaki, f"group_{name}")
    some = np.array([1.5, -2.0, np.inf, -np.inf, np.nan, 0.0, -0.0, 1e308])
    for _ in range(60):
        n, groups = int(rng.integers(1, 50)), int(rng.integers(1, 9))
        x, y = rng.choice(some, (2, n), p=[0.3, 0.3, 0.05, 0.05, 0.05, 0.1, 0.1, 0.05])
        given = {"cov": (np.stack([x, y]),), "dot": (x, y)}.get(name, (x,))
        labels = rng.integers(0, groups, n)
        found = function(*given, labels, groups)
        expected = without_numba(function, *given, labels, groups)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("ddof", [-(2**53) + 1, -(2**54) - 3, 2**63, -(2**64), 2**26 + 1])
def test_many_degrees_of_freedom(ddof):
    x = np.array([1.0, 2, 4, 7])
    assert ozaki.group_var(x, [0] * 4, 1, ddof=ddof)[0] == ozaki.var(x, ddof=ddof)
    nanvar = ozaki.group_nanvar(x, [0] * 4, 1, ddof=ddof)[0]
    assert np.isnan(nanvar) if ddof > 0 else nanvar == ozaki.var(x, ddof=ddof)


@pytest.mark.skipif(not compiles(), reason="needs numba")
def test_deviations_lose_no_more_than_the_bound_says():
    """Squares and products of deviations from rounded means, in one lane; what they lose is not nothing."""
    rng, loops, worst = (
        np.random.default_rng(3),
        importlib.import_module(extraction.LOOPS),
        {"squares": 0.0, "products": 0.0},
    )
    squares, products = (loops.loop(getattr(loops, f"{kind}_in_groups"), np.dtype(float)) for kind in worst)
    unit = importlib.import_module("ozaki.sums.exact.groups_enclosed_numba")._LOST
    for n in (3, 40, 300) * 10:
        x, y = rng.standard_normal((2, n)) * 2.0 ** rng.integers(-30, 30, (2, n))
        labels, (m, k) = np.zeros(n, np.int64), (x.mean(), y.mean())
        table, other = np.array([[0, 0, 0, m]]), np.array([[0, 0, 0, k]])
        squares(x, labels, 0, False, table)
        of_x, of_y = ([Fraction(v) - Fraction(mean) for v in z] for z, mean in ((x, m), (y, k)))
        found = {"squares": (table[0].copy(), of_x, table[0, 0])}
        table = np.array([[0, 0, 0, m]])
        products(x, y, labels, 0, table, other)
        found["products"] = table[0], of_y, table[0, 2]
        for kind, (row, others, size) in found.items():
            exact = sum(d * e for d, e in zip(of_x, others, strict=True))
            lost = abs(exact - Fraction(row[0]) - Fraction(row[1]))
            assert lost <= unit * (n + 1 + 4) ** 2 * size
            worst[kind] = max(worst[kind], float(lost / Fraction(size)))
    assert all(worst.values())
