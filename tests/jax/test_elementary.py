"""Elementary functions of JAX arrays: their bits, under jit and vmap, and their derivatives."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import ozaki  # noqa: E402
import ozaki.jax  # noqa: E402
from ozaki.elementary.derivatives import derivative  # noqa: E402
from ozaki.public import PUBLIC  # noqa: E402
from tests.jax.test_functions import double_precision, same_bits  # noqa: E402, F401


@pytest.mark.parametrize("name", ["exp", "atan", "erf", "gelu", "mish", "pow", "atan2"])
def test_values_and_gradients_have_the_bits_of_arrays(name):
    count = len(PUBLIC[name].arrays)
    x = [np.linspace(1.25 - i, 3.0, 7, dtype=np.float32) for i in range(count)]
    function = getattr(ozaki.jax, name)
    result, pull = jax.vjp(function, *map(jnp.asarray, x))
    assert same_bits(result, getattr(ozaki, name)(*x))
    for i, slope in enumerate(pull(2 * jnp.ones_like(result))):
        assert same_bits(slope, 2 * derivative(name, [int(i == j) for j in range(count)], *x))


def test_transformations():
    x, y = jnp.linspace(-3, 3, 6), jnp.linspace(0.5, 2, 6)
    check_grads(ozaki.jax.pow, (y, x[:1]), order=2, modes=("rev",))
    assert same_bits(jax.jit(ozaki.jax.tanh)(x), ozaki.tanh(np.asarray(x)))
    rows = jax.vmap(ozaki.jax.hypot, (0, None))(x.reshape(2, 3), y[:3])
    assert same_bits(rows, ozaki.hypot(np.asarray(x).reshape(2, 3), np.asarray(y[:3])))
    assert same_bits(ozaki.jax.pow(y, 2.0), ozaki.pow(np.asarray(y), 2.0))
    with pytest.raises(TypeError, match="one dtype"):
        ozaki.jax.hypot(x, x.astype(np.float32))
    with pytest.raises(TypeError, match="array of"):
        ozaki.jax.exp(jnp.arange(3))


def test_functions_of_complex_numbers():
    z = jnp.array([0.3 + 0.5j, -1.2 + 0.7j, 2 - 3j])
    for name in ("log", "abs"):
        function, native = getattr(ozaki.jax, name), getattr(jnp, name)
        assert same_bits(jax.jit(function)(z), getattr(ozaki, name)(np.asarray(z)))
        pulled = [jax.vjp(f, z)[1](2 * jnp.ones_like(f(z)))[0] for f in (function, native)]
        np.testing.assert_allclose(*pulled, rtol=1e-14)
        assert same_bits(jax.vmap(function)(z), function(z))
    assert jax.grad(ozaki.jax.abs)(0.0) == jax.grad(ozaki.jax.angle)(0.0) == 0


def test_functions_of_rows():
    x = jnp.sin(jnp.linspace(-2, 3, 12)).reshape(3, 4)
    w, b, array, front = x[1] + 2, x[2], np.asarray(x), ozaki.jax
    for function, expected in (
        (lambda x: front.softmax(x, 0), ozaki.softmax(array, 0)),
        (front.log_softmax, ozaki.log_softmax(array, 1)),
        (lambda x: front.logsumexp(x, 0), ozaki.logsumexp(array, 0)),
        (front.layer_norm, ozaki.layer_norm(array)),
        (lambda x: front.rms_norm(x, -1, w), ozaki.rms_norm(array, -1, np.asarray(w))),
    ):
        assert same_bits(function(x), expected)
        assert same_bits(jax.jit(function)(x), expected)
        check_grads(function, (x,), order=1, modes=("rev",))
    check_grads(lambda w, b: front.layer_norm(x, -1, w, b), (w, b), order=1, modes=("rev",))
    assert same_bits(jax.vmap(front.layer_norm)(x), ozaki.layer_norm(array))
    with pytest.raises(TypeError, match="weight must be"):
        front.rms_norm(x, -1, w[1:])
