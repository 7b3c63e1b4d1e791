"""Contractions against those of fractions, and against NumPy's of integers."""

import operator
import tracemalloc
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.exceptions import AxisError
from opt_einsum import get_symbol

import ozaki
from tests.matrices import uniform, wide

LENGTHS = {"a": 3, "b": 2, "c": 4, "d": 5, "e": 1, "f": 2}

ONE_OR_TWO = (
    *(
        "ab,bc->ac",
        "ab,ac->bc",
        "ab,ab->",
        "ab,ab",
        "abc,bc->a",
        "ab,cb",
        "abc,abd->acd",
        "abc,adb->dca",
        "ab,cd",
    ),
    *(
        "ab,b->ab",
        "a,a->a",
        "aab,b->a",
        "abc,b->",
        "abc,cd->a",
        "ab,cd->",
        "aa,aa->",
        "ab->ba",
        "ab->",
        "aab->b",
    ),
    *("aaa->a", "abc->b", ",ab->ab", "a...,b...->ab...", "...ab,...bc->...ac", "b...a->a..."),
)
MORE = (
    "ab,bc,cd->ad",
    "ab,ab,ab->a",
    "abc,bd,ce,df->af",
    "a,b,c->abc",
    "ab,bc,ca->",
    "ab,cd,b->d",
    "aa,ab,bb->",
)


def tensors(subscripts, make):
    terms = subscripts.split("->")[0].replace("...", "df").split(",")
    return [make(i, tuple(LENGTHS[x] for x in term)) for i, term in enumerate(terms)]


def floats(i, shape):
    rng = np.random.default_rng(i)
    return wide(rng, shape, 20) if i % 2 else uniform(rng, shape)


def exact_einsum(subscripts, arrays):
    """In fractions, rounded once."""
    inputs, arrow, output = subscripts.replace("...", "df").partition("->")
    terms = inputs.split(",")
    output = output if arrow else "".join(sorted(x for x in {*inputs} - {","} if inputs.count(x) == 1))
    lengths = {
        x: n
        for term, array in zip(terms, arrays, strict=True)
        for x, n in zip(term, array.shape, strict=True)
    }
    sums = np.full([lengths[x] for x in output], Fraction(0), object)
    for index in product(*map(range, lengths.values())):
        at = dict(zip(lengths, index, strict=True))
        factors = (Fraction(float(x[tuple(at[n] for n in t)])) for x, t in zip(arrays, terms, strict=True))
        value = Fraction(1)
        for factor in factors:
            value *= factor
        sums[tuple(at[x] for x in output)] += value
    return sums.astype(float)


@pytest.mark.parametrize("subscripts", ONE_OR_TWO)
def test_one_and_two_tensors_are_rounded_once(subscripts):
    arrays = tensors(subscripts, floats)
    got, want = ozaki.einsum(subscripts, *arrays, accuracy="exact"), exact_einsum(subscripts, arrays)
    assert got.shape == want.shape
    assert np.array_equal(got, want)


@pytest.mark.parametrize("subscripts", [*ONE_OR_TWO, *MORE])
@pytest.mark.parametrize("optimize", ["auto", "greedy", False])
def test_integers_are_those_of_numpy(subscripts, optimize):
    arrays = tensors(subscripts, lambda i, shape: np.random.default_rng(i).integers(-9, 9, shape))
    got = ozaki.einsum(subscripts, *arrays, optimize=optimize)
    assert np.array_equal(got, np.einsum(subscripts, *arrays))
    assert got.dtype == np.float64
    assert np.isscalar(got) == (got.ndim == 0)


def test_a_path_is_numpys_or_opt_einsums():
    arrays = tensors("ab,bc,cd->ad", floats)
    by_name = ozaki.einsum("ab,bc,cd->ad", *arrays, optimize="greedy")
    paths = [
        [(1, 2), (0, 1)],
        np.einsum_path("ab,bc,cd->ad", *arrays, optimize=["einsum_path", (1, 2), (0, 1)])[0],
    ]
    exact = ozaki.matmul(arrays[0], ozaki.matmul(arrays[1], arrays[2]))
    assert all(np.array_equal(ozaki.einsum("ab,bc,cd->ad", *arrays, optimize=p), exact) for p in paths)
    np.testing.assert_allclose(by_name, exact, rtol=1e-12)


def test_axes_of_length_one_broadcast():
    x, y = np.arange(6.0).reshape(2, 3), np.array([[2.0], [3.0]])
    assert np.array_equal(ozaki.einsum("ab,ab->b", x, y), np.einsum("ab,ab->b", x, y))


@pytest.mark.parametrize("accuracy", [None, "exact", "normwise", 60])
def test_labels_of_one_tensor_alone_are_summed_before(accuracy):
    a, b = wide(np.random.default_rng(5), (2, 100, 150), 20)
    tracemalloc.start()
    got = (
        ozaki.einsum("ab,cd->", a, b, accuracy=accuracy),
        ozaki.einsum("ab,bc->c", a, a.T, accuracy=accuracy),
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1000 * a.nbytes  # not 15 000 times
    p, q = ([Fraction(v) for v in x.ravel().tolist()] for x in (a, b))
    bound = sum(map(abs, p)) * sum(map(abs, q))
    assert abs(Fraction(got[0]) - sum(p) * sum(q)) <= 2 * Fraction(2.0**-53) * bound
    rows = [p[i : i + 150] for i in range(0, len(p), 150)]
    sums = [sum(column) for column in zip(*rows, strict=True)]
    if accuracy == "exact":
        assert got[0] == float(sum(p) * sum(q))
        assert got[1].tolist() == [float(sum(map(operator.mul, sums, row))) for row in rows]


@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        ([1.7e308, 1.7e308], [0.25, -0.5], [8.5e307, -1.7e308]),
        ([1.0, 2.0**-60], [np.inf, 1.0], [np.inf, 1.0]),
        ([1.0, -(2.0**-60)], [np.nan, 1.0], [np.nan, 1.0]),
        ([np.inf, 1.0], [-1.0, 0.0], [-np.inf, np.nan]),
        ([-0.0, -0.0], [1.0, 1.0], [0.0, 0.0]),
    ],
)
def test_sums_that_have_no_words(x, y, want):
    assert np.array_equal(ozaki.einsum("a,b->b", x, y, accuracy="exact"), want, equal_nan=True)


@pytest.mark.parametrize("accuracy", [None, "exact", "normwise", 60])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_functions_like_numpys(accuracy, dtype):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((2, 3, 4), (5, 3, 4)))
    if dtype.startswith("c"):
        a, b = a + 1j * a[::-1], b - 1j * b[::-1]
    calls = (
        ("tensordot", (a, b, ((1, -1), (1, -1)))),
        ("tensordot", (a, b[0].T.copy(), 1)),
        ("tensordot", (a, b, 0)),
        ("inner", (a, b)),
        ("inner", (a[0, 0], b[0, 0])),
        ("inner", (a, np.array(3, dtype))),
        ("outer", (a, b[0])),
        ("vecdot", (a, b[:1])),
        ("vecdot", (a[0, 0], b[0, 0])),
        ("matvec", (a, b[0, 0])),
        ("matvec", (a, b[0, :2, None][:, 0, :])),
    )
    for name, arguments in calls:
        if not hasattr(np, name):
            continue
        want, got = getattr(np, name)(*arguments), getattr(ozaki, name)(*arguments, accuracy=accuracy)
        assert got.dtype == want.dtype
        assert np.array_equal(got, want), name


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ozaki.einsum("ab,bc", np.ones((2, 3)), np.ones((2, 3))), ValueError, "'b'.* 3 and 2"),
        (lambda: ozaki.einsum("ab,bc->ad", np.ones((2, 3)), np.ones((3, 3))), ValueError, "d"),
        (lambda: ozaki.einsum("ab", np.ones(2)), ValueError, "subscripts 'ab' do not fit"),
        (lambda: ozaki.einsum("ab,b", np.ones((2, 3))), ValueError, "are of 2 operands, got 1"),
        (lambda: ozaki.einsum("aab", np.ones((2, 3, 2))), ValueError, "'a'"),
        (lambda: ozaki.einsum("ab->a"), ValueError, "operand"),
        (lambda: ozaki.einsum(np.ones(2), [0]), TypeError, "subscripts must be a string"),
        (lambda: ozaki.einsum("a,a", np.ones(2), ["x", "y"]), TypeError, "operand 1"),
        (lambda: ozaki.tensordot(np.ones((2, 3)), np.ones((2, 3))[0]), ValueError, "axes"),
        (lambda: ozaki.tensordot(np.ones((2, 3)), np.ones((2, 3)), 1), ValueError, "of different lengths"),
        (lambda: ozaki.tensordot(np.ones((2, 1)), np.ones((3, 3)), 1), ValueError, "of different lengths"),
        (
            lambda: ozaki.tensordot(np.ones((2, 2)), np.ones((2, 2)), 1.0),
            TypeError,
            "axes must be an integer",
        ),
        (
            lambda: ozaki.tensordot(np.ones((2, 2)), np.ones((2, 2)), (0,)),
            TypeError,
            "axes must be an integer",
        ),
        (
            lambda: ozaki.tensordot(np.ones((2, 2)), np.ones((2, 2)), ((0.5,), (0,))),
            TypeError,
            "axes must be",
        ),
        (lambda: ozaki.inner(np.ones((2, 1)), np.ones((2, 3))), ValueError, r"shapes \(2, 1\) and \(2, 3\)"),
        (lambda: ozaki.einsum("a1,b->a", np.ones((2, 2)), np.ones(2)), ValueError, "must be letters"),
        (lambda: ozaki.einsum("ab->a->b", np.ones((2, 2))), ValueError, "one '->'"),
        (lambda: ozaki.einsum("a.", np.ones((2, 2))), ValueError, "one '...'"),
        (lambda: ozaki.einsum("ab->aa", np.ones((2, 2))), ValueError, "'a' appeared more than once"),
        (lambda: ozaki.einsum("a->a", np.ones(2), accuracy="best"), ValueError, "accuracy must be"),
        *(
            (lambda s=s, n=n: ozaki.einsum(s, *np.ones((n, 2)), optimize="best"), ValueError, "an optimizer")
            for n, s in enumerate(("a", "a,a", "a,a,a"), 1)
        ),
        *(
            (lambda s=s: ozaki.einsum(s, [2**53 + 1, 1], [1, 1]), TypeError, "operand 0 has integers")
            for s in ("a,a", "a,b->")
        ),
        *((lambda s=s: ozaki.einsum(s, [2**53 + 1]), TypeError, "operand 0 has") for s in ("a->a", "a->")),
        (lambda: ozaki.einsum("a,a,a", *np.ones((3, 2)), optimize=[(0, 1)]), ValueError, "from 3 operands"),
        (lambda: ozaki.einsum("a,a,a", *np.ones((3, 2)), optimize=[(0, 5)]), ValueError, "from 3 operands"),
        (lambda: ozaki.vecdot(np.ones(2), np.ones(2), axis=0.0), TypeError, "axis must be an integer"),
        (lambda: ozaki.tensordot(np.ones((2, 2)), np.ones((2, 2)), ((0, 0), (0, 1))), ValueError, "twice"),
        (lambda: ozaki.vecdot(np.ones(2), 1.0), ValueError, "axis -1 is none of y"),
        (lambda: ozaki.vecdot([1, 1], [2**53 + 1, 1]), TypeError, "y has integers"),
        (lambda: ozaki.vecdot(np.ones(3), np.ones(2)), ValueError, r"axis -1 .*shapes \(3,\) and \(2,\)"),
        (
            lambda: ozaki.vecdot(np.ones((2, 3)), np.ones((2, 4)), axis=0),
            ValueError,
            r"x and y must be of one length along axis 0 and broadcast, got shapes \(2, 3\) and \(2, 4\)",
        ),
        (lambda: ozaki.matvec(np.ones(2), np.ones(2)), ValueError, "a must be matrices"),
        (lambda: ozaki.matvec(np.eye(2), np.ones(3)), ValueError, r"shapes \(2, 2\) and \(3,\)"),
        (lambda: ozaki.matvec(np.ones((3, 2, 2)), np.eye(2)), ValueError, r"\(3, 2, 2\) and \(2, 2\)"),
        (lambda: ozaki.matvec(np.eye(2), [2**53 + 1, 1]), TypeError, "x has integers"),
        (lambda: ozaki.tensordot(np.eye(2), np.eye(2), ((2,), (0,))), AxisError, "do not fit arrays"),
        (lambda: ozaki.tensordot(np.eye(2), np.eye(2), 3), AxisError, "axes must be from 0 to 2"),
    ],
)
def test_what_does_not_fit(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("subscripts", ["...i,...i->", "...i,...i->i", "i...->", "...->"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3)])
def test_an_ellipsis_that_the_output_lacks_is_summed_over(subscripts, shape):
    rng = np.random.default_rng(4)
    tensors = [rng.integers(-9, 9, shape).astype(float) for _ in subscripts.split(",")]
    expected = np.einsum(subscripts, *tensors, optimize=True)
    assert np.array_equal(ozaki.einsum(subscripts, *tensors), expected)


def test_all_labels_of_opt_einsum_are_taken():

    for i in range(70, 112):
        label, a = get_symbol(i), np.arange(6.0).reshape(2, 3)
        assert ozaki.einsum(f"a{label},{label}b->ab", a, a.T).tolist() == [
            [5, 14],
            [14, 50],
        ]
