"""What a sampler's layer does between its matrix products, on CUDA: one kernel each, launched as it is (a compiled function costs the host more than a short
pass takes). Norms and rotations are computed in 32 bits from half-precision products, as in the learner's layers."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def normed(x: Tensor, weight: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    """RMS norm of rows [T, width] in 32 bits."""
    rows, width = x.shape
    out = torch.empty(rows, width, dtype=dtype, device=x.device)
    _norm[(rows,)](x, weight, out, epsilon, W=width, ROUND=triton.next_power_of_2(width), num_warps=8 if width > 1024 else 4)
    return out


def turned(
    qkv: Tensor, scales: tuple[Tensor, Tensor] | None, epsilon: float, cos: Tensor, sin: Tensor, slots: Tensor, places: Tensor, keys: Tensor, values: Tensor, heads: int
) -> Tensor:
    """From products [T, (heads + 2 · shared) · d]: queries, normed and rotated [T, heads, d]; keys, the same, and values go to their places in
    [slots, length, shared, d]. `cos` and `sin` are [T, 1, d]."""
    rows = len(qkv)
    shared, width = keys.shape[2:]
    out = torch.empty(rows, heads, width, dtype=qkv.dtype, device=qkv.device)
    q_scale, k_scale = scales or (cos, cos)
    _turn[(rows,)](
        qkv, q_scale, k_scale, cos, sin, slots, places, out, keys, values, epsilon, keys.stride(0), keys.stride(1),
        HEADS=heads, SHARED=shared, D=width, HEADS_ROUND=triton.next_power_of_2(heads), SHARED_ROUND=triton.next_power_of_2(shared), NORMED=scales is not None, num_warps=4,
    )  # fmt: skip
    return out


def gate(x: Tensor) -> Tensor:
    """silu(first half) · second half of rows [T, 2 · width]."""
    rows, both = x.shape
    out = torch.empty(rows, both // 2, dtype=x.dtype, device=x.device)
    _gate[rows, triton.cdiv(both // 2, 1024)](x, out, W=both // 2, BLOCK=1024, num_warps=4)
    return out


@triton.jit
def _norm(x, weight, out, epsilon, W: tl.constexpr, ROUND: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, ROUND)
    inside = at < W
    values = tl.load(x + row * W + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 0) / W + epsilon)
    by = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * W + at, (values * scale * by).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _rotated(base, scale, cos, sin, epsilon, D: tl.constexpr, COUNT: tl.constexpr, ROUND: tl.constexpr, NORMED: tl.constexpr):
    """[ROUND, D]: heads that begin at `base`."""
    d = tl.arange(0, D)
    partner = (d + D // 2) % D
    head = tl.arange(0, ROUND)[:, None]
    inside = head < COUNT
    x = tl.load(base + head * D + d[None, :], mask=inside, other=0.0).to(tl.float32)
    y = tl.load(base + head * D + partner[None, :], mask=inside, other=0.0).to(tl.float32)
    if NORMED:
        factor = tl.rsqrt(tl.sum(x * x, 1) / D + epsilon)[:, None]
        x = x * factor * tl.load(scale + d).to(tl.float32)[None, :]
        y = y * factor * tl.load(scale + partner).to(tl.float32)[None, :]
    sign = tl.where(d < D // 2, -1.0, 1.0)
    return x * tl.load(cos + d)[None, :] + y * (tl.load(sin + d) * sign)[None, :]


@triton.jit
def _turn(
    qkv, q_scale, k_scale, cos, sin, slots, places, out, keys, values, epsilon, slot_step, row_step,
    HEADS: tl.constexpr, SHARED: tl.constexpr, D: tl.constexpr, HEADS_ROUND: tl.constexpr, SHARED_ROUND: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, D)[None, :]
    base = qkv + row * (HEADS + 2 * SHARED) * D
    head = tl.arange(0, HEADS_ROUND)[:, None]
    query = _rotated(base, q_scale, cos + row * D, sin + row * D, epsilon, D, HEADS, HEADS_ROUND, NORMED)
    tl.store(out + (row * HEADS + head) * D + d, query.to(out.dtype.element_ty), mask=head < HEADS)
    to = tl.load(slots + row).to(tl.int64) * slot_step + tl.load(places + row).to(tl.int64) * row_step
    head = tl.arange(0, SHARED_ROUND)[:, None]
    inside = head < SHARED
    key = _rotated(base + HEADS * D, k_scale, cos + row * D, sin + row * D, epsilon, D, SHARED, SHARED_ROUND, NORMED)
    tl.store(keys + to + head * D + d, key.to(keys.dtype.element_ty), mask=inside)
    value = tl.load(base + (HEADS + SHARED) * D + head * D + d, mask=inside, other=0.0)
    tl.store(values + to + head * D + d, value, mask=inside)


@triton.jit
def _gate(x, out, W: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < W
    a = tl.load(x + row * 2 * W + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(x + row * 2 * W + W + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * W + at, (a / (1 + tl.exp(-a)) * b).to(out.dtype.element_ty), mask=inside)
