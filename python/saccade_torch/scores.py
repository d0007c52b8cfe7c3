"""Log-probabilities and entropy of given tokens. Logits [rows, vocabulary] exist for one chunk at a time, forward and backward: they are computed
again rather than kept. With z = logits / temperature, banned ids at −∞: H = log Z − Σ p·z, dlogp/dz = 1[y] − p, dH/dz = −p·(log p + H).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .compiled import compiled

CHUNK_BYTES = {"cpu": 16 * 1024**2, "cuda": 1024**3}


def token_scores(
    hidden: Tensor, weight: Tensor, targets: Tensor, inverse: Tensor, bias: Tensor, fast: bool = False, cap: float | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """hidden [rows, width], weight [vocabulary, width], inverse temperatures [rows], bias [vocabulary] (−∞ where an id is banned, else 0) →
    log-probabilities and entropy [rows], 32 bits. `fast`: what surrounds the products is compiled. `cap`: logits are bent back before it."""
    return _TokenScores.apply(hidden, weight, targets, inverse, bias, fast, cap)  # type: ignore[no-any-return]


def capped(logits: Tensor, cap: float | None) -> Tensor:
    return logits if cap is None else cap * torch.tanh(logits / cap)


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """Half-precision matrices, a 32-bit product: logits rounded to bfloat16 are off by more than training moves them."""
    if a.dtype == b.dtype and a.dtype in (torch.float32, torch.float64):
        return a @ b
    if a.device.type == "cuda":
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def score_rows(logits: Tensor, inverse: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities, entropy and log Z."""
    z = logits * inverse[:, None] + bias
    total = torch.logsumexp(z, -1)
    p = torch.exp(z - total[:, None])
    # 0 · −∞ is nothing here.
    entropy = total - torch.where(p > 0, p * z, 0.0).sum(-1)
    return z.gather(1, targets[:, None])[:, 0] - total, entropy, total


def slope_rows(logits: Tensor, inverse: Tensor, bias: Tensor, targets: Tensor, total: Tensor, entropy: Tensor, by_logprob: Tensor, by_entropy: Tensor | None) -> Tensor:
    logp = logits * inverse[:, None] + bias - total[:, None]
    p = torch.exp(logp)
    one = torch.arange(logits.shape[1], device=logits.device)[None] == targets[:, None]
    slope = by_logprob[:, None] * (one.float() - p)
    if by_entropy is not None:
        slope = slope - by_entropy[:, None] * torch.where(p > 0, p * (logp + entropy[:, None]), 0.0)
    return torch.where(bias < 0, 0.0, slope * inverse[:, None])


def half_slope_rows(*given: Tensor) -> Tensor:
    return slope_rows(*given).to(torch.bfloat16)


class _TokenScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, inverse, bias, fast, cap):  # type: ignore[no-untyped-def]
        cast = weight.detach().to(hidden.dtype)
        score = compiled(score_rows) if fast else score_rows
        logprobs, entropy, total = (torch.empty(len(hidden), dtype=torch.float32, device=hidden.device) for _ in range(3))
        for rows in _chunks(hidden, weight):
            logprobs[rows], entropy[rows], total[rows] = score(capped(wide_product(hidden[rows], cast.T), cap), inverse[rows], bias, targets[rows])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, weight, targets, inverse, bias, total, entropy)
        ctx.fast, ctx.cap = fast, cap
        return logprobs, entropy

    @staticmethod
    def backward(ctx, by_logprob, by_entropy):  # type: ignore[no-untyped-def]
        hidden, weight, targets, inverse, bias, total, entropy = ctx.saved_tensors
        need_hidden, need_weight = ctx.needs_input_grad[:2]
        if by_logprob is None and by_entropy is None:
            return None, None, None, None, None, None, None
        if by_logprob is None:
            by_logprob = torch.zeros_like(total)
        cast = weight.detach().to(hidden.dtype)
        half = hidden.dtype == torch.bfloat16
        slopes = half_slope_rows if half else slope_rows
        if ctx.fast:
            slopes = compiled(slopes)
        dhidden = torch.empty_like(hidden) if need_hidden else None
        dweight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if need_weight else None
        for rows in _chunks(hidden, weight):
            logits = capped(wide_product(hidden[rows], cast.T), ctx.cap)
            of_entropy = None if by_entropy is None else by_entropy[rows]
            slope = slopes(logits, inverse[rows], bias, targets[rows], total[rows], entropy[rows], by_logprob[rows], of_entropy)
            if ctx.cap is not None:
                slope = (slope * (1 - (logits / ctx.cap) ** 2)).to(slope.dtype)
            del logits
            if dhidden is not None:
                dhidden[rows] = slope @ cast
            if dweight is not None:
                add_into(dweight, slope.T, hidden[rows])
        return dhidden, None if dweight is None else dweight.to(weight.dtype), None, None, None, None, None


def add_into(into: Tensor, a: Tensor, b: Tensor) -> None:
    """Adds a product to 32 bits: rounded before it is added, it would bias training."""
    if a.dtype != torch.float32 and a.device.type == "cuda":
        torch.addmm(into, a, b, out_dtype=torch.float32, out=into)
    else:
        into += wide_product(a, b)


def _chunks(hidden: Tensor, weight: Tensor) -> list[slice]:
    size = max(1, CHUNK_BYTES.get(hidden.device.type, CHUNK_BYTES["cpu"]) // 4 // weight.shape[0])
    return [slice(at, at + size) for at in range(0, len(hidden), size)]
