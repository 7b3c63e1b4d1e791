"""Covariances of groups against fractions, each rounded once."""

from contextlib import nullcontext
from math import nan

import numpy as np
import pytest

import ozaki
from multiword.runtime.compiled import numpy_forms
from tests.oracle import FORMATS
from tests.reductions import covariance

RNG = np.random.default_rng(31)
N, GROUPS = 120, 40
LABELS = RNG.integers(0, 5, N)
LABELS[LABELS == 2] = 0
LABELS[7], LABELS[[8, 9]] = 6, 7
"""Of forty groups most are empty, one has a number and one has two."""

NORMAL = RNG.standard_normal((3, N))
VALUES = {
    "ordinary": NORMAL,
    "of large means": 1e9 + NORMAL,
    "of all sizes": NORMAL * 2.0 ** RNG.integers(-500, 500, N),
    "beyond overflow": NORMAL * np.array([[2.0**700], [2.0**400], [2.0**-100]]),
    "far apart": NORMAL * np.array([[2.0**500], [2.0**-400], [1.0]]),
    "subnormal": NORMAL * np.array([[2.0**-1060], [2.0**-530], [1.0]]),
    "dependent": np.stack([NORMAL[0], -NORMAL[0], 0 * NORMAL[0] + 3]),
    "single": (1000 + NORMAL).astype(np.float32),
    "half": NORMAL.astype(np.float16),
    "integers": RNG.integers(-(2**63), 2**63 - 1, (3, N)),
    "small integers": RNG.integers(-3, 4, (3, N)).astype(np.int8),
    "columns": np.asfortranarray(NORMAL)[:, ::-1],
}


def expected(x, labels, groups, ddof):
    fmt = FORMATS[x.dtype if x.dtype.kind == "f" else np.dtype(float)]
    parts = [x[:, labels == g] for g in range(groups)]
    return [[[covariance(a, b, ddof, fmt) for b in part] for a in part] for part in parts]


@pytest.mark.parametrize("form", ["compiled", "plain"])
@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES)
def test_covariances_are_the_nearest(x, form):
    with numpy_forms() if form == "plain" else nullcontext():
        for ddof in (0, 1, 2, 0.5, -1):
            found = ozaki.group_cov(x, LABELS, GROUPS, ddof=ddof)
            assert found.dtype == (x.dtype if x.dtype.kind == "f" else np.float64)
            np.testing.assert_array_equal(found, expected(x, LABELS, GROUPS, ddof))
            variances = np.diagonal(found, axis1=1, axis2=2).T
            assert ozaki.fingerprint(variances) == ozaki.fingerprint(
                ozaki.group_var(x, LABELS, GROUPS, ddof=ddof)
            )
            assert ozaki.fingerprint(found) == ozaki.fingerprint(found.transpose(0, 2, 1))


@pytest.mark.parametrize("apart", [52, 60, 500, -700])
def test_of_variables_far_apart_in_many_lanes(apart):
    """Whether the numbers of one are equal is told by deviations that are nothing beside those of another."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        x, labels = rng.standard_normal((2, 600)), rng.integers(0, 7, 600)
        x[0] *= 2.0**apart
        x[1, labels == 6] = 3.0
        np.testing.assert_array_equal(ozaki.group_cov(x, labels, 7), expected(x, labels, 7, 1))


def test_many_groups_have_the_bits_of_few():
    """Enclosures round results of many groups, integers those of few, and groups without numbers are NaN."""
    x, labels = 3 + RNG.standard_normal((2, 3000)), np.arange(3000) % 90
    found = ozaki.group_cov(x, labels, 10**6)
    assert np.isnan(found[90:]).all()
    alone = [ozaki.group_cov(x[:, labels == g], np.zeros((labels == g).sum(), int), 1)[0] for g in range(90)]
    np.testing.assert_array_equal(found[:90], alone)
    np.testing.assert_array_equal(found[:5], expected(x, labels, 5, 1))


def test_neither_order_nor_layout_can_be_seen():
    x, order = VALUES["of all sizes"], RNG.permutation(N)
    want = ozaki.fingerprint(ozaki.group_cov(x, LABELS, GROUPS))
    assert ozaki.fingerprint(ozaki.group_cov(x[:, order], LABELS[order], GROUPS)) == want
    assert ozaki.fingerprint(ozaki.group_cov(x.T.copy(), LABELS, GROUPS, rowvar=False)) == want
    assert ozaki.fingerprint(np.asarray(ozaki.group_cov(ozaki.array(x), LABELS, GROUPS))) == want
    np.testing.assert_array_equal(
        ozaki.group_cov(x[0], LABELS, GROUPS)[:, 0, 0], ozaki.group_var(x[0], LABELS, GROUPS, ddof=1)
    )


def test_as_numpy_has_them():
    for x in (NORMAL, NORMAL[:, LABELS > 0]):
        zeros = np.zeros(x.shape[1], int)
        np.testing.assert_allclose(ozaki.group_cov(x, zeros, 1)[0], np.cov(x), rtol=1e-13)
        np.testing.assert_allclose(ozaki.group_cov(x, zeros, 1, ddof=0)[0], np.cov(x, ddof=0), rtol=1e-13)
    single = ozaki.group_cov(NORMAL, LABELS, GROUPS, "f4")
    assert single.dtype == np.float32
    np.testing.assert_array_equal(single, ozaki.group_cov(NORMAL, LABELS, GROUPS).astype("f4"))


def test_inf_and_nan_stay_in_their_group_and_variable():
    x, clean = NORMAL.copy(), ozaki.group_cov(NORMAL, LABELS, GROUPS)
    x[1, LABELS == 3], x[2, np.flatnonzero(LABELS == 1)[0]] = 0.0, np.nan
    x[0, np.flatnonzero(LABELS == 3)[0]] = -np.inf  # of which the product with 0 is NaN, too
    found = ozaki.group_cov(x, LABELS, GROUPS)
    assert np.isnan(found[3][0]).all()
    assert not found[3][1:, 1].any()
    assert found[3][2, 2] == clean[3][2, 2]
    assert np.isnan(found[1][2]).all()
    np.testing.assert_array_equal(found[1][:2, :2], clean[1][:2, :2])
    np.testing.assert_array_equal(found[[0, 2, 4]], clean[[0, 2, 4]])


def test_nothing_and_invalid_arguments():
    assert ozaki.group_cov(np.zeros((0, 3)), [0, 0, 0], 2).shape == (2, 0, 0)
    assert np.isnan(ozaki.group_cov(np.zeros((2, 0)), [], 3)).all()
    assert ozaki.group_cov(np.zeros((2, 0)), [], 0).shape == (0, 2, 2)
    x = np.ones((2, 3))
    for call, error, message in (
        (lambda: ozaki.group_cov(x + 1j, [0, 0, 0], 1), TypeError, "values must be real, got complex128"),
        (lambda: ozaki.group_cov(x[None], [0, 0, 0], 1), ValueError, "values must be a matrix or a vector"),
        (lambda: ozaki.group_cov(1.0, [0], 1), ValueError, "values must be a matrix or a vector"),
        (lambda: ozaki.group_cov(x, [0, 0], 1), ValueError, "as many as labels"),
        (lambda: ozaki.group_cov(x, [0, 0, 1], 1), ValueError, "labels must be from 0"),
        (lambda: ozaki.group_cov(x, [0.0, 0, 0], 1), TypeError, "labels must be integers"),
        (lambda: ozaki.group_cov(x, [0, 0, 0], 1, np.int64), TypeError, "dtype"),
        (lambda: ozaki.group_cov(x, [0, 0, 0], 1, complex), TypeError, "a covariance is real"),
        (lambda: ozaki.group_cov(x, [0, 0, 0], 1, ddof=nan), TypeError, "ddof"),
    ):
        with pytest.raises(error, match=message):
            call()
