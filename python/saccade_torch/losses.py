"""The losses, equal to src/engine/losses.ts number by number: from log-probabilities (and entropies, or values) to the loss, its slopes and metrics.
Sums and per-token weights only; normalisation is the caller's. Everything is in double, over all tokens of a pack at once.

`clipLow` and `clipHigh` are bounds on the ratio itself. A token's term is multiplied by its weight, the KL and entropy terms by the weight's
absolute value. Weight 0 means that nothing is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping

import torch
from torch import Tensor

# exp never sees more than this, so that one wild token can't overflow a batch; the slope beyond is 0.
LOG_RATIO_LIMIT = 20.0
SEQUENCE_LOG_RATIO_LIMIT = 10.0
KL_LIMIT = 10.0

Loss = Mapping[str, Any]
"""`name` and its constants, checked on the TypeScript side."""


@dataclass(frozen=True)
class LossInputs:
    """Per token, in double; `sequence` says whose it is."""

    weights: Tensor
    sequence: Tensor
    sequences: int
    advantages: Tensor | None = None
    old_logprobs: Tensor | None = None
    reference_logprobs: Tensor | None = None
    returns: Tensor | None = None
    old_values: Tensor | None = None


@dataclass
class LossTerms:
    """`slopes`: dL/dlogp, or dL/dvalue. Metrics are sums with their counts, on the device."""

    loss: Tensor
    slopes: Tensor
    entropy_slopes: Tensor | None
    tokens: Tensor
    metrics: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


def policy_loss(loss: Loss, data: LossInputs, logprobs: Tensor, entropy: Tensor | None) -> LossTerms:
    on = data.weights != 0
    zero = torch.zeros((), dtype=torch.float64, device=logprobs.device)
    # Where nothing is looked at, nothing may be wrong either.
    pick = lambda x: torch.where(on, x.double(), zero)  # noqa: E731
    weights, logp = pick(data.weights), pick(logprobs)
    terms = LossTerms(zero, zero, None, on.sum())
    metric = lambda name, values: terms.metrics.__setitem__(name, (pick(values).sum(), on.sum()))  # noqa: E731
    if loss["name"] == "cross-entropy":
        token, slope = -logp, torch.full_like(logp, -1.0)
        metric("nll", -logp)
    else:
        token, slope = _policy(loss, data, pick, on, logp, metric)
    total = weights * token
    slopes = weights * slope
    size = weights.abs()
    kl = loss.get("kl")
    if kl is not None:
        value, kl_slope = kl_term(kl["estimator"], logp - pick(_needed(data.reference_logprobs, "referenceLogprobs")))
        total = total + kl["coefficient"] * size * value
        slopes = slopes + kl["coefficient"] * size * kl_slope
        metric("kl_reference", value)
    if entropy is not None:
        metric("entropy", entropy)
        coefficient = loss.get("entropy") or 0.0
        if coefficient != 0:
            total = total - coefficient * size * pick(entropy)
            terms.entropy_slopes = torch.where(on, -coefficient * size, zero)
    terms.loss = torch.where(on, total, zero).sum()
    terms.slopes = torch.where(on, slopes, zero)
    return terms


def _policy(loss: Loss, data: LossInputs, pick, on: Tensor, logp: Tensor, metric) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    """Loss and slope of every token, before its weight."""
    advantage = pick(_needed(data.advantages, "advantages"))
    log_ratio = logp - pick(_needed(data.old_logprobs, "oldLogprobs"))
    limited = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio = limited.exp()
    live = limited == log_ratio
    metric("ratio", ratio)
    metric("kl_old", ratio - 1 - limited)
    name = loss["name"]
    if name == "importance-sampling":
        token = -ratio * advantage
        return token, torch.where(live, token, 0.0)
    if name == "ppo":
        return _clipped(loss, advantage, ratio, live, metric)
    if name == "gspo":
        sums = torch.zeros(data.sequences, dtype=torch.float64, device=logp.device)
        counts = sums.index_add(0, data.sequence, on.double())
        mean = sums.index_add(0, data.sequence, log_ratio) / counts.clamp(min=1)
        whole = mean[data.sequence]
        kept = whole.clamp(max=SEQUENCE_LOG_RATIO_LIMIT)
        return _clipped(loss, advantage, kept.exp(), kept == whole, metric)
    idle = advantage == 0
    if name == "cispo":
        low, high = loss["clipLow"], loss["clipHigh"]
        bounded = ratio.clamp(low, high)
        metric("clip_low", ratio < low)
        metric("clip_high", ratio > high)
        # Without an advantage nothing is pulled, even where logp is −∞.
        return torch.where(idle, 0.0, -bounded * advantage * logp), torch.where(idle, 0.0, -bounded * advantage)
    if name == "dro":
        beta = loss["beta"]
        token = torch.where(idle, 0.0, -advantage * logp) + 0.5 * beta * log_ratio * log_ratio
        return token, -advantage + beta * log_ratio
    raise ValueError(f"There is no loss {name}.")


def _clipped(loss: Loss, advantage: Tensor, ratio: Tensor, live: Tensor, metric) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    """−min(rA, clip(r)A), no more than −cA where A < 0. `live` says that r still follows logp."""
    low = (advantage < 0) & (ratio < loss["clipLow"])
    high = (advantage > 0) & (ratio > loss["clipHigh"])
    metric("clip_low", low)
    metric("clip_high", high)
    held = torch.where(low, loss["clipLow"], torch.where(high, loss["clipHigh"], ratio))
    clipped = low | high
    if loss.get("dualClip") is not None:
        dual = ~clipped & (advantage < 0) & (ratio > loss["dualClip"])
        metric("clip_dual", dual)
        held = torch.where(dual, loss["dualClip"], held)
        clipped = clipped | dual
    return -held * advantage, torch.where(clipped | ~live, 0.0, -ratio * advantage)


def kl_term(estimator: str, delta: Tensor) -> tuple[Tensor, Tensor]:
    """KL(policy ‖ reference) from one sample and its slope; `delta` is logp − reference."""
    if estimator == "k1":
        return delta, torch.ones_like(delta)
    if estimator == "k2":
        return 0.5 * delta * delta, delta
    limited = (-delta).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    value = limited.exp() - limited - 1
    dead = (value > KL_LIMIT) | (limited != -delta)
    return value.clamp(max=KL_LIMIT), torch.where(dead, 0.0, 1 - limited.exp())


def value_loss(loss: Loss, data: LossInputs, values: Tensor) -> LossTerms:
    on = data.weights != 0
    zero = torch.zeros((), dtype=torch.float64, device=values.device)
    pick = lambda x: torch.where(on, x.double(), zero)  # noqa: E731
    weights, value, target = pick(data.weights), pick(values), pick(_needed(data.returns, "returns"))
    terms = LossTerms(zero, zero, None, on.sum())
    metric = lambda name, numbers: terms.metrics.__setitem__(name, (pick(numbers).sum(), on.sum()))  # noqa: E731
    error = value - target
    worst, slope = error, error
    clip = loss.get("clip")
    if clip is not None:
        old = pick(_needed(data.old_values, "oldValues"))
        bounded = torch.minimum(torch.maximum(value, old - clip), old + clip) - target
        clipped = bounded * bounded > error * error
        # A clipped value is a constant: nothing to learn from.
        worst, slope = torch.where(clipped, bounded, error), torch.where(clipped, 0.0, error)
        metric("clip_value", clipped)
    metric("value", value)
    metric("return", target)
    metric("value_error", error * error)
    terms.loss = (weights * 0.5 * worst * worst).sum()
    terms.slopes = weights * slope
    return terms


def _needed(values: Tensor | None, name: str) -> Tensor:
    if values is None:
        raise ValueError(f"The loss needs {name} on every datum.")
    return values
