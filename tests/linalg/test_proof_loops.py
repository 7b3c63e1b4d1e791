"""The compiled steps of proofs have the bits of their NumPy forms; their bounds hold in exact fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from multiword.runtime.compiled import compiled, numpy_forms
from ozaki.linalg import verified
from ozaki.linalg.verified.tools import preconditioner, refinement, regularity, scaling, upward, words
from tests.fuzz.arrays import place

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

KINDS = ("normal", "wide", "subnormal", "zeros", "nonfinite", "far apart")
SHAPES = ((1, 1), (4, 1), (8, 3), (33, 2), (3, 40))
LAYOUTS = ("C", "F", "strided", "reversed")


def numbers(rng, kind, shape, layout="C"):
    """Numbers of a kind, in a layout; "nonfinite" ones have NaN, infinities and zeros of both signs."""
    x = rng.standard_normal(shape)
    if kind == "wide":
        x *= 2.0 ** rng.integers(-60, 60, shape)
    if kind == "far apart":
        x = np.ldexp(x, rng.integers(-1070, 1020, shape))
    if kind == "subnormal":
        x *= 2.0**-1066
    if kind in ("zeros", "nonfinite"):
        x[rng.random(shape) < 0.5] = 0
        x[rng.random(shape) < 0.3] = -0.0
    if kind == "nonfinite":
        for value in (np.nan, np.inf, -np.inf):
            x[rng.random(shape) < 0.1] = value
    return place(x, layout)


def alike(found, expected) -> None:
    """The same bits, all NaNs alike."""
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            alike(one, other)
        return
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.dtype.kind != "f":
        assert np.array_equal(found, expected)
        return
    of_bits = np.where(np.isnan(found), np.nan, found), np.where(np.isnan(expected), np.nan, expected)
    assert of_bits[0].tobytes() == of_bits[1].tobytes()


def compare(function, *arguments) -> None:
    with np.errstate(all="ignore"):
        found = function(*arguments)
        with numpy_forms():
            expected = function(*arguments)
    alike(found, expected)


def cases():
    rng = np.random.default_rng(0)
    for kind, shape, layout in product(KINDS, SHAPES, LAYOUTS):
        yield rng, kind, lambda s=shape, k=kind, at=layout: numbers(rng, k, s, at)


def test_there_are_compiled_forms_of_real_numbers_alone():
    pytest.importorskip("numba")
    x = np.ones((2, 1))
    assert upward.compiled_for(x, x) is compiled(upward.FORM) is not None
    assert upward.compiled_for(x, x + 0j) is None
    with numpy_forms():
        assert upward.compiled_for(x) is None


def test_words_and_their_rounding():
    for rng, _, draw in cases():
        for count in (1, 2, 3, 6):
            some = [draw() * 2.0 ** (-50.0 * i) for i in range(count)]
            some[-1] = some[0] * 2.0**-53 if rng.random() < 0.3 else some[-1]  # half way between two
            for most in (1, 2, count):
                compare(words.renormalized, some, most)
            for error in (abs(draw()), abs(draw()) * 2.0**-60, 0 * some[0]):
                compare(words.rounded, some, error)
            compare(words.rounded, [x[:, 0] for x in some], abs(some[0][:, 0]) * 2.0**-54)


def test_errors_and_what_they_leave_open():
    for rng, _, draw in cases():
        x = draw()
        for error in (abs(draw()), abs(x), abs(x) * 2.0**-70, 0 * abs(x)):
            compare(refinement.relative_errors, error, x)
            compare(refinement._may_vanish, error, x)
        residual = x.copy()
        residual[:, rng.integers(x.shape[1])] = 0
        problem = refinement.Problem.of_matrix(np.eye(len(x)), 2, 1, lambda r: (r[0], lambda: r[0]))
        for r in (x, residual):
            compare(refinement._exact_columns_aside, problem, [x], x, r, abs(x))


def test_scales():
    for rng, kind, draw in cases():
        if kind == "nonfinite":
            continue
        x, n = draw(), len(draw())
        rows = rng.integers(-1000, 1000, (n, 1)).astype(np.int32)
        for b, r in product((x, x * 2.0**31, x * 2.0**-31), (rows, 0 * rows)):
            compare(scaling.rows_scaled, b, r)
            assert scaling.rows_scaled(b, r)[0].flags.c_contiguous
        for factor in (1, 4, 2.0**-6, 2.0**6):
            near = np.clip(abs(x), 0.3, 3) * factor
            near[0] *= 2.0 ** rng.integers(0, 7)
            compare(scaling._is_tame, near)
            compare(scaling._is_tame, x)
            compare(scaling.equilibrated, near)


def test_bounds():
    for rng, kind, draw in cases():
        r, first = rng.standard_normal((len(draw()), len(draw()))), draw()
        single = preconditioner.Single(r)
        compare(lambda of=single, x=first: of.correction([x])[1]())
        weights, image = rng.uniform(0.1, 1, len(r)), rng.uniform(0, 0.1, len(r))
        proof = regularity.Regularity("", single, 1.0, 0.25, weights, image)
        compare(proof.enclose, abs(first))
        if kind in ("nonfinite", "far apart") or first.size > 40:
            continue
        bound = single.correction([first])[1]()
        of_first, sizes, of_r = (np.vectorize(Fraction, otypes=[object])(x) for x in (first, abs(first), r))
        left = Fraction(2) ** -53 * sizes  # what the rounded residual has lost, of either sign
        assert (abs(of_r @ of_first) + abs(of_r) @ left <= bound).all()
        enclosed, share = proof.enclose(abs(first)), [Fraction(x) / (1 - Fraction(0.25)) for x in image]
        for j in range(first.shape[1]):
            worst = max(x / Fraction(w) for x, w in zip(sizes[:, j], weights, strict=True))
            assert all(
                x + s * worst <= Fraction(e)
                for x, s, e in zip(sizes[:, j], share, enclosed[:, j], strict=True)
            )


def test_rounded_values_are_within_their_bounds():
    rng = np.random.default_rng(1)
    for case in range(200):
        some = [numbers(rng, KINDS[case % 4], (6, 1)) * 2.0 ** (-53.0 * i) for i in range(2 + case % 3)]
        error = abs(some[0]) * 2.0 ** rng.integers(-60, -50, (6, 1))
        value, bound, sure = (x[:, 0] for x in words.rounded(some, error))
        for i in range(6):
            middle, e = sum(Fraction(float(x[i, 0])) for x in some), Fraction(float(error[i, 0]))
            for end in (middle - e, middle + e):
                assert abs(end - Fraction(float(value[i]))) <= Fraction(float(bound[i]))
                assert not sure[i] or float(end) == value[i]


def matrices(rng, n):
    """Matrices of a few kinds, of which most have a proof."""
    a = rng.standard_normal((n, n))
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    yield from (
        a,
        a.astype(np.float32),
        np.asfortranarray(a),
        a[::-1, ::-1],
        a + 1j * rng.standard_normal((n, n)),
    )
    yield from (left * 10.0 ** -np.linspace(0, c, n) @ right for c in (6, 10, 13, 16, 25))
    yield from (a * 2.0 ** rng.integers(-300, 300, (n, 1)), a * 2.0**-1050, a * 2.0**1000, np.eye(n), 0 * a)
    yield np.vstack([a[:-1], a[:1]])
    yield rng.integers(-3, 4, (n, n))


def outcome(function, *arguments):
    """The bits of a result, or what was raised."""
    try:
        x = function(*arguments)
    except np.linalg.LinAlgError as error:
        return type(error), str(error)
    stats = x.stats.tier, x.stats.condition, x.stats.contraction, x.stats.words, x.stats.steps
    return x.result, stats, [y.tobytes() for y in (x.value, x.bound, x.rounded, x.error, *x.words)]


@pytest.mark.parametrize("n", [16, 24, 32])
def test_the_order_of_right_sides_in_memory_does_not_show(n):
    """Some BLAS sum by it, where the left factor has rows in order: that of the second and third tiers."""
    rng = np.random.default_rng(n)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    for digits in np.linspace(16, 17, 8):
        a, b = left * 10.0 ** -np.linspace(0, digits, n) @ right, rng.standard_normal((n, 3))
        found = outcome(verified.solve, a, b)
        assert outcome(verified.solve, a, np.asfortranarray(b)) == found
        with numpy_forms():
            assert outcome(verified.solve, a, np.asfortranarray(b)) == found


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 32])
def test_solutions_have_the_same_bits(n):
    rng = np.random.default_rng(n)
    for a in matrices(rng, n):
        many = rng.standard_normal((n, 4))
        many[:, 1], many[:, 2], many[0, 3] = 0, many[:, 2] * 2.0**-1060, 2.0**900
        for b in (
            rng.standard_normal(n),
            many,
            np.asfortranarray(many[:, :1]),
            a @ rng.integers(-5, 6, (n, 2)),
        ):
            found = outcome(verified.solve, a, b)
            with numpy_forms():
                assert outcome(verified.solve, a, b) == found
        found = outcome(verified.inv, a)
        with numpy_forms():
            assert outcome(verified.inv, a) == found
