"""`ozaki.array`: functions of it are this library's, NumPy's, or refused; programs that carry it."""

import copy
import pickle

import numpy as np
import pytest

import ozaki

RNG = np.random.default_rng(6)
A, B, T = RNG.standard_normal((5, 4)), RNG.standard_normal((4, 3)), RNG.standard_normal((2, 5, 4))
A[0], A[1] = 1e16 * A[0], -1e16 * A[0]
COMPLEX = A + 1j * A[::-1]


def product(a, b):
    return ozaki.matmul(a, b)


OURS = {
    "x @ y": (lambda x: x @ B, lambda a: product(a, B), A),
    "y @ x": (lambda x: B.T @ x, lambda a: product(B.T, a), A.T[:4]),
    "matmul": (lambda x: np.matmul(x, B), lambda a: product(a, B), T),
    "dot": (lambda x: np.dot(x, B), lambda a: product(a, B), A),
    "dot of a vector": (lambda x: x.dot(B[:, 0]), lambda a: product(a, B[:, 0]), A),
    "dot of stacks": (lambda x: np.dot(x, T), lambda a: np.stack([a @ t for t in T], 1), np.eye(3, 5)),
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
    "a sum in NumPy's Python": (lambda x: np.average(x, axis=0), lambda a: ozaki.mean(a, 0), A),
}


def same(x, y):
    return np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y) and np.shape(x) == np.shape(y)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("strict", [False, True])
def test_functions_are_this_librarys(name, strict):
    call, ours, a = OURS[name]
    result = call(ozaki.array(a, strict=strict))
    assert same(result, ours(a))
    assert np.ndim(result) == 0 or (type(result), result.strict) == (ozaki.array, strict)


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
        np.exp,
        lambda x: x + 1,
        lambda x: x**3,
        np.linalg.inv,
        np.sort,
        np.prod,
        lambda x: x[1:] / x[0],
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


REFUSED = {
    "exp": np.exp,
    "power": lambda x: x**1.5,
    "prod": np.prod,
    "x.prod": lambda x: x.prod(),
    "inv": lambda x: np.linalg.inv(x[:4]),
    "fft": np.fft.fft,
    "cov": np.cov,
    "reduceat": lambda x: np.add.reduceat(x, [0, 2]),
    "a sum of some": lambda x: np.sum(x, where=x > 0),
    "another norm": lambda x: np.linalg.norm(x, 1),
    "einsum of axes by number": lambda x: np.einsum(x, [0, 1], B, [1, 2]),
    "complex products": lambda x: (x + 1j * x) * (x - 1j * x),
}


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


def test_opt_einsum_contracts_carried_tensors():
    contract = pytest.importorskip("opt_einsum").contract
    x = [ozaki.array(m, "exact", strict=True) for m in (A.T, A, B)]
    result = contract("ij,jk,kl->il", *x, backend="numpy")
    assert type(result) is ozaki.array
    path = [ozaki.matmul(A.T, ozaki.matmul(A, B, accuracy="exact"), accuracy="exact")]
    path.append(ozaki.matmul(ozaki.matmul(A.T, A, accuracy="exact"), B, accuracy="exact"))
    assert any(same(result, p) for p in path)
