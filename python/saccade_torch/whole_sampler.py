"""Sampling from a model that nobody described: transformers' generation with the model's own cache, a batch of requests at a time. Ids are drawn as everywhere
else; each turn computes its whole prompt again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .draw import choose
from .features import FeatureCache
from .kv_cache import Held, KvCache
from .learner import Settings
from .network import Network, Tokens
from .passes import Active, Drawn, Request, Sample
from .sampler import Sampler, _explain
from .scores import score_rows
from .whole import WholeNetwork


def sampler_of(network: Network, settings: Settings, version: int = 0, cache_bytes: int | None = None) -> Sampler:
    return (WholeSampler if isinstance(network, WholeNetwork) else Sampler)(network, settings, version, cache_bytes)


class WholeSampler(Sampler):
    network: WholeNetwork  # type: ignore[assignment]

    def __init__(self, network: Any, settings: Settings, version: int = 0, cache_bytes: int | None = None) -> None:
        from transformers import GenerationConfig

        self.network, self.settings, self.version = network.eval(), settings, version
        # What a folder says of sampling must not bend what is drawn.
        network.model.generation_config = GenerationConfig()
        self.cache, self.seen = KvCache.of(network, cache_bytes), FeatureCache(network)
        self.waiting: list[Request] = []
        self.active: list[Active] = []
        self.counts = {"cachedTokens": 0, "prefilledTokens": 0, "decodedTokens": 0}
        self.flight, self.owed = None, []

    @torch.no_grad()
    def tick(self) -> None:
        if not self.waiting:
            return
        batch = [self.waiting[i] for i in self.network.batches([request.input for request in self.waiting], left=True)[0]]
        try:
            batch = batch if self._fits([request.input for request in batch]) else batch[:1]
        except Exception as problem:
            self.waiting = [request for request in self.waiting if request not in batch]
            for request in batch:
                request.done(_explain(problem))
            return
        self.waiting = [request for request in self.waiting if request not in batch]
        for request in batch:
            limit = min(request.params.max_tokens, self.network.context - len(request.input.ids))
            held = Held(-1, np.zeros(0, dtype=np.int64), filled=len(request.input.ids))
            try:
                self.active.append(Active(request, held, np.zeros((3, 0)), 0, request.params.uniforms(limit), limit, Sample()))
            except Exception as problem:
                request.done(_explain(problem))
                continue
            self.counts["prefilledTokens"] += len(request.input.ids)
            if request.on_seen is not None:
                request.on_seen()
        actives = list(self.active)
        if not actives:
            return
        with self._answering(actives):
            for active in actives:
                if active.request.params.prompt_logprobs:
                    active.sample.prompt = self._prompt(active.request)
            inputs = self.network.inputs([active.request.input for active in actives], left=True)
            with self.network.narrow():
                self.network.model.generate(
                    **inputs, do_sample=False, max_new_tokens=max(active.limit for active in actives), pad_token_id=0, use_cache=True,
                    logits_processor=[lambda _, logits: self._step(actives, logits)],
                    stopping_criteria=[lambda ids, _: torch.full((len(ids),), not self.active, device=ids.device)],
                )  # fmt: skip

    def _fits(self, sequences: list[Tokens]) -> bool:
        """Whether these may be sampled together. The first time two ids are drawn to see: padding stands before a prompt here, and moves what follows it."""
        network = self.network
        known = network.fits.get((True, bool(sequences[0].spans)))
        if len(sequences) == 1 or known is not None:
            return known is not False
        steps: list[Tensor] = []

        def look(_: Any, logits: Tensor) -> Tensor:
            steps.append(logits.float() + network.bias)
            return steps[-1]

        with network.narrow():
            inputs = network.inputs(sequences, left=True)
            network.model.generate(**inputs, do_sample=False, max_new_tokens=2, pad_token_id=0, use_cache=True, logits_processor=[look])
        apart = []
        for sequence, drawn in zip(sequences, steps[0].argmax(-1).tolist()):
            longer = Tokens(np.append(sequence.ids, drawn).astype(sequence.ids.dtype), sequence.spans)
            apart.append(network.rows([longer])[0][-2:])
        seen = network.bias == 0
        joined = torch.stack(steps, 1).flatten(0, 1)
        return network.compare(True, sequences, joined[:, seen], torch.cat(apart)[:, seen])

    def _step(self, actives: list[Active], logits: Tensor) -> Tensor:
        """Draws an id for each sequence, and leaves generation no other."""
        logits = logits.float()
        live = [(i, active) for i, active in enumerate(actives) if not active.over]
        told = [
            (active.request.params.inverse, active.uniforms[min(len(active.sample.ids), active.limit - 1)], active.request.params.temperature == 0) for active in actives
        ]
        inverse, uniform, greedy = self.network.to_device(np.array(told, dtype=np.float64).T)
        chosen, logprob, total = choose(logits, inverse.float(), self.network.bias, uniform, greedy != 0)
        drawn = Drawn(torch.stack([chosen.double(), logprob.double()]), logits, inverse.float(), total)
        ids, logprobs = drawn.answers.tolist()
        self._take([active for _, active in live], drawn, [i for i, _ in live], ids, logprobs)
        # Top-k and top-p may have drawn another.
        for i, active in live:
            chosen[i] = active.sample.ids[-1] if active.sample.ids else 0
        return torch.full_like(logits, float("-inf")).scatter_(1, chosen[:, None], 0.0)

    def _prompt(self, request: Request) -> np.ndarray:
        """Log-probabilities of prompt ids; vision ids have none."""
        ids = self.network.to_device(request.input.ids.astype(np.int64))
        logits = self.network.rows([request.input])[0][:-1].float()
        inverse = torch.full((len(ids) - 1,), request.params.inverse, device=ids.device)
        found, _, _ = score_rows(logits, inverse, self.network.bias.clamp(min=-1e30), ids[1:].clamp(max=self.network.vocabulary - 1))
        banned = np.isin(request.input.ids[1:], list(self.network.banned))
        return np.concatenate([[0], np.where(banned, 0, found.cpu().numpy())]).astype(np.float32)

    def _end(self, active: Active, failed: bool) -> Request:
        self.active.remove(active)
        active.over = True
        return active.request
