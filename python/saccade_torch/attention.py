"""Attention over sequences that lie end to end: no token sees another sequence.

On CUDA in half precision `varlen_attn` does all of a pack in one kernel. Elsewhere each sequence is a call of its own (a block-diagonal mask
that is never made); sequences of one length go together.
"""

from __future__ import annotations

import inspect
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    from torch.nn.attention.varlen import varlen_attn

    VARLEN_ARGUMENTS = frozenset(inspect.signature(varlen_attn).parameters)
except ImportError:  # torch < 2.10
    varlen_attn = None
    VARLEN_ARGUMENTS = frozenset()


ALIKE = 32
"""So many sequences of one length, or a multiple, go to cuDNN, whose kernels take two thirds of the time for them. It plans anew for every other number."""


class Segments(NamedTuple):
    """Lengths of sequences that lie end to end, and their bounds [count + 1] on the device. Where one kernel does all of them the lengths are left out: a
    compiled layer would be compiled anew for each. `alike`: how long each is, where there are many of one length."""

    lengths: tuple[int, ...]
    bounds: Tensor
    longest: int
    alike: int

    @staticmethod
    def of(lengths: list[int], device: torch.device, dtype: torch.dtype, least: int = 1024, images: bool = False) -> Segments:
        """`least`: shorter ones count as this long, which costs next to nothing, and a compiled layer sees one number. `images` are often of one size."""
        bounds = torch.zeros(len(lengths) + 1, dtype=torch.int32)
        bounds[1:] = torch.tensor(lengths, dtype=torch.int32).cumsum(0)
        varlen = uses_varlen(device, dtype)
        alike = lengths[0] if images and varlen and len(lengths) >= ALIKE and lengths[0] >= 256 and len(set(lengths)) == 1 else 0
        return Segments(() if varlen else tuple(lengths), to_device(bounds, device), bucket(max(least, *lengths)), alike)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Without waiting for the device."""
    if device.type == "cpu":
        return tensor.to(device)
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)


def bucket(length: int) -> int:
    """The next power of two: a compiled layer sees few different numbers."""
    return 1 << max(0, length - 1).bit_length()


def uses_varlen(device: torch.device, dtype: torch.dtype) -> bool:
    return varlen_attn is not None and device.type == "cuda" and dtype in (torch.bfloat16, torch.float16)


def packed_attention(q: Tensor, k: Tensor, v: Tensor, segments: Segments, causal: bool, scale: float | None = None) -> Tensor:
    """q [T, heads, d], k and v [T, kv heads, d] → [T, heads, d]."""
    if uses_varlen(q.device, q.dtype):
        if segments.alike and not causal and scale is None and torch.is_grad_enabled():
            return _many_alike(q, k, v, segments)
        return _varlen(q, k, v, segments.bounds, segments.longest, causal, scale)
    lengths = segments.lengths
    if len(set(lengths)) == 1:
        shape = (len(lengths), lengths[0])
        parts = (x.unflatten(0, shape).transpose(1, 2) for x in (q, k, v))
        return dense(*parts, causal, scale=scale).transpose(1, 2).flatten(0, 1)
    cut = (x.split(list(lengths)) for x in (q, k, v))
    out = [dense(*(x.transpose(0, 1)[None] for x in part), causal, scale=scale)[0].transpose(0, 1) for part in zip(*cut)]
    return torch.cat(out)


def dense(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
    """[batch, heads, T, d]; key-value heads are shared by groups of query heads."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def _many_alike(q: Tensor, k: Tensor, v: Tensor, segments: Segments) -> Tensor:
    """Lots of `ALIKE` in one dense call, and what is left over."""
    each = segments.alike
    whole = q.shape[0] // each // ALIKE * ALIKE
    parts = (x[: whole * each].unflatten(0, (whole, each)).transpose(1, 2) for x in (q, k, v))
    out = torch.ops.aten._scaled_dot_product_cudnn_attention(*parts, None, True)[0].transpose(1, 2).flatten(0, 1)
    if whole * each == q.shape[0]:
        return out
    bounds = segments.bounds[whole:] - whole * each
    rest = _varlen(*(x[whole * each :] for x in (q, k, v)), bounds, segments.longest, False)
    return torch.cat([out, rest])


def _varlen(q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, longest: int, causal: bool, scale: float | None = None) -> Tensor:
    options: dict[str, object] = {} if scale is None else {"scale": scale}
    if "window_size" in VARLEN_ARGUMENTS:
        options["window_size"] = (-1, 0) if causal else (-1, -1)
    else:
        options["is_causal"] = causal
    if "enable_gqa" in VARLEN_ARGUMENTS:
        # Before it had the argument, it took fewer key heads without asking.
        options["enable_gqa"] = k.shape[1] != q.shape[1]
    return varlen_attn(q, k, v, bounds, bounds, longest, longest, **options)


def cached_attention(q: Tensor, keys: Tensor, values: Tensor, bounds: Tensor, starts: Tensor, longest: int, used: Tensor) -> Tensor:
    """Queries [T, heads, d] of sequences end to end (`bounds`), each over the last `used` rows of a slot of keys and values [slots, length, kv heads, d].
    The slots lie end to end: the bounds of the keys are where each slot starts. `varlen_attn` has no such argument before torch 2.12; what it calls does."""
    return torch.ops.aten._flash_attention_forward(
        q, keys.flatten(0, 1), values.flatten(0, 1), bounds, starts, longest, keys.shape[1], 0.0, True, False, seqused_k=used
    )[0]
