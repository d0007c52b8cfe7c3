"""Our forward passes over the modules that transformers builds. Loading, names and files stay Hugging Face's; what is computed is ours, the same for
learning and sampling, on one row of tokens [T, width] without a batch dimension.

Weights may be 32-bit masters: every matrix product casts them to `compute`, the dtype of the computation. Norms, angles, softmax and the stream that layers
add to are 32-bit whatever that is: a stream in bfloat16 is rounded at every layer, and two passes over the same tokens then differ by percents.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Segments, packed_attention
from .quantized import QuantizedLinear
from .rotary import rotate


class LoraLinear(nn.Module):
    """A frozen layer with (alpha / rank) · B·A beside it, named as PEFT names them."""

    def __init__(self, base: nn.Linear | QuantizedLinear, rank: int, scaling: float) -> None:
        super().__init__()
        self.base_layer = base
        self.scaling = scaling
        device = base.device if isinstance(base, QuantizedLinear) else base.weight.device
        self.lora_A = nn.Linear(base.in_features, rank, bias=False, device=device, dtype=torch.float32)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False, device=device, dtype=torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        low = F.linear(x, self.lora_A.weight.to(x.dtype))
        return linear(self.base_layer, x) + F.linear(low, self.lora_B.weight.to(x.dtype)) * self.scaling


def linear(module: nn.Module, x: Tensor) -> Tensor:
    if isinstance(module, (LoraLinear, QuantizedLinear)):
        return module(x)
    weight, bias = module.weight, module.bias
    return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def wide_linear(module: nn.Module, x: Tensor) -> Tensor:
    """What a layer adds to the 32-bit stream: on CUDA the product is not rounded to half precision before."""
    if isinstance(module, nn.Linear) and module.bias is None and x.device.type == "cuda" and x.dtype != torch.float32:
        return _wide_linear(x, module.weight.to(x.dtype))
    return linear(module, x)


@torch.library.custom_op("saccade::wide_linear", mutates_args=())
def _wide_linear(x: Tensor, weight: Tensor) -> Tensor:
    return torch.mm(x, weight.T, out_dtype=torch.float32)


@_wide_linear.register_fake
def _(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0], dtype=torch.float32)


def _keep_inputs(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _wide_linear_slopes(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:
    x, weight = ctx.saved_tensors
    half = slope.to(x.dtype)
    return half @ weight if ctx.needs_input_grad[0] else None, half.T @ x if ctx.needs_input_grad[1] else None


_wide_linear.register_autograd(_wide_linear_slopes, setup_context=_keep_inputs)


def norm(module: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    """A layer norm, or transformers' RMS norms (which call their epsilon `variance_epsilon`), computed in 32 bits."""
    wide = x.float()
    if isinstance(module, nn.LayerNorm):
        out = F.layer_norm(wide, wide.shape[-1:], module.weight.float(), module.bias.float(), module.eps)
    else:
        out = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + module.variance_epsilon) * module.weight.float()
    return out.to(dtype)


class TextLayer(nn.Module):
    """The class that a decoder layer of Qwen3-VL or Qwen2.5-VL is turned into (`adopt`)."""

    compute: torch.dtype

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, segments: Segments) -> Tensor:
        q, k, v = self.project(x, cos, sin)
        return self.finish(x, packed_attention(q, k, v, segments, causal=True))

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        attention = self.self_attn
        width = attention.head_dim
        flat = norm(self.input_layernorm, x, self.compute)
        q, k, v = (part.unflatten(-1, (-1, width)) for part in together(attention, ("q_proj", "k_proj", "v_proj"), flat))
        if hasattr(attention, "q_norm"):
            q, k = norm(attention.q_norm, q, q.dtype), norm(attention.k_norm, k, k.dtype)
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + wide_linear(self.self_attn.o_proj, attended.flatten(1))
        return x + wide_linear(self.mlp.down_proj, gated(self.mlp, norm(self.post_attention_layernorm, x, self.compute)))


class VisionBlock(nn.Module):
    """The class that a block of the vision tower is turned into."""

    compute: torch.dtype

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, segments: Segments) -> Tensor:
        attention = self.attn
        qkv = linear(attention.qkv, norm(self.norm1, x, self.compute)).unflatten(-1, (3, attention.num_heads, -1))
        q, k, v = qkv.unbind(1)
        seen = packed_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, segments, causal=False)
        x = x + linear(attention.proj, seen.flatten(1))
        flat = norm(self.norm2, x, self.compute)
        if hasattr(self.mlp, "gate_proj"):
            return x + linear(self.mlp.down_proj, gated(self.mlp, flat))
        return x + linear(self.mlp.linear_fc2, F.gelu(linear(self.mlp.linear_fc1, flat), approximate="tanh"))


def gated(mlp: nn.Module, x: Tensor) -> Tensor:
    gate, up = together(mlp, ("gate_proj", "up_proj"), x)
    return F.silu(gate) * up


def together(module: nn.Module, names: tuple[str, ...], x: Tensor) -> Sequence[Tensor]:
    """What several layers make of the same rows: in one product, where `join` laid their weights end to end."""
    joined: Tensor | None = getattr(module, "joined", None)
    if joined is None:
        return [linear(getattr(module, name), x) for name in names]
    bias = getattr(module, "joined_bias", None)
    return F.linear(x, joined, bias).split([getattr(module, name).out_features for name in names], -1)


def join(module: nn.Module, names: tuple[str, ...]) -> bool:
    """Lays the weights of plain layers end to end; they stay what they are, as parts of the whole. Whether they are plain."""
    layers = [getattr(module, name) for name in names]
    if not all(isinstance(layer, nn.Linear) for layer in layers):
        return False
    for kind, name in (("weight", "joined"), ("bias", "joined_bias")):
        parts = [getattr(layer, kind) for layer in layers]
        if any(part is None for part in parts):
            continue
        whole = torch.cat([part.detach() for part in parts])
        for part, place in zip(parts, whole.split([len(part) for part in parts])):
            part.data = place
        setattr(module, name, whole)
    return True


def merge(merger: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    """merge² neighbouring patches to one token."""
    if hasattr(merger, "ln_q"):  # Qwen2.5-VL
        wide = norm(merger.ln_q, x, dtype).reshape(-1, merger.hidden_size)
        first, _, second = merger.mlp
    else:
        after = merger.use_postshuffle_norm
        wide = norm(merger.norm, x.reshape(-1, merger.hidden_size) if after else x, dtype).reshape(-1, merger.hidden_size)
        first, second = merger.linear_fc1, merger.linear_fc2
    return linear(second, F.gelu(linear(first, wide)))


def adopt(module: nn.Module, as_class: type[TextLayer] | type[VisionBlock], compute: torch.dtype) -> None:
    """Keeps the module's parameters and children and gives it our forward pass."""
    module.__class__ = as_class
    module.compute = compute  # type: ignore[assignment]
