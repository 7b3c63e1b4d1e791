"""JAX arrays in, JAX arrays out."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import ozaki  # noqa: E402


def test_results_are_jax_arrays_with_the_same_bits():
    x = np.random.default_rng(1).standard_normal((4, 4)).astype(np.float32)
    for name, count in (("matmul", 2), ("sum", 1), ("norm", 1), ("cumsum", 1), ("two_sum", 2)):
        result = getattr(ozaki, name)(*[jnp.asarray(x)] * count)
        expected = getattr(ozaki, name)(*[x] * count)
        pairs = zip(result, expected, strict=True) if name == "two_sum" else [(result, expected)]
        for ours, theirs in pairs:
            assert isinstance(ours, jax.Array)
            if name != "two_sum":  # which is of float64, and JAX rounds that unless told
                assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    assert ozaki.sum(jnp.ones(3, jnp.bfloat16)).dtype == jnp.bfloat16
    assert ozaki.residual(jnp.eye(2), (jnp.ones(2), jnp.ones(2)), jnp.ones(2)).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: jax.jit(ozaki.sum)(x), r"use ozaki\.jax\.sum, or call it outside"),
        (lambda x: jax.grad(ozaki.norm)(x), "ozaki.norm cannot be traced: call it outside"),
        (lambda x: ozaki.sum([x, x]), r"x\[0\] is a jax"),
        (lambda x: ozaki.dot(x, np.ones(3)), "JAX and NumPy"),
        (lambda x: ozaki.sum(x, out=jnp.zeros(())), "JAX's arrays cannot be written to"),
        (lambda x: ozaki.sum(x, None, None, np.zeros(())), "out must be None.* got ndarray"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call(jnp.ones(3))
