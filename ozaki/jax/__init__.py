"""JAX: products, sums, means and elementary functions for `jit`, `vmap`, `grad`, on a CPU and a GPU.

Each is a primitive that calls back from XLA; on a GPU its operands go through the host. For double precision
call `jax.config.update("jax_enable_x64", True)`: a context would hold in one thread. Needs the extra `jax`.
"""

from multiword.runtime.install import missing as _missing

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise _missing("ozaki.jax needs JAX, which is not installed", "jax") from error

from ozaki.jax.elementary import ELEMENTARY as _ELEMENTARY
from ozaki.jax.elementary import abs, angle  # noqa: F401
from ozaki.jax.functions import average, matmul, mean, sum  # noqa: F401
from ozaki.jax.rowwise import layer_norm, log_softmax, logsumexp, rms_norm, softmax  # noqa: F401
from ozaki.public import forms_in as _forms_in

globals().update(_ELEMENTARY)
__all__ = _forms_in("jax")


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
