"""PyTorch: a mode in which its own products are this library's, and differentiable functions on tensors.

`with ozaki.torch.reproducible():` around existing code replaces the matrix products that PyTorch makes within
it, backward passes included. `matmul`, `sum`, `mean`, `dot` and `vdot` are operators to be called by name, for
`torch.compile` and `torch.func`, too. Needs the extra `torch`.
"""

from ozaki.torch.functions import dot, matmul, mean, sum, vdot
from ozaki.torch.mode import reproducible

__all__ = ["dot", "matmul", "mean", "reproducible", "sum", "vdot"]
