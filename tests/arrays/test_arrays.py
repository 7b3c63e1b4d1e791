"""`ozaki.array`: functions of it are this library's, NumPy's, or refused; programs that carry it."""

import copy
import operator
import pickle
from functools import partial

import numba
import numpy as np
import pytest

import ozaki
import ozaki.linalg

RNG = np.random.default_rng(6)
A, B, T = RNG.standard_normal((5, 4)), RNG.standard_normal((4, 3)), RNG.standard_normal((2, 5, 4))
A[0], A[1] = 1e16 * A[0], -1e16 * A[0]
COMPLEX = A + 1j * A[::-1]
HALF, SINGLE = T.astype(np.float16), A.astype(np.float32)


def product(a, b):
    return ozaki.matmul(a, b)


OURS = {
    "x @ y": (lambda x: x @ B, lambda a: product(a, B), A),
    "y @ x": (lambda x: B.T @ x, lambda a: product(B.T, a), A.T[:4]),
    "matmul": (lambda x: np.matmul(x, B), lambda a: product(a, B), T),
    "dot": (lambda x: np.dot(x, B), lambda a: product(a, B), A),
    "dot of a vector": (lambda x: x.dot(B[:, 0]), lambda a: product(a, B[:, 0]), A),
    "dot of stacks": (lambda x: np.dot(x, T), lambda a: np.stack([a @ t for t in T], 1), np.eye(3, 5)),
    "dot of vectors": (lambda x: np.dot(x, A[1]), lambda a: product(a, A[1]), A[0]),
    "vdot": (lambda x: np.vdot(x, A), lambda a: product(a.conj().ravel(), A.ravel()), COMPLEX),
    "inner": (lambda x: np.inner(x, A), lambda a: product(a, A.T), A),
    "vecdot": (
        lambda x: np.vecdot(x, A),
        lambda a: np.array([product(*p) for p in zip(a, A, strict=True)]),
        A,
    ),
    "tensordot": (lambda x: np.tensordot(x, B, 1), lambda a: product(a, B), T),
    "tensordot of axes": (
        lambda x: np.tensordot(x, T, ([0, 1], [1, 2])),
        lambda a: product(a.ravel(), T.reshape(2, -1).T),
        A,
    ),
    "einsum": (lambda x: np.einsum("ij,jk->ik", x, B), lambda a: product(a, B), A),
    "einsum of a batch": (
        lambda x: np.einsum("sij, skj -> kis", x, T),
        lambda a: product(a, T.swapaxes(1, 2)).transpose(2, 1, 0),
        T,
    ),
    "einsum without an arrow": (
        lambda x: np.einsum("ij,ij", x, A),
        lambda a: product(a.ravel(), A.ravel()),
        A,
    ),
    "einsum of three": (
        lambda x: np.einsum("ij,jk,lk", x, B, B),
        lambda a: ozaki.einsum("ij,jk,lk", a, B, B, optimize=False),
        A,
    ),
    "einsum by a path": (
        lambda x: np.einsum("ij,jk,lk", x, B, B, optimize=["einsum_path", (1, 2), (0, 1)]),
        lambda a: product(a, product(B, B.T)),
        A,
    ),
    "einsum by the name of a path": (
        lambda x: np.einsum("ij,jk", x, B, optimize=("greedy", 1000)),
        lambda a: product(a, B),
        A,
    ),
    "einsum of a rearrangement": (lambda x: np.einsum("sij->jsi", x), lambda a: a.transpose(2, 0, 1), HALF),
    "einsum of a diagonal": (lambda x: np.einsum("ii", x), lambda a: ozaki.sum(np.diagonal(a)), A[:4]),
    "einsum of one": (lambda x: np.einsum("sij->js", x), lambda a: ozaki.sum(a, 1).T, T),
    "sum": (np.sum, ozaki.sum, A),
    "x.sum": (lambda x: x.sum(0), lambda a: ozaki.sum(a, 0), A),
    "x.sum of complex": (
        lambda x: x.sum((0, 1), keepdims=True),
        lambda a: ozaki.sum(a, keepdims=True),
        COMPLEX,
    ),
    "sum in another dtype": (lambda x: np.sum(x, dtype="f4"), lambda a: ozaki.sum(a, dtype="f4"), A),
    "add.reduce": (np.add.reduce, lambda a: ozaki.sum(a, 0), A),
    "mean": (lambda x: x.mean(-1), lambda a: ozaki.mean(a, -1), A),
    "var": (lambda x: np.var(x, ddof=1), lambda a: ozaki.var(a, ddof=1), A),
    "std": (lambda x: x.std(axis=0), lambda a: ozaki.std(a, 0), A),
    "nanmean": (lambda x: np.nanmean(x, 0), lambda a: ozaki.nanmean(a, 0), np.where(A > 1, np.nan, A)),
    "nansum": (np.nansum, ozaki.nansum, np.where(A > 1, np.nan, A)),
    "cumsum": (lambda x: np.cumsum(x, 0), lambda a: ozaki.cumsum(a, 0), A),
    "x.cumsum": (lambda x: x.cumsum(), ozaki.cumsum, A),
    "trace": (lambda x: x.trace(), lambda a: ozaki.sum(np.diagonal(a)), A),
    "norm": (np.linalg.norm, ozaki.norm, A),
    "norm of rows": (lambda x: np.linalg.norm(x, axis=1), lambda a: ozaki.norm(a, axis=1), A),
    "norm by linalg": (lambda x: np.linalg.vector_norm(x, axis=1), lambda a: ozaki.norm(a, axis=1), A),
    "x @= y": (lambda x: x.__imatmul__(A[:4]), lambda a: product(a, A[:4]), A[1:]),
    "x @= y of a vector": (lambda x: operator.imatmul(x[0], A[:4]), lambda a: product(a[0], A[:4]), A[1:]),
    "matmul along axes": (
        lambda x: np.matmul(x, B, axes=[(2, 0), (0, 1), (1, 0)]),
        lambda a: product(a.transpose(1, 2, 0), B).transpose(2, 1, 0),
        T.transpose(2, 0, 1),
    ),
    "matmul of vectors along axes": (
        lambda x: np.matmul(x, A[1], axes=[0, 0, ()]),
        lambda a: product(a, A[1]),
        A[0],
    ),
    "matmul in another order": (lambda x: np.matmul(x, B, order="F"), lambda a: product(a, B), A),
    "a product with truth values": (
        lambda x: x @ (B > 0) + np.dot(x, B > 0) + np.inner(x, (B > 0).T) + np.einsum("ij,jk", x, B > 0),
        lambda a: 4 * product(a, (B > 0).astype("f4")),
        SINGLE,
    ),
    "matmul of a list": (lambda x: x @ B[:, 0].tolist(), lambda a: product(a, B[:, 0]), A),
    "vecdot along an axis": (
        lambda x: np.vecdot(x, A.tolist(), axis=0),
        lambda a: np.array([product(*p) for p in zip(a.T, A.T, strict=True)]),
        A,
    ),
    "einsum of axes by number": (
        lambda x: np.einsum(x, [0, 1], B, [1, 2], [2, 0]),
        lambda a: product(a, B).T,
        A,
    ),
    "linalg.matmul": (lambda x: np.linalg.matmul(x, B), lambda a: product(a, B), A),
    "multi_dot": (lambda x: np.linalg.multi_dot([x, B, B.T]), lambda a: product(product(a, B), B.T), A),
    "matrix_power": (lambda x: np.linalg.matrix_power(x, 3), lambda a: product(product(a, a), a), A[1:]),
    "outer of complex": (
        lambda x: np.outer(x, A[0]),
        lambda a: ozaki.outer(a, A[0], accuracy="exact"),
        COMPLEX,
    ),
    "a sum of some": (lambda x: x.sum(0, where=A > 0), lambda a: ozaki.sum(np.where(A > 0, a, 0), 0), A),
    "a mean of some": (lambda x: np.mean(x, where=x > 0), lambda a: ozaki.mean(a[a > 0]), A),
    "a variance of some": (lambda x: x.var(where=x > 0), lambda a: ozaki.var(a[a > 0]), A),
    "a sum with a start": (lambda x: np.sum(x, initial=3.0), lambda a: ozaki.sum(np.append(a, 3.0)), A),
    "a sum with a rounded start": (
        lambda x: np.sum(x, initial=0.1),
        lambda a: ozaki.sum(np.append(a, np.float32(0.1))),
        SINGLE,
    ),
    "a wide sum with a start": (
        lambda x: np.sum(x, dtype=float, initial=0.1),
        lambda a: ozaki.sum(np.append(a.astype(float), 0.1)),
        SINGLE,
    ),
    "var in a complex dtype": (lambda x: np.var(x, 0, "c8"), lambda a: ozaki.var(a, 0, "f4").astype("c8"), A),
    "cumulative_sum": (
        lambda x: np.linalg.norm(x) * np.nancumsum(x),
        lambda a: ozaki.norm(a) * ozaki.cumsum(a),
        A,
    ),
    "average": (lambda x: np.average(x, axis=0), lambda a: ozaki.mean(a, 0), A),
    "average by weights": (
        lambda x: np.average(x, 0, np.arange(1.0, 6.0)),
        lambda a: ozaki.average(a, 0, np.arange(1.0, 6.0)),
        A,
    ),
    "var with a correction": (lambda x: np.var(x, 0, correction=1), lambda a: ozaki.var(a, 0, ddof=1), A),
    "mean of integers": (np.mean, ozaki.mean, np.array([2**53 + 1, 1, -1])),
    "var of integers": (np.var, ozaki.var, np.array([2**53 + 1, 2**53 + 3])),
    "cov": (np.cov, ozaki.cov, A),
    "cov of columns and of others": (
        lambda x: np.cov(x, A[::-1], rowvar=False, bias=True),
        lambda a: ozaki.cov(np.hstack([a, A[::-1]]).T, ddof=0),
        A,
    ),
    "cov of one variable": (np.cov, lambda a: ozaki.var(a, ddof=1), A[0]),
    "corrcoef": (lambda x: np.corrcoef(x, rowvar=False), lambda a: ozaki.corrcoef(a.T), A),
    "solve": (lambda x: np.linalg.solve(x, B), lambda a: ozaki.linalg.solve(a, B), T[0][:4]),
    "solve a plain system": (
        lambda x: np.linalg.solve(T[0][:4], x),
        lambda a: ozaki.linalg.solve(T[0][:4], a),
        B,
    ),
    "inv": (np.linalg.inv, ozaki.linalg.inv, T[0][:4]),
    "inv of integers": (np.linalg.inv, ozaki.linalg.inv, np.array([[2, 1], [1, 3]])),
    "det": (np.linalg.det, ozaki.linalg.det, T[0][:4]),
    "slogdet": (lambda x: np.linalg.slogdet(x)[1], lambda a: ozaki.linalg.slogdet(a)[1], T[0][:4]),
    "qr": (lambda x: np.linalg.qr(x).R, lambda a: ozaki.linalg.qr(a).R, T[0]),
    "cholesky": (np.linalg.cholesky, ozaki.linalg.cholesky, B @ B.T + np.eye(4)),
    "lstsq": (lambda x: np.linalg.lstsq(x, T[1])[0], lambda a: ozaki.linalg.lstsq(a, T[1])[0], T[0]),
    "singular values of lstsq": (
        lambda x: np.linalg.lstsq(x, T[1])[3],
        lambda a: ozaki.linalg.lstsq(a, T[1])[3],
        T[0].astype("f4"),
    ),
    "lstsq of lower rank": (
        lambda x: np.linalg.lstsq(x[:, [0, 0]], x[:, 0])[0],
        lambda a: ozaki.linalg.lstsq(a[:, [0, 0]], a[:, 0])[0],
        T[0],
    ),
    "einsum in another dtype": (
        lambda x: np.einsum("ij,jk", x, B, dtype="f4", casting="same_kind", order="F"),
        lambda a: ozaki.einsum("ij,jk", a.astype("f4"), B.astype("f4")),
        A,
    ),
    "a start of a sum without NaN": (
        lambda x: np.nansum(x, axis=0, initial=1.0),
        lambda a: ozaki.nansum(a, axis=0, initial=1.0),
        A,
    ),
    "var about a mean": (
        lambda x: np.var(x, axis=1, mean=B[0, 0], correction=1),
        lambda a: ozaki.var(a, axis=1, mean=B[0, 0], ddof=1),
        A,
    ),
    "trapezoid": (lambda x: np.trapezoid(x, axis=0), lambda a: ozaki.sum((a[1:] + a[:-1]) / 2, 0), A),
}
"""Calls, what they are in this library, and of what array."""


def same(x, y):
    return np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y) and np.shape(x) == np.shape(y)


@pytest.mark.parametrize("order", "ACF")
@pytest.mark.parametrize(("of_a", "of_b"), ["CC", "CF", "FF"])
def test_products_lie_in_memory_as_asked_for(order, of_a, of_b):
    """ "A" is Fortran's order where all operands lie in it."""
    a, b = np.asarray(A, order=of_a), np.asarray(B, order=of_b)
    for call in (np.matmul, partial(np.einsum, "ij,jk")):
        expected, actual = (call(x, b, order=order) for x in (a, ozaki.array(a)))
        assert (type(actual), actual.strides) == (ozaki.array, expected.strides)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("strict", [False, True])
def test_functions_are_this_librarys(name, strict):
    call, ours, a = OURS[name]
    result = call(ozaki.array(a, strict=strict))
    assert same(result, ours(a))
    if np.ndim(result):
        assert (type(result), result.strict) == (ozaki.array, strict)
    else:
        assert isinstance(result, np.generic)


@pytest.mark.parametrize("accuracy", ["exact", "normwise", 20])
def test_the_accuracy_is_carried(accuracy):
    x = ozaki.array(A, accuracy)
    expected = ozaki.matmul(A, B, accuracy=accuracy)
    for result in (x @ B, A @ ozaki.array(B, accuracy), (x + 0)[:] @ B, np.concatenate([x[:2], x[2:]]) @ B):
        assert result.accuracy == accuracy
        assert same(result, expected)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert (type(other), other.accuracy, other.strict) == (ozaki.array, accuracy, False)
        assert same(other, x)
    assert (x @ ozaki.array(B)).accuracy == accuracy
    with pytest.raises(ValueError, match="arrays of two accuracies"):
        x @ ozaki.array(B, 21)


def test_everything_else_is_numpys():
    x = ozaki.array(RNG.standard_normal((5, 4)))
    for call in (
        lambda x: np.hypot(x, 1),
        lambda x: x + 1,
        lambda x: x**3,
        np.sort,
        np.prod,
        lambda x: x[1:] / x[0],
        lambda x: x.sum(dtype=int),
        lambda x: np.mean(x, dtype=int) + x.trace(dtype=int),
        lambda x: x.cumsum(dtype=int),
        lambda x: x.astype("g") @ x,
        lambda x: np.dot(x, x.astype("g")).mean() + np.sum(x, dtype="g") + np.linalg.norm(x.astype("g")),
        lambda x: x.astype(object).mean(),
    ):
        a = np.asarray(x)[:4]
        result = call(x[:4])
        assert same(result, call(a))
        assert np.ndim(result) == 0 or type(result) is ozaki.array
    assert (x > 0).tolist() == (np.asarray(x) > 0).tolist()
    assert ozaki.array([1, 2]).sum() == 3


def test_out_and_in_place():
    x, plain = ozaki.array(A), np.empty((5, 3))
    carried = ozaki.array(plain)
    assert np.matmul(x, B, out=plain) is plain
    assert np.matmul(A, B, out=carried) is carried
    assert same(plain, ozaki.matmul(A, B))
    assert same(carried, plain)
    total = np.empty(4)
    assert np.sum(x, axis=0, out=total) is total
    assert same(total, ozaki.sum(A, 0))
    before = x
    x += 1
    assert x is before
    assert same(x, A + 1)


def test_out_is_rounded_to_once():
    """1 + 2**-24 is a tie in float32: it is the rest that decides."""
    x, total = ozaki.array([1 + 2.0**-24, 2.0**-80]), np.zeros((), np.float32)
    expected = ozaki.sum(x, dtype=np.float32)
    assert expected > 1
    assert np.sum(x, out=total) is total
    assert total == expected
    assert (
        x.sum(out=np.zeros((), np.float32)) == np.add.reduce(x, out=(np.zeros((), np.float32),)) == expected
    )
    assert np.mean(4 * np.append(x, [0, 0]), out=total) == np.trace(np.diag(x), out=total) == expected
    assert np.cumsum(x, out=np.zeros(2, np.float32))[1] == expected


def test_einsum_of_a_diagonal_is_a_view_to_write_to():
    x = ozaki.array(A[1:])
    np.einsum("ii->i", x)[...] = 7
    assert same(np.diagonal(x), np.full(4, 7.0))


REFUSED = {
    "power of complex numbers": lambda x: (x + 1j) ** 1.5,
    "prod": np.prod,
    "x.prod": lambda x: x.prod(),
    "logaddexp2": lambda x: np.logaddexp2(x, 1),
    "sin of complex numbers": lambda x: np.sin(x + 1j),
    "eig": lambda x: np.linalg.eig(x[:4]),
    "fft": np.fft.fft,
    "power by percentiles": lambda x: np.percentile(x, 30) ** 1.5 + np.cumprod(x),
    "reduceat": lambda x: np.add.reduceat(x, [0, 2]),
    "outer of complex": lambda x: np.multiply.outer(x + 1j * x, x),
    "accumulate": np.multiply.accumulate,
    "complex products": lambda x: (x + 1j * x) * (x - 1j * x),
    "signs of complex numbers": lambda x: np.sign(x.astype(complex)),
    "sums of objects": lambda x: x.astype(object).sum(),
    "means of objects": lambda x: x.astype(object).mean(),
    "objects": lambda x: x.astype(object) * 0.1,
    "wider numbers": lambda x: x + np.longdouble(1) / 3,
    "sums of wider numbers": lambda x: np.sum(x.astype("g")),
    "sums in a wider dtype": lambda x: np.sum(x, dtype="g"),
    "another's ufunc of a name of NumPy's": lambda x: numba.vectorize(["f8(f8)"])(_square)(x),
}


def _square(x):
    return x * x


_square.__name__ = "square"


@pytest.mark.parametrize("name", REFUSED)
def test_strict_arrays_refuse_to_leave_the_guarantee(name):
    call, a = REFUSED[name], np.abs(T[0])
    call(ozaki.array(a))
    with pytest.raises(TypeError, match=r"a strict ozaki\.array promises"):
        call(ozaki.array(a, strict=True))


def test_what_strict_arrays_allow():
    x = ozaki.array(A, strict=True)
    y = np.sqrt(np.abs(x) / 3) * np.where(x > 0, x, -x).T.copy().T
    y = np.concatenate([y, y[::-1]]).reshape(4, 10).clip(0, 1e9)
    y = np.median(np.sort(y, axis=1), axis=0) + [1] * 10
    assert type(y) is ozaki.array
    assert y.strict
    assert np.max(y) == y.max() >= y.mean()
    assert repr(x).startswith("array(")


def test_functions_in_numpys_python_compute_with_such_arrays():
    """They leave arithmetic to ufuncs, each of which is rounded once, whatever the order."""
    x, order = ozaki.array(A[:, 0], strict=True), [3, 1, 0, 4, 2]
    for call in (
        lambda x: np.percentile(x, [10, 90]),
        lambda x: np.nanquantile(x, 0.3),
        np.ptp,
        np.nanmedian,
    ):
        assert np.array_equal(call(x), call(x[order]))
        assert np.array_equal(call(x), call(np.asarray(x)))
    assert type(np.gradient(x)) is type(np.kron(x, x)) is type(np.cross(x[:3], x[1:4])) is ozaki.array


def test_integers_and_truth_values_are_carried():
    x = ozaki.array([3, 1, 2], strict=True)
    weights = (x > 1) * 0.5 + x
    assert type(x > 1) is type(x.argsort()) is type(weights) is ozaki.array
    assert weights.strict
    assert np.asarray(x)[x > 1].tolist() == [3, 2]
    assert [np.sum(x), np.dot(x, x), np.einsum("i,i", x, x), np.cumsum(x)[-1], np.trace(x[None])] == [
        6,
        14,
        14,
        6,
        3,
    ]
    with pytest.raises(TypeError, match="strict"):
        np.logaddexp2(x, 1)


def test_arguments_stay_as_they_are():
    x, y = ozaki.array(A), ozaki.array(A, "exact", strict=True)
    assert np.atleast_1d(x, y)[0].accuracy == "exact"
    assert (x.accuracy, x.strict) == (None, False)
    masked = np.ma.masked_less(A, 0)
    assert type(x + masked) is np.ma.MaskedArray
    assert np.array_equal((x + masked).mask, masked.mask)
    with pytest.raises(TypeError, match="mask"):
        x.T @ masked


def test_out_by_position_and_of_other_shapes():
    x, total, quotient = ozaki.array(A), np.empty(4), ozaki.array(np.empty(5))
    assert np.sum(x, 0, None, total) is total
    assert same(total, ozaki.sum(A, 0))
    assert np.dot(x, B, carried := ozaki.array(np.empty((5, 3)))) is carried
    assert same(carried, ozaki.matmul(A, B))
    parts = np.divmod(x[:, 0], 3.0, out=(quotient, None))
    assert parts[0] is quotient
    assert same(parts[1], A[:, 0] % 3.0)
    with pytest.raises(ValueError, match="out must have the shape"):
        np.sum(x, 0, out=np.empty((2, 4)))
    with pytest.raises(ValueError, match="core dimension"):
        np.matmul(x, B, out=np.empty((5, 2)))
    whole = np.sum(x, 0, out=np.empty(4, int))  # NumPy's reductions cast to any dtype of out
    assert whole.tolist() == [int(total) for total in ozaki.sum(A, 0)]
    with pytest.raises(TypeError, match="Cannot cast"):
        np.dot(x, B, out=np.empty((5, 3), int))


def test_exceptions_are_numpys():
    x = ozaki.array(A, strict=True)
    for call, error in (
        (lambda x: x @ x, ValueError),
        (lambda x: np.sum(x, axis=2), ValueError),
        (lambda x: np.linalg.inv(x), np.linalg.LinAlgError),
        (lambda x: np.linalg.solve(np.zeros((5, 5)), x), np.linalg.LinAlgError),
        (lambda x: np.einsum("ij,jk", x, x), ValueError),
        (lambda x: operator.imatmul(x[1:], B[:, 0]), ValueError),
        (lambda x: operator.imatmul(x[1:], B[:, :1]), ValueError),
        (lambda x: np.matmul(x[1:], B[:, :1], out=np.empty((4, 4))), ValueError),
        (lambda x: np.matmul(x[1:], B, axes=[0, (0, 1), 0]), ValueError),
    ):
        for kind in (x, A):
            with pytest.raises(error):
                call(kind)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((A, "best"), ValueError, "accuracy must be"),
        ((np.ma.masked_greater(A, 0),), TypeError, "^x"),
        ((["a"],), TypeError, "^x"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        ozaki.array(*arguments)


def dominant(a, iterations=30):
    """Estimates of the largest eigenvalue of a matrix, by a program that knows NumPy alone."""
    x, estimates = np.ones_like(a[0]), []
    for _ in range(iterations):
        y = a @ x
        x = y / np.linalg.norm(y)
        estimates.append(x @ (a @ x) / (x @ x))
    return estimates


def test_the_order_of_a_states_components_changes_no_bit():
    a = RNG.standard_normal((200, 200))
    a = a + a.T
    order = RNG.permutation(200)
    ours, native = (
        [dominant(kind(m)) for m in (a, a[order][:, order])]
        for kind in (lambda m: ozaki.array(m, strict=True), np.copy)
    )
    assert ours[0] == ours[1]
    assert native[0] == pytest.approx(ours[0], rel=1e-12)
    assert native[0] != native[1]


def test_scipy_integrates_with_a_carried_matrix():
    """`solve_ivp` makes plain arrays of the state and of derivatives; the products in them are ours."""
    solve_ivp = pytest.importorskip("scipy.integrate").solve_ivp
    a = RNG.standard_normal((40, 40)) - 6 * np.eye(40)
    carried, y0, seen = ozaki.array(a), np.ones(40), set()

    def derivative(t, y):
        result = carried @ ozaki.array(y)
        seen.add(type(result))
        return result

    ours = solve_ivp(derivative, (0, 2), y0, rtol=1e-8)
    named = solve_ivp(lambda t, y: ozaki.matmul(a, y), (0, 2), y0, rtol=1e-8)
    native = solve_ivp(lambda t, y: a @ y, (0, 2), y0, rtol=1e-8)
    assert seen == {ozaki.array}
    assert ours.y.tobytes() == named.y.tobytes()
    np.testing.assert_allclose(ours.y[:, -1], native.y[:, -1], rtol=1e-6)


def test_scikit_learn_makes_plain_arrays():
    """The page says so: a strict array is not asked by `np.asarray`."""
    decomposition = pytest.importorskip("sklearn.decomposition")
    components = [
        decomposition.PCA(2, svd_solver="full").fit(x).components_ for x in (ozaki.array(A, strict=True), A)
    ]
    assert type(components[0]) is np.ndarray
    assert np.array_equal(*components)
    x = ozaki.array(A, strict=True)
    ours = [np.linalg.svd(y - y.mean(axis=0)).Vh[:2] for y in (x, x.copy("F"))]
    assert ours[0].strict
    assert np.array_equal(*ours)


def test_opt_einsum_contracts_carried_tensors():
    contract = pytest.importorskip("opt_einsum").contract
    x = [ozaki.array(m, "exact", strict=True) for m in (A.T, A, B)]
    result = contract("ij,jk,kl->il", *x, backend="numpy")
    assert type(result) is ozaki.array
    path = [ozaki.matmul(A.T, ozaki.matmul(A, B, accuracy="exact"), accuracy="exact")]
    path.append(ozaki.matmul(ozaki.matmul(A.T, A, accuracy="exact"), B, accuracy="exact"))
    assert any(same(result, p) for p in path)


def test_a_kalman_filter_of_others_does_not_depend_on_the_order_of_its_state():
    """filterpy's filter, of 30 variables in two orders, knows NumPy's functions alone."""
    kalman = pytest.importorskip("filterpy.kalman")
    rng, n, m = np.random.default_rng(3), 30, 4
    step, observed = np.eye(n) + 0.1 * rng.standard_normal((n, n)), rng.standard_normal((m, n))
    seen = [rng.standard_normal((m, 1)) for _ in range(6)]

    def filtered(order, carry):
        f = kalman.KalmanFilter(n, m)
        f.F, f.H, f.x = carry(step[np.ix_(order, order)]), carry(observed[:, order]), carry(np.ones((n, 1)))
        f.P, f.Q, f.R = carry(10.0 * np.eye(n)), carry(0.01 * np.eye(n)), carry(np.eye(m))
        f._I = carry(np.eye(n))
        for z in seen:
            f.predict()
            f.update(carry(z))
        assert type(f.P) is type(carry(z))
        return np.asarray(f.x)[np.argsort(order)]

    orders = np.arange(n), rng.permutation(n)
    ours = [filtered(order, lambda x: ozaki.array(x, strict=True)) for order in orders]
    native = [filtered(order, np.array) for order in orders]
    assert ours[0].tobytes() == ours[1].tobytes()
    assert native[0].tobytes() != native[1].tobytes()
    np.testing.assert_allclose(ours[0], native[0], rtol=1e-10)


def test_a_sampler_of_others_draws_the_same_chain_in_any_order_of_the_data():
    """emcee moves plain arrays; the likelihood's sums and products, which decide, are ours."""
    emcee = pytest.importorskip("emcee")
    rng = np.random.default_rng(4)
    design, y = rng.standard_normal((500, 3)), rng.standard_normal(500)

    def chain(order, carry):
        a, b = carry(design[order]), carry(y[order])

        def log_likelihood(p):
            rest = b - a @ p
            return -0.5 * float(np.dot(rest, rest))

        sampler = emcee.EnsembleSampler(8, 3, log_likelihood)
        sampler._random.seed(5)
        sampler.run_mcmc(np.random.default_rng(6).standard_normal((8, 3)), 40)
        return sampler.get_log_prob()

    orders = np.arange(500), rng.permutation(500)
    ours, native = ([chain(order, kind) for order in orders] for kind in (ozaki.array, np.array))
    assert ours[0].tobytes() == ours[1].tobytes()
    assert native[0].tobytes() != native[1].tobytes()


def test_integers_in_another_dtype_are_summed_and_multiplied_once():
    x, big = np.array([1, 2**53, 1, 1]), np.random.default_rng(0).integers(2**52, 2**53, (20, 20))
    for strict in (False, True):
        s, m = ozaki.array(x, strict=strict), ozaki.array(big, strict=strict)
        assert s.sum(dtype=float) == s[::-1].sum(dtype=float) == 2**53 + 4
        assert same(np.matmul(m, m, dtype=float), ozaki.matmul(big.astype(float), big.astype(float)))
        assert same(np.vecdot(m, m, dtype=float), ozaki.vecdot(big.astype(float), big.astype(float)))
        assert np.trace(m, dtype=float) == ozaki.sum(np.diagonal(big), dtype=float)
        assert s.sum().dtype == np.int64
    with pytest.raises(TypeError, match="strict"):
        s.prod(dtype=float)
    wide = np.random.default_rng(0).integers(-(2**60), 2**60, 1001)
    assert np.nanmean(ozaki.array(wide)) == ozaki.nanmean(wide)


def test_averages_keep_dimensions_and_return_their_weights():
    x, w = np.random.default_rng(0).standard_normal((2, 30, 20))
    y = ozaki.array(x)
    assert same(np.average(y, keepdims=True), np.reshape(ozaki.mean(x), (1, 1)))
    mean, total = np.average(y, axis=0, weights=w, returned=True)
    assert same(mean, ozaki.average(x, 0, w))
    assert same(total, ozaki.sum(w, 0))
    mean, total = np.average(y, axis=1, weights=w[0], returned=True, keepdims=True)
    assert mean.shape == total.shape == (30, 1)
    assert (total == ozaki.sum(w[0])).all()
    assert np.average(y, returned=True)[1] == 600


def test_what_this_library_lacks_is_numpys():
    x = ozaki.array(np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="dimensions"):
        np.linalg.norm(x, "fro")
    assert np.linalg.norm(x[0], "f") == 2
    assert np.linalg.qr(x[0], mode="raw")[0].shape == (2, 2)
    assert np.matmul(x[0], x[0], out=np.empty((2, 2, 2))).tolist() == [[[2, 2]] * 2] * 2


def test_dask_arrays_multiply_lazily():
    da = pytest.importorskip("dask.array")
    lazy = ozaki.array(np.eye(3)) @ da.ones((3, 3))
    assert isinstance(lazy, da.Array)
    assert (lazy.compute() == 1).all()
    with pytest.raises(TypeError, match="strict"):
        ozaki.array(np.eye(3), strict=True) @ da.ones((3, 3))


class Duck:
    """Something with arithmetic of its own."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return ufunc.__name__, [type(x) for x in inputs]

    def __array_function__(self, function, types, args, kwargs):
        return function.__name__, [type(x) for x in args]


class Tagged(np.ndarray):
    """An array with arithmetic of its own, which knows NumPy's arrays alone."""

    __array_function__ = Duck.__array_function__

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [x.view(np.ndarray) if isinstance(x, Tagged) else x for x in inputs]
        result = super().__array_ufunc__(ufunc, method, *plain, **options)
        return result if result is NotImplemented else result.view(Tagged)


def test_arrays_with_arithmetic_of_their_own_are_asked():
    x, strict, tagged = ozaki.array(A[1:]), ozaki.array(A[1:], strict=True), A[:4].view(Tagged)
    assert x @ Duck() == ("matmul", [ozaki.array, Duck])
    assert x + Duck() == ("add", [ozaki.array, Duck])
    assert np.dot(x, Duck()) == ("dot", [ozaki.array, Duck])
    assert type(x @ tagged) is type(tagged @ x) is type(x + tagged) is Tagged
    assert np.dot(x, tagged) == ("dot", [ozaki.array, Tagged])
    for call in (operator.matmul, operator.add, np.dot):
        for other in (Duck(), tagged):
            with pytest.raises(TypeError, match="strict"):
                call(strict, other)


def test_subclasses_stay():
    class Named(ozaki.array):
        name = "a"

        def __array_finalize__(self, origin):
            super().__array_finalize__(origin)
            self.name = getattr(origin, "name", self.name)

    x = ozaki.array(A, "exact", strict=True).view(Named)
    x.name = "b"
    for result in (x @ B, A.T @ x, x + ozaki.array(A), ozaki.array(A) + x, np.sort(x), np.cumsum(x)):
        assert (type(result), result.name, result.accuracy, result.strict) == (Named, "b", "exact", True)


def test_arrays_made_like_one_are_such_arrays():
    x = ozaki.array(A, 20, strict=True)
    for call in (
        lambda **like: np.zeros(3, **like),
        lambda **like: np.full((2, 2), 0.5, **like),
        lambda **like: np.arange(3.0, **like),
        lambda **like: np.asarray([1.0, 2.0], **like),
        lambda **like: np.eye(2, **like),
    ):
        result = call(like=x)
        assert same(result, call())
        assert (type(result), result.accuracy, result.strict) == (ozaki.array, 20, True)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_that_multiply_themselves():
    csr_array = pytest.importorskip("scipy.sparse").csr_array
    x, strict = ozaki.array(A[1:]), ozaki.array(A[1:], strict=True)
    assert same(x * np.matrix(A[:4]), product(A[1:], A[:4]))
    assert np.allclose(x @ csr_array(A[:4]), A[1:] @ A[:4])
    for other in (csr_array(A[:4]), csr_array(A[:4]).tocsc()):
        result = strict @ other
        assert same(result, ozaki.matmul(A[1:], other))
        assert (type(result), result.strict) == (ozaki.array, True)
        with pytest.raises(TypeError, match=r"take ozaki.matmul\(A, x\)"):
            other @ ozaki.array(np.ones(other.shape[1]), strict=True)


@pytest.mark.parametrize("strict", [False, True])
def test_elementary_functions(strict):
    """In NumPy's dtypes, of integers and in a dtype asked for, and into `out`."""
    x, out = ozaki.array(A, strict=strict), np.empty(A.shape)
    assert same(np.tanh(x), ozaki.tanh(A))
    assert type(np.tanh(x)) is ozaki.array
    assert np.tanh(x).strict is strict
    assert np.exp(x, out=out) is out
    assert same(out, ozaki.exp(A))
    assert same(np.exp(x, dtype="f4"), ozaki.exp(A.astype("f4")))
    small = ozaki.array(np.arange(4, dtype=np.int8), strict=strict)
    assert same(np.exp(small), ozaki.exp(np.arange(4, dtype=np.float16)))
    assert same(np.exp(small.astype(int)), ozaki.exp(np.arange(4)))
    assert same(np.arctan(x), ozaki.atan(A))
    for ours, theirs in ((ozaki.hypot, np.hypot), (ozaki.atan2, np.arctan2), (ozaki.logaddexp, np.logaddexp)):
        assert same(theirs(x, A[::-1]), ours(A, A[::-1]))
        assert same(theirs(A[0], x), ours(A[0], A))
    positive, short = np.abs(A), np.abs(A).astype("f4")
    assert same(np.power(ozaki.array(positive, strict=strict), 1.7), ozaki.pow(positive, 1.7))
    assert same(ozaki.array(short, strict=strict) ** 1.7, ozaki.pow(short, 1.7))
    assert same(np.power(small, small), np.arange(4, dtype=np.int8) ** np.arange(4, dtype=np.int8))
    assert same(np.hypot(small, 2), ozaki.hypot(np.arange(4, dtype=np.float16), np.float16(2)))


@pytest.mark.parametrize("function", [np.var, np.std, np.nanvar, np.nanstd])
def test_ddof_and_correction_exclude_each_other(function):
    """As NumPy has it, whose message this is."""
    with pytest.raises(ValueError, match=r"ddof and correction can't be provided simultaneously\."):
        function(ozaki.array([1.0, 2.0]), ddof=1, correction=0)
