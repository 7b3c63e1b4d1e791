"""PyTorch: a mode in which its own products are this library's, and differentiable functions on tensors.

`with ozaki.torch.reproducible():` around existing code replaces the matrix products that PyTorch makes within
it, backward passes included. `matmul`, `sum`, `mean`, `average`, `dot`, `vdot`, `einsum`, `var`, `norm`,
`cumsum` and elementary functions are called by name, under `torch.compile` and `torch.func`, too, with
derivatives of both modes. Tensors on a CPU or an NVIDIA GPU are taken.
Needs the extra `torch`, PyTorch 2.9 or newer.
"""

from multiword.runtime.install import missing as _missing

try:
    import torch as _torch

    if _torch.__version__ < "2.9":
        raise ImportError(f"PyTorch {_torch.__version__}")
except ImportError as error:
    raise _missing("ozaki.torch needs PyTorch 2.9 or newer, which is not installed", "torch") from error

from ozaki.public import forms_in as _forms_in
from ozaki.torch.contractions import einsum  # noqa: F401
from ozaki.torch.elementary import ELEMENTARY as _ELEMENTARY
from ozaki.torch.elementary import abs, angle  # noqa: F401
from ozaki.torch.functions import average, dot, matmul, mean, sum, vdot  # noqa: F401
from ozaki.torch.gradients import ExactGradients  # noqa: F401
from ozaki.torch.mode import reproducible  # noqa: F401
from ozaki.torch.rowwise import layer_norm, log_softmax, logsumexp, rms_norm, softmax  # noqa: F401
from ozaki.torch.statistics import cumsum, norm, var  # noqa: F401

globals().update(_ELEMENTARY)
__all__ = sorted(["ExactGradients", "reproducible", *_forms_in("torch")])


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
