"""Attention in the mode: made of its two products, which PyTorch otherwise fuses with the softmax."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ozaki.torch.settings import DTYPES, Settings


def composed(
    settings: Settings,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor | None:
    """Return softmax(scale·Q·Kᵀ + mask)·V by PyTorch's own composition, whose products are then replaced."""
    if (
        query.dtype not in DTYPES
        or not query.dtype is key.dtype is value.dtype
        or (is_causal and attn_mask is not None)
    ):
        return None
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
    compose = torch.ops.aten._scaled_dot_product_attention_math
    result, _ = compose(query, key, value, attn_mask, dropout_p, is_causal, **options)
    return result


_FORWARD = {
    "CPU": ("_scaled_dot_product_flash_attention_for_cpu",),
    "CUDA": (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
    ),
}
FUSED = {device: (*names, *(f"{name}_backward" for name in names)) for device, names in _FORWARD.items()}
"""PyTorch's fused kernels of each device; those that are reached are counted as native products."""
