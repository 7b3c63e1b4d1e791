"""JAX: products, sums and means for `jax.jit`, `jax.vmap`, `jax.grad` and `jax.jvp`, on a CPU and a GPU.

Each is a primitive that calls back from XLA; on a GPU its operands go through the host. For double precision
call `jax.config.update("jax_enable_x64", True)`: a context would hold in one thread. Needs the extra `jax`.
"""

from multiword.runtime.install import missing as _missing

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise _missing("ozaki.jax needs JAX, which is not installed", "jax") from error

from ozaki.jax.functions import average, matmul, mean, sum

__all__ = ["average", "matmul", "mean", "sum"]


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
