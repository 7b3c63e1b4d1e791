"""JAX in double precision for as long as a test takes."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def double_precision_in_jax() -> Iterator[None]:
    """JAX rounds to float32 unless told; as its own context this would hold in the calling thread alone."""
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
