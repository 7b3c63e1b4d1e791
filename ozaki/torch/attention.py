"""Attention in the mode: the kernel that PyTorch fuses on a CPU, as its two products.

On a GPU PyTorch itself composes attention in double precision of products, which are replaced one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ozaki.torch.settings import Settings


def _forward(
    settings: Settings,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor] | None:
    """softmax(scale·Q·Kᵀ + mask)·V, and the logarithms of the softmax's denominators."""
    if dropout_p:
        return None
    scores = _scores(query, key, is_causal, attn_mask, scale)
    largest = scores.amax(-1, keepdim=True)
    largest = largest.masked_fill(largest == -torch.inf, 0)  # nothing to attend to: the row is zero
    weights = (scores - largest).exp()
    total = weights.sum(-1, keepdim=True)
    result = (weights / total.masked_fill(total == 0, 1)) @ value
    return result.transpose(1, 2).contiguous().transpose(1, 2), (largest + total.log()).squeeze(-1)


def _backward(
    settings: Settings,
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The gradients of query, key and value: dS = P∘(dO·Vᵀ − rowsum(dO∘O)) of the weights P."""
    if dropout_p:
        return None
    logsumexp = logsumexp.unsqueeze(-1)
    scores = _scores(query, key, is_causal, attn_mask, scale)
    weights = (scores - logsumexp.masked_fill(logsumexp == -torch.inf, 0)).exp()
    of_scores = weights * (gradient @ value.mT - (gradient * out).sum(-1, keepdim=True))
    of_scores = of_scores * _scale(query, scale)
    return of_scores @ key, of_scores.mT @ query, weights.mT @ gradient


def _scores(query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: Any) -> Tensor:
    scores = (query @ key.mT) * _scale(query, scale)
    if mask is not None:
        scores = scores + mask
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores


def _scale(query: Tensor, scale: float | None) -> float:
    return float(query.shape[-1] ** -0.5) if scale is None else scale


KERNELS: dict[str, Callable[..., Any]] = {
    "_scaled_dot_product_flash_attention_for_cpu": _forward,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _backward,
}
"""What computes each operator."""
