"""Multi-head attention by PyTorch's own operator in place of the package's: the same weights in less memory."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FusedAttention(nn.Module):
    """`MultiHeadAttention` of chapter 03 with its sub-modules, computed without ever storing the weights.

    Args:
        attention: the module whose `w_q`, `w_k`, `w_v`, `w_o` are used.
    """

    def __init__(self, attention: nn.Module, num_heads: int, dropout: float):
        super().__init__()
        self.w_q: nn.Linear = attention.get_submodule("w_q")  # type: ignore[assignment]
        self.w_k: nn.Linear = attention.get_submodule("w_k")  # type: ignore[assignment]
        self.w_v: nn.Linear = attention.get_submodule("w_v")  # type: ignore[assignment]
        self.w_o: nn.Linear = attention.get_submodule("w_o")  # type: ignore[assignment]
        self.num_heads, self.dropout = num_heads, dropout

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Shapes and mask as in `MultiHeadAttention`."""
        q, k, v = self._project(query, key, value)
        dropout = self.dropout if self.training else 0.0
        output = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=dropout)
        return self.w_o(output.transpose(1, 2).flatten(2))

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        if query is key and key is value:  # one matrix product instead of three
            layers = (self.w_q, self.w_k, self.w_v)
            packed = F.linear(query, torch.cat([w.weight for w in layers]), torch.cat([w.bias for w in layers]))
            projected = list(packed.chunk(3, dim=-1))
        else:
            projected = [self.w_q(query), self.w_k(key), self.w_v(value)]
        return [x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for x in projected]


def fuse(model: nn.Module, attention_class: type[nn.Module], num_heads: int, dropout: float) -> int:
    """Replace each `attention_class` in the model. The parameters stay the same objects with the same names.

    Returns:
        How many were replaced.
    """
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, attention_class)
    ]
    for parent, name, child in found:
        setattr(parent, name, FusedAttention(child, num_heads, dropout))
    return len(found)
