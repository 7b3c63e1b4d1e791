"""PyTorch's tensors on a CPU as NumPy's arrays and back: the same memory."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np


def array_of(tensor: Any) -> np.ndarray:
    """A NumPy array in a tensor's memory; conjugate and negative views are written out."""
    torch = sys.modules["torch"]
    if tensor.dtype is torch.bfloat16:
        return array_of(tensor.detach().resolve_neg().view(torch.int16)).view(ml_dtypes.bfloat16)
    array: np.ndarray = tensor.numpy(force=True)  # which detaches and resolves, and copies nothing else
    return array


def tensor_of(array: Any) -> Any:
    """A tensor in the memory of a NumPy array or scalar."""
    torch = sys.modules["torch"]
    if array.dtype == ml_dtypes.bfloat16:
        return tensor_of(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(array))
