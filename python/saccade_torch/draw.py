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

    def uniforms(self, count: int) -> np.ndarray:
        return np.random.default_rng(self.seed).random(count)


def draw(logprobs: Tensor, uniform: Tensor, greedy: Tensor) -> Tensor:
    """One id for each row [rows, vocabulary]; `uniform` [rows] in double. No number leaves the device."""
    summed = logprobs.double().exp().cumsum(-1)
    drawn = torch.searchsorted(summed, uniform[:, None], right=True)[:, 0]
    # Rounding may leave the sum a little under 1; then the last possible id takes the rest.
    last = torch.searchsorted(summed, summed[:, -1:].contiguous())[:, 0]
    return torch.where(greedy, logprobs.argmax(-1), torch.minimum(drawn, last))


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
