"""From rows of log-probabilities to ids, equal to src/engine/native/sampling.ts. The i-th draw of a request depends on its seed and i alone, never on
the batch it ran in: one uniform number is held against the summed probabilities in the order of the ids.

Reported log-probabilities are those of the distribution that was sampled: tempered, vision ids removed and, with top-k, top-p or min-p, renormalised
over what is left. Greedy choice (temperature 0) is no draw: it reports the log-probability at temperature 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class SamplingParams:
    max_tokens: int
    temperature: float
    seed: int
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    stop_ids: frozenset[int] = frozenset()
    stop_strings: tuple[str, ...] = ()
    raw_logprobs: bool = False
    prompt_logprobs: bool = False
    top_logprobs: int | None = None

    @staticmethod
    def read(given: Mapping[str, Any]) -> SamplingParams:
        get = given.get
        return SamplingParams(
            max_tokens=given["maxTokens"],
            temperature=given["temperature"],
            seed=given["seed"],
            top_k=get("topK"),
            top_p=get("topP"),
            min_p=get("minP"),
            stop_ids=frozenset(get("stopIds") or ()),
            stop_strings=tuple(get("stopStrings") or ()),
            raw_logprobs=bool(get("rawLogprobs")),
            prompt_logprobs=bool(get("promptLogprobs")),
            top_logprobs=get("topLogprobs"),
        )

    @property
    def inverse(self) -> float:
        """1 / the temperature at which log-probabilities are reported."""
        return 1.0 if self.temperature == 0 else 1 / self.temperature

    @property
    def truncates(self) -> bool:
        return self.temperature > 0 and (self.top_k is not None or (self.top_p or 1) < 1 or (self.min_p or 0) > 0)

    @property
    def looks_further(self) -> bool:
        """More is asked of a step than its id."""
        return self.raw_logprobs or self.top_logprobs is not None

    def uniforms(self, count: int) -> np.ndarray:
        return np.random.default_rng(self.seed).random(count)


BLOCK = 128


def draw(z: Tensor, uniform: Tensor, greedy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One id for each row of tempered logits [rows, vocabulary], its log-probability, and log Z; `uniform` [rows] in double. No number leaves the device.
    Probabilities are summed block by block, and then inside the block where the uniform number falls: the rows are read once, not written."""
    total = torch.logsumexp(z, -1)
    blocks = F.pad(z, (0, -z.shape[1] % BLOCK), value=float("-inf")).unflatten(1, (-1, BLOCK))
    upto = torch.exp(blocks - total[:, None, None]).double().sum(-1).cumsum(-1)
    # Rounding may leave the sum a little under 1; then the last possible id takes the rest.
    at = torch.minimum(uniform[:, None], upto[:, -1:] * (1 - 1e-15))
    block = torch.searchsorted(upto, at, right=True)
    before = torch.where(block > 0, upto.gather(1, (block - 1).clamp(min=0)), 0.0)
    inside = torch.exp(blocks.gather(1, block[..., None].expand(-1, -1, BLOCK))[:, 0] - total[:, None]).double().cumsum(-1)
    place = torch.searchsorted(inside, torch.minimum(at - before, inside[:, -1:] * (1 - 1e-15)), right=True)
    chosen = torch.where(greedy, z.argmax(-1), (block * BLOCK + place)[:, 0])
    return chosen, z.gather(1, chosen[:, None])[:, 0] - total, total


def choose(logits: Tensor, inverse: Tensor, bias: Tensor, uniform: Tensor, greedy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`draw` from logits that are not tempered yet; `bias` [vocabulary] is −∞ where an id can't be sampled."""
    return draw(logits * inverse[:, None] + bias, uniform, greedy)


def keep(logprobs: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor]:
    """Of one row: ids, likeliest first, and their renormalised log-probabilities. Top-k, then the smallest set with top-p of what is left, then
    min-p relative to the likeliest."""
    values, ids = torch.sort(logprobs, descending=True, stable=True)
    possible = values > float("-inf")
    values, ids = values[possible], ids[possible]
    if params.top_k is not None:
        values, ids = values[: params.top_k], ids[: params.top_k]
    if params.top_p is not None and params.top_p < 1:
        summed = values.double().exp().cumsum(-1)
        count = int((summed < params.top_p * summed[-1]).sum()) + 1
        values, ids = values[:count], ids[:count]
    if params.min_p:
        enough = values >= values[0] + float(np.log(params.min_p))
        values, ids = values[enough], ids[enough]
    return ids, (values.double() - torch.logsumexp(values.double(), -1)).float()


def draw_kept(ids: Tensor, logprobs: Tensor, uniform: float) -> int:
    """Which of the kept ids."""
    summed = logprobs.double().exp().cumsum(-1)
    place = int(torch.searchsorted(summed, torch.tensor(uniform, dtype=torch.float64, device=summed.device), right=True))
    return min(place, len(ids) - 1)
