"""Products, sums and means of JAX arrays: their bits, under jit and vmap, and their derivatives."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import ozaki  # noqa: E402
import ozaki.jax  # noqa: E402
from tests.precision import double_precision_in_jax  # noqa: E402

SHAPES = [
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((4,), (4, 2)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (4, 2)),
    ((3, 4), (2, 4, 2)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((2, 0, 4), (4, 3)),
    ((3, 0), (0, 2)),
]
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


@pytest.fixture(autouse=True)
def double_precision():
    with double_precision_in_jax():
        yield


def random(*shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed + sum(shape))
    x = rng.standard_normal((2, *shape))
    return jnp.asarray((x[0] + 1j * x[1] if np.dtype(dtype).kind == "c" else x[0]).astype(dtype))


def same_bits(x, y):
    x, y = np.asarray(x), np.asarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES)
def test_matmul_is_this_librarys(shapes, dtype):
    a, b = (random(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes))
    for accuracy in ("normwise", 30):
        expected = ozaki.matmul(np.asarray(a), np.asarray(b), accuracy=accuracy)
        assert same_bits(ozaki.jax.matmul(a, b, accuracy=accuracy), expected)
    compiled = jax.jit(ozaki.jax.matmul, static_argnames="accuracy")
    assert same_bits(compiled(a, b, accuracy=30), expected)


@pytest.mark.parametrize("shapes", [SHAPES[i] for i in (0, 2, 4, 6)])
def test_derivatives_of_matmul(shapes):
    a, b = (random(*s, seed=i) for i, s in enumerate(shapes))
    check_grads(ozaki.jax.matmul, (a, b), order=2, modes=("fwd", "rev"))
    check_grads(jax.jit(ozaki.jax.matmul), (a + 1j * a, b - 2j * b), order=1, modes=("fwd", "rev"))


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (0, False), (-1, True), ((2, 0), True)])
def test_sums_and_means(name, axis, keepdims):
    function, x = getattr(ozaki.jax, name), random(2, 3, 4, dtype=np.complex128)

    def reduced(x):
        return function(x, axis, keepdims)

    expected = getattr(ozaki, name)(np.asarray(x), axis, keepdims=keepdims)
    assert same_bits(reduced(x), expected)
    assert same_bits(jax.jit(reduced)(x), expected)
    assert same_bits(jax.vmap(reduced)(jnp.stack([x, x]))[1], expected)
    # They are linear: one shape shows that derivatives have derivatives.
    check_grads(reduced, (x,), order=2 if axis == 0 else 1, modes=("fwd", "rev"))


@pytest.mark.parametrize(
    ("of_weights", "axis"), [((2, 3, 4), None), ((4,), -1), ((2,), 0), ((3, 1), (0, 2)), ((2, 3, 4), 1)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_averages(of_weights, axis, dtype):
    x, weights = random(2, 3, 4, dtype=dtype), 0.1 + random(*of_weights) ** 2

    def averaged(x, weights):
        return ozaki.jax.average(x, axis, weights)

    by = np.broadcast_to(np.asarray(weights)[:, None, None] if of_weights == (2,) else weights, x.shape)
    expected = ozaki.average(np.asarray(x), axis, by)
    assert same_bits(averaged(x, weights), expected)
    assert same_bits(jax.jit(averaged)(x, weights), expected)
    assert same_bits(jax.vmap(averaged, (0, None))(jnp.stack([x, x]), weights)[1], expected)
    assert same_bits(jax.vmap(averaged, (None, 0))(x, jnp.stack([weights, weights]))[1], expected)
    # Second derivatives take JAX many seconds: two shapes of weights stand for all.
    order = 2 if dtype == np.float64 and of_weights in ((4,), (3, 1)) else 1
    check_grads(averaged, (x, weights), order=order, modes=("fwd", "rev"))


def test_gradients_of_weights_are_sums_of_this_library():
    x, weights = random(300, 2), jnp.ones(2)
    gradient = jax.jit(jax.grad(lambda w: ozaki.jax.average(x, 1, w).sum()))(weights)
    shifted = (np.asarray(x) - ozaki.mean(np.asarray(x), 1, keepdims=True)) / 2
    assert same_bits(gradient, ozaki.sum(shifted, 0))


def test_gradients_are_products_of_this_library():
    x, w = random(6, 5), random(5, 4, seed=1)
    of_x, of_w = jax.jit(jax.grad(lambda x, w: ozaki.jax.sum(ozaki.jax.matmul(x, w)), (0, 1)))(x, w)
    ones = jnp.ones((6, 4))
    assert same_bits(of_x, ozaki.jax.matmul(ones, w.T))
    assert same_bits(of_w, ozaki.jax.matmul(x.T, ones))


def test_vmap():
    a, b, w = random(5, 3, 4), random(5, 4, 2), random(4, 2)
    vmap, matmul = jax.vmap, ozaki.jax.matmul
    assert same_bits(vmap(matmul)(a, b), matmul(a, b))
    assert same_bits(vmap(matmul, (0, None))(a, w), matmul(a, w))
    assert same_bits(vmap(matmul, (None, 0))(a[0], b), matmul(a[0], b))
    assert same_bits(vmap(matmul, (1, None), 1)(a, w), matmul(a, w))
    assert same_bits(vmap(matmul, (0, None))(a, b), jnp.stack([matmul(x, b) for x in a]))
    assert same_bits(jax.jit(vmap(vmap(matmul)))(a[None], b[None]), matmul(a, b)[None])
    gradients = vmap(jax.grad(lambda w, x: ozaki.jax.sum(matmul(x, w) ** 2)), (None, 0))(w, a)
    each = jnp.stack([jax.grad(lambda w, x: ozaki.jax.sum(matmul(x, w) ** 2))(w, x) for x in a])
    assert same_bits(gradients, each)


def test_many_numbers_in_compiled_code():
    a = random(500, 400)
    result = jax.jit(lambda a: ozaki.jax.matmul(jnp.sin(a), a.T) + 1)(a)
    expected = ozaki.matmul(np.asarray(jax.jit(jnp.sin)(a)), np.asarray(a).T, accuracy="normwise")
    np.testing.assert_allclose(result, expected + 1, rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ozaki.jax.matmul(x, x.astype(int)), TypeError, "b must be an array of float32"),
        (lambda x: ozaki.jax.matmul(x, x.astype(np.float32)), TypeError, "one dtype"),
        (lambda x: ozaki.jax.matmul(x, x[:2]), ValueError, "inner dimensions"),
        (lambda x: ozaki.jax.matmul(x, x[0, 0]), ValueError, "at least one dimension"),
        (
            lambda x: ozaki.jax.matmul(jnp.ones((2, 3, 3)), jnp.ones((4, 3, 3))),
            ValueError,
            "do not broadcast",
        ),
        (lambda x: jax.jit(lambda x: ozaki.jax.matmul(x, x, accuracy="best"))(x), ValueError, "accuracy"),
        (lambda x: ozaki.jax.sum(x, 2), ValueError, "axis 2 is out of bounds"),
        (lambda x: ozaki.jax.mean(x, (0, -2)), ValueError, "twice"),
        (lambda x: ozaki.jax.average(x, 0, x.astype(np.float32)), TypeError, "weights must be of float64"),
        (lambda x: ozaki.jax.average(x[0], 0, x), ValueError, "weights must broadcast|broadcast"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(random(3, 3))
