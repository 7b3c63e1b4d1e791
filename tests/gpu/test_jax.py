"""JAX on a GPU: the bits of a CPU."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import ozaki  # noqa: E402
import ozaki.jax  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu():
    try:
        return jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX has no GPU")


def test_functions(gpu):
    a = np.random.default_rng(3).standard_normal((30, 40)).astype(np.float32)
    x = jax.device_put(a, gpu)
    expected = ozaki.matmul(a, a.T, accuracy="normwise")
    for function in (ozaki.jax.matmul, jax.jit(ozaki.jax.matmul)):
        assert np.asarray(function(x, x.T)).tobytes() == expected.tobytes()
    gradient = jax.grad(lambda x: ozaki.jax.sum(ozaki.jax.matmul(x, x.T)))
    on_cpu = gradient(jax.device_put(a, jax.devices("cpu")[0]))
    assert np.asarray(gradient(x)).tobytes() == np.asarray(on_cpu).tobytes()


def test_arrays_in_arrays_out(gpu):
    a = np.random.default_rng(3).standard_normal((30, 40)).astype(np.float32)
    result = ozaki.sum(jax.device_put(jnp.asarray(a), gpu), axis=0)
    assert isinstance(result, jax.Array)
    assert result.devices() == {gpu}
    assert np.asarray(result).tobytes() == ozaki.sum(a, axis=0).tobytes()
