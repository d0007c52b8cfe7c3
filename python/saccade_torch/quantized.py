"""Frozen matrices in 4 or 8 bits. A matrix is cut, row after row, into blocks of 64 weights; a block has one 32-bit scale and a small number for each weight.
`nf4` takes one of 16 levels that are equally likely under a normal distribution (QLoRA, arXiv 2305.14314), two to a byte; `int8` takes −127 to 127.

A product dequantises its matrix first and forgets it afterwards: the backward pass dequantises it again instead of keeping it. Only the layers of the language
part are quantised: tower, embedding, head and norms are small beside them, and what they round costs most.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Literal, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .errors import ConfigError

Base = Literal["nf4", "int8"]
BLOCK = 64
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""The levels of NF4, from −1 to 1."""
BYTES = {"nf4": 0.5 + 4 / BLOCK, "int8": 1 + 4 / BLOCK}
"""Of a weight, its part of the scale included. src/engine/torch/memory.ts counts with the same."""


def quantize(weight: Tensor, kind: Base) -> tuple[Tensor, Tensor]:
    """Codes (uint8 holds two of NF4; int8 one) and the scales of blocks. The last block may be short; then zeros fill it."""
    flat = weight.detach().float().flatten()
    blocks = F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
    largest = blocks.abs().amax(1)
    if kind == "int8":
        scales = largest / 127
        return (blocks / scales.clamp(min=1e-30)[:, None]).round().to(torch.int8).flatten(), scales
    levels = torch.tensor(NF4, device=flat.device)
    codes = torch.bucketize(blocks / largest.clamp(min=1e-30)[:, None], (levels[1:] + levels[:-1]) / 2).to(torch.uint8).flatten()
    return codes[0::2] << 4 | codes[1::2], largest


def dequantize(codes: Tensor, scales: Tensor, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """[rows, columns]. Products of levels and scales are rounded once, to `dtype`."""
    return _expand(codes, scales, _pairs(codes.device), rows, columns, dtype)


def _expand(codes: Tensor, scales: Tensor, pairs: Tensor, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    values = codes.float() if codes.dtype == torch.int8 else F.embedding(codes.int(), pairs)
    values = values.view(-1, BLOCK)
    return (values * scales[:, None]).to(dtype).flatten()[: rows * columns].view(rows, columns)


@lru_cache(maxsize=8)
def _pairs(device: torch.device) -> Tensor:
    """[256, 2]: what the two halves of a byte stand for."""
    levels = torch.tensor(NF4, device=device)
    byte = torch.arange(256, device=device)
    return torch.stack([levels[byte >> 4], levels[byte & 15]], 1)


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Tensor]:
    """A model has few shapes of matrices: each is compiled for itself."""
    return torch.compile(_expand, dynamic=False, fullgraph=True)


def _matrix(x: Tensor, codes: Tensor, scales: Tensor, rows: int, columns: int, fast: bool) -> Tensor:
    return (_compiled() if fast else _expand)(codes, scales, _pairs(codes.device), rows, columns, x.dtype)


# An operation of its own: in a compiled layer, nothing decides to keep the dequantised matrix for the backward pass.
@torch.library.custom_op("saccade::quantized_linear", mutates_args=())
def _linear(x: Tensor, codes: Tensor, scales: Tensor, rows: int, fast: bool) -> Tensor:
    return F.linear(x, _matrix(x, codes, scales, rows, x.shape[-1], fast))


@_linear.register_fake
def _(x: Tensor, codes: Tensor, scales: Tensor, rows: int, fast: bool) -> Tensor:
    return x.new_empty(*x.shape[:-1], rows)


@torch.library.custom_op("saccade::quantized_linear_slope", mutates_args=())
def _slope(slope: Tensor, codes: Tensor, scales: Tensor, columns: int, fast: bool) -> Tensor:
    return slope @ _matrix(slope, codes, scales, slope.shape[-1], columns, fast)


@_slope.register_fake
def _(slope: Tensor, codes: Tensor, scales: Tensor, columns: int, fast: bool) -> Tensor:
    return slope.new_empty(*slope.shape[:-1], columns)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int, bool], output: Tensor) -> None:
    x, codes, scales, _, fast = inputs
    ctx.save_for_backward(codes, scales)
    ctx.columns, ctx.fast = x.shape[-1], fast


def _backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None, None, None]:
    codes, scales = ctx.saved_tensors
    return _slope(slope, codes, scales, ctx.columns, ctx.fast), None, None, None, None


_linear.register_autograd(_backward, setup_context=_keep)


class QuantizedLinear(nn.Module):
    """In the place of a frozen linear layer."""

    def __init__(self, layer: nn.Linear, kind: Base, device: torch.device, fast: bool) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.fast = fast
        # One matrix at a time is on the device as it was.
        codes, scales = quantize(layer.weight.to(device), kind)
        self.codes, self.scales = nn.Parameter(codes, requires_grad=False), nn.Parameter(scales, requires_grad=False)
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().to(device), requires_grad=False)

    @property
    def device(self) -> torch.device:
        return self.codes.device

    def weight(self, dtype: torch.dtype) -> Tensor:
        """What it computes with."""
        return dequantize(self.codes, self.scales, self.out_features, self.in_features, dtype)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        out = _linear(x, self.codes, self.scales, self.out_features, self.fast)
        return out if self.bias is None else out + self.bias.to(x.dtype)


def quantize_layers(root: nn.Module, layers: Mapping[str, nn.Module], kind: Base, device: torch.device, fast: bool) -> None:
    """Puts quantised layers in the place of these, which `root` knows by their names."""
    chosen = {name: layer for name, layer in layers.items() if isinstance(layer, nn.Linear)}
    if not chosen:
        raise ConfigError(f"This model has no linear layer that could be quantised: leave the engine's base ({kind}) out.")
    for name, layer in chosen.items():
        parent, _, last = name.rpartition(".")
        owner = root.get_submodule(parent)
        mine = QuantizedLinear(layer, kind, device, fast)
        if isinstance(owner, nn.Sequential):
            owner[int(last)] = mine
        else:
            setattr(owner, last, mine)
