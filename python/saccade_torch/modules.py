"""Our forward passes over the modules that transformers builds. Loading, names and files stay Hugging Face's; what is computed is ours, the same for
learning and sampling, on one row of tokens [T, width] without a batch dimension.

Weights may be 32-bit masters: every use casts them to the dtype of what flows through. Norms, angles and softmax are 32-bit whatever that is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Segments, packed_attention
from .rotary import rotate


class LoraLinear(nn.Module):
    """A frozen layer with (alpha / rank) · B·A beside it, named as PEFT names them."""

    def __init__(self, base: nn.Linear, rank: int, scaling: float) -> None:
        super().__init__()
        self.base_layer = base
        self.scaling = scaling
        device = base.weight.device
        self.lora_A = nn.Linear(base.in_features, rank, bias=False, device=device, dtype=torch.float32)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False, device=device, dtype=torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        low = F.linear(x, self.lora_A.weight.to(x.dtype))
        return linear(self.base_layer, x) + F.linear(low, self.lora_B.weight.to(x.dtype)) * self.scaling


def linear(module: nn.Module, x: Tensor) -> Tensor:
    if isinstance(module, LoraLinear):
        return module(x)
    weight, bias = module.weight, module.bias
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def norm(module: nn.Module, x: Tensor) -> Tensor:
    """A layer norm, or transformers' RMS norms (which call their epsilon `variance_epsilon`)."""
    wide = x.float()
    if isinstance(module, nn.LayerNorm):
        out = F.layer_norm(wide, wide.shape[-1:], module.weight.float(), module.bias.float(), module.eps)
    else:
        out = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + module.variance_epsilon) * module.weight.float()
    return out.to(x.dtype)


class TextLayer(nn.Module):
    """The class that a decoder layer of Qwen3-VL or Qwen2.5-VL is turned into (`adopt`)."""

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, segments: Segments) -> Tensor:
        q, k, v = self.project(x, cos, sin)
        return self.finish(x, packed_attention(q, k, v, segments, causal=True))

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        attention = self.self_attn
        width = attention.head_dim
        flat = norm(self.input_layernorm, x)
        q, k, v = (linear(m, flat).unflatten(-1, (-1, width)) for m in (attention.q_proj, attention.k_proj, attention.v_proj))
        if hasattr(attention, "q_norm"):
            q, k = norm(attention.q_norm, q), norm(attention.k_norm, k)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + linear(self.self_attn.o_proj, attended.flatten(1))
        flat = norm(self.post_attention_layernorm, x)
        return x + gated(self.mlp, flat)


class VisionBlock(nn.Module):
    """The class that a block of the vision tower is turned into."""

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, segments: Segments) -> Tensor:
        attention = self.attn
        qkv = linear(attention.qkv, norm(self.norm1, x)).unflatten(-1, (3, attention.num_heads, -1))
        q, k, v = qkv.unbind(1)
        seen = packed_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, segments, causal=False)
        x = x + linear(attention.proj, seen.flatten(1))
        flat = norm(self.norm2, x)
        if hasattr(self.mlp, "gate_proj"):
            return x + gated(self.mlp, flat)
        return x + linear(self.mlp.linear_fc2, F.gelu(linear(self.mlp.linear_fc1, flat), approximate="tanh"))


def gated(mlp: nn.Module, x: Tensor) -> Tensor:
    return linear(mlp.down_proj, F.silu(linear(mlp.gate_proj, x)) * linear(mlp.up_proj, x))


def merge(merger: nn.Module, x: Tensor) -> Tensor:
    """merge² neighbouring patches to one token."""
    if hasattr(merger, "ln_q"):  # Qwen2.5-VL
        wide = norm(merger.ln_q, x).reshape(-1, merger.hidden_size)
        first, _, second = merger.mlp
    else:
        after = merger.use_postshuffle_norm
        wide = norm(merger.norm, x.reshape(-1, merger.hidden_size) if after else x).reshape(-1, merger.hidden_size)
        first, second = merger.linear_fc1, merger.linear_fc2
    return linear(second, F.gelu(linear(first, wide)))


def adopt(module: nn.Module, as_class: type[nn.Module]) -> None:
    """Keeps the module's parameters and children and gives it our forward pass."""
    module.__class__ = as_class
