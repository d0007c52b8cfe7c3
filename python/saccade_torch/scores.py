"""Log-probabilities and entropy of given tokens. Logits [rows, vocabulary] exist for one chunk at a time, forward and backward: they are computed
again rather than kept. With z = logits / temperature, banned ids at −∞: H = log Z − Σ p·z, dlogp/dz = 1[y] − p, dH/dz = −p·(log p + H).
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK_BYTES = {"cpu": 16 * 1024**2, "cuda": 512 * 1024**2}


def token_scores(hidden: Tensor, weight: Tensor, targets: Tensor, inverse: Tensor, banned: Tensor) -> tuple[Tensor, Tensor]:
    """hidden [rows, width], weight [vocabulary, width], inverse temperatures [rows] → log-probabilities and entropy [rows], 32 bits."""
    return _TokenScores.apply(hidden, weight, targets, inverse, banned)  # type: ignore[no-any-return]


def tempered(hidden: Tensor, weight: Tensor, inverse: Tensor, banned: Tensor) -> Tensor:
    """Logits over temperature in 32 bits, banned ids at −∞."""
    z = wide_product(hidden, weight.T) * inverse[:, None]
    return z.index_fill_(1, banned, float("-inf"))


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """Half-precision matrices, a 32-bit product: logits rounded to bfloat16 are off by more than training moves them."""
    if a.dtype == torch.float32:
        return a @ b
    if a.device.type == "cuda":
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


class _TokenScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, inverse, banned):  # type: ignore[no-untyped-def]
        cast = weight.detach().to(hidden.dtype)
        logprobs = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        entropy = torch.empty_like(logprobs)
        normaliser = torch.empty_like(logprobs)
        for rows in _chunks(hidden, weight):
            z = tempered(hidden[rows], cast, inverse[rows], banned)
            normaliser[rows] = total = torch.logsumexp(z, -1)
            logprobs[rows] = z.gather(1, targets[rows, None])[:, 0] - total
            # 0 · −∞ is nothing here.
            entropy[rows] = total - (torch.exp(z - total[:, None]) * z.index_fill_(1, banned, 0.0)).sum(-1)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, weight, targets, inverse, banned, normaliser, entropy)
        return logprobs, entropy

    @staticmethod
    def backward(ctx, by_logprob, by_entropy):  # type: ignore[no-untyped-def]
        hidden, weight, targets, inverse, banned, normaliser, entropy = ctx.saved_tensors
        need_hidden, need_weight = ctx.needs_input_grad[:2]
        if by_logprob is None and by_entropy is None:
            return None, None, None, None, None
        cast = weight.detach().to(hidden.dtype)
        dhidden = torch.empty_like(hidden) if need_hidden else None
        dweight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if need_weight else None
        for rows in _chunks(hidden, weight):
            logp = tempered(hidden[rows], cast, inverse[rows], banned) - normaliser[rows, None]
            p = torch.exp(logp)
            slope = torch.zeros_like(p)
            if by_entropy is not None:
                logp = logp.index_fill_(1, banned, 0.0)
                slope -= by_entropy[rows, None] * p * (logp + entropy[rows, None])
            if by_logprob is not None:
                g = by_logprob[rows, None]
                slope -= g * p
                slope.scatter_add_(1, targets[rows, None], g)
            slope = slope.index_fill_(1, banned, 0.0) * inverse[rows, None]
            narrow = slope.to(hidden.dtype)
            if dhidden is not None:
                dhidden[rows] = narrow @ cast
            if dweight is not None:
                dweight += wide_product(narrow.T, hidden[rows])
        return dhidden, None if dweight is None else dweight.to(weight.dtype), None, None, None


def _chunks(hidden: Tensor, weight: Tensor) -> list[slice]:
    size = max(1, CHUNK_BYTES.get(hidden.device.type, CHUNK_BYTES["cpu"]) // 4 // weight.shape[0])
    return [slice(at, at + size) for at in range(0, len(hidden), size)]
