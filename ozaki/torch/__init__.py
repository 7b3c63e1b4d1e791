"""PyTorch: a mode in which its own products are this library's, and differentiable functions on tensors.

`with ozaki.torch.reproducible():` around existing code replaces the matrix products that PyTorch makes within
it, backward passes included. `matmul`, `sum`, `mean`, `dot` and `vdot` are called by name, under
`torch.compile` and `torch.func`, too. Needs the extra `torch`.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "ozaki.torch needs PyTorch, which is not installed: pip install 'ozaki-multiword[torch]'"
    ) from error

from ozaki.torch.functions import dot, matmul, mean, sum, vdot
from ozaki.torch.mode import reproducible

__all__ = ["dot", "matmul", "mean", "reproducible", "sum", "vdot"]
