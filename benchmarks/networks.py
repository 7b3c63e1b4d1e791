"""Networks that benchmarks train: a transformer as GPT-2, and a residual network with batch norms."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

F = nn.functional


@dataclass(frozen=True)
class Sizes:
    """Of the transformer; by default the smallest GPT-2's, of 124 million parameters."""

    width: int = 768
    heads: int = 12
    blocks: int = 12
    vocabulary: int = 50257
    tokens: int = 1024
    dropout: float = 0.0


class Block(nn.Module):
    """Attention and two layers, each after a normalization."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes, width = sizes, sizes.width
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        shape = n, tokens, 3, self.sizes.heads, width // self.sizes.heads
        heads = self.inner(self.before(x)).view(shape).permute(2, 0, 3, 1, 4)
        p = self.sizes.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(*heads, is_causal=True, dropout_p=p)
        x = x + self.dropout(self.outer(attended.transpose(1, 2).reshape(n, tokens, width)))
        return x + self.dropout(self.narrow(F.gelu(self.wide(self.between(x)))))


class Transformer(nn.Module):
    """A language model whose last layer is its embedding."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes.vocabulary, sizes.width)
        self.places = nn.Embedding(sizes.tokens, sizes.width)
        self.blocks = nn.Sequential(*(Block(sizes) for _ in range(sizes.blocks)))
        self.last, self.dropout = nn.LayerNorm(sizes.width), nn.Dropout(sizes.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.words(tokens) + self.places.weight)
        return self.last(self.blocks(x)) @ self.words.weight.T


class BatchNorm(nn.BatchNorm2d):
    """Batch norm of so many samples at a time, one after another, whatever the batch (ghost batch norm)."""

    at_once = 16

    def forward(self, x: Tensor) -> Tensor:
        if len(x) <= self.at_once:
            return super().forward(x)
        return torch.cat([super(BatchNorm, self).forward(part) for part in x.split(self.at_once)])


class Residual(nn.Module):
    """Two convolutions around which the input goes, halved in size where channels double."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([BatchNorm(outputs), BatchNorm(outputs)])
        self.around: nn.Module = nn.Identity()
        if stride == 2:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, 2, bias=False), BatchNorm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + self.around(x))


def residual_network(width: int, classes: int) -> nn.Module:
    """ResNet-18 for a width of 64, with dropout before the last layer."""
    stages = [(width << max(0, i - 1), width << i) for i in range(4)]
    blocks = [block for a, b in stages for block in (Residual(a, b), Residual(b, b))]
    stem = nn.Conv2d(3, width, 7, 2, 3, bias=False), BatchNorm(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(
        *(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        *(nn.Dropout(0.2), nn.Linear(width << 3, classes)),
    )
