"""Attention of decoding steps on CUDA: one query for each sequence over its slot of the cache. The flash kernel that prefills treats that query as a block of
128, and reads a long slot with one program; these read a slot in chunks of one fixed size, so that a sequence's numbers never depend on who decodes beside it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 512
BLOCK = 64


def supports(head_dim: int, group: int) -> bool:
    return head_dim in (16, 32, 64, 128, 256) and group <= 16


def attend(q: Tensor, keys: Tensor, values: Tensor, slots: Tensor, used: Tensor, reach: int) -> Tensor:
    """q [rows, query heads, d] → the same; row i sees the first `used[i]` rows, at most `reach`, of slot `slots[i]`."""
    rows, heads, width = q.shape
    shared = keys.shape[2]
    splits = triton.cdiv(reach, CHUNK)
    out = torch.empty(rows, heads, width, dtype=q.dtype, device=q.device)
    parts = out if splits == 1 else torch.empty(rows, heads, splits, width, dtype=torch.float32, device=q.device)
    sums = torch.empty(rows, heads, splits, dtype=torch.float32, device=q.device)
    _attend[rows, shared, splits](
        q, keys, values, slots, used, parts, sums, width**-0.5, q.stride(0), q.stride(1), keys.stride(0), keys.stride(1), keys.stride(2),
        HEADS=heads, GROUP=heads // shared, D=width, CHUNK=CHUNK, BLOCK=BLOCK, SPLITS=splits, num_warps=4, num_stages=3,
    )  # fmt: skip
    if splits > 1:
        _combine[rows, heads](parts, sums, used, out, HEADS=heads, D=width, CHUNK=CHUNK, SPLITS=splits, ROUND=triton.next_power_of_2(splits), num_warps=2)
    return out


@triton.jit
def _attend(
    q, keys, values, slots, used, parts, sums, scale, q_row, q_head, slot_step, row_step, head_step,
    HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    row, shared, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    count = tl.load(used + row).to(tl.int32)
    begin = split * CHUNK
    if begin < count:
        end = tl.minimum(begin + CHUNK, count)
        # A product has at least 16 rows; those past the group are nothing.
        member = tl.arange(0, 16)
        mine = member < GROUP
        head = shared * GROUP + member
        d = tl.arange(0, D)
        column = tl.arange(0, BLOCK)
        query = tl.load(q + row * q_row + head[:, None] * q_head + d[None, :], mask=mine[:, None], other=0.0)
        base = tl.load(slots + row).to(tl.int64) * slot_step + shared * head_step
        best = tl.full([16], float("-inf"), tl.float32)
        total = tl.zeros([16], tl.float32)
        sum = tl.zeros([16, D], tl.float32)
        for at in range(begin, end, BLOCK):
            place = at + column
            inside = place < end
            where = base + place[:, None] * row_step + d[None, :]
            k = tl.load(keys + where, mask=inside[:, None], other=0.0)
            score = tl.dot(query, tl.trans(k)) * scale
            score = tl.where(inside[None, :], score, float("-inf"))
            top = tl.maximum(best, tl.max(score, 1))
            shrink = tl.exp(best - top)
            p = tl.exp(score - top[:, None])
            total = total * shrink + tl.sum(p, 1)
            v = tl.load(values + where, mask=inside[:, None], other=0.0)
            sum = sum * shrink[:, None] + tl.dot(p.to(v.dtype), v)
            best = top
        to = (row * HEADS + head) * SPLITS + split
        tl.store(parts + to[:, None] * D + d[None, :], (sum / total[:, None]).to(parts.dtype.element_ty), mask=mine[:, None])
        tl.store(sums + to, best + tl.log(total), mask=mine)


@triton.jit
def _combine(parts, sums, used, out, HEADS: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr, SPLITS: tl.constexpr, ROUND: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1)
    count = tl.load(used + row).to(tl.int32)
    split = tl.arange(0, ROUND)
    live = split * CHUNK < count
    d = tl.arange(0, D)
    at = (row * HEADS + head) * SPLITS + split
    sum = tl.load(sums + at, mask=live, other=float("-inf"))
    share = tl.exp(sum - tl.max(sum, 0))
    share = share / tl.sum(share, 0)
    part = tl.load(parts + at[:, None] * D + d[None, :], mask=live[:, None], other=0.0)
    tl.store(out + (row * HEADS + head) * D + d, tl.sum(part * share[:, None], 0).to(out.dtype.element_ty))
