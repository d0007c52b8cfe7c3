"""A pass of a sampler over a family's own layers. The cache is the worker's: our attention writes the keys and values of a layer into the slots, and reads
what the slots hold, so turns are appended and sequences batched as they are for our own network. No kernels of ours: right before fast.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
import torch
from torch import Tensor

from .attention import dense
from .draw import choose
from .families import FamilyNetwork, visible
from .features import FeatureCache
from .kv_cache import KvCache
from .passes import Passes, Run


class FamilyPasses(Passes):
    def __init__(self, network: FamilyNetwork, cache: KvCache, seen: FeatureCache) -> None:
        self.network, self.cache, self.seen = network, cache, seen  # type: ignore[assignment]
        self.fused = False
        self.choose = choose

    def hidden(self, runs: Sequence[Run]) -> Tensor:
        network: FamilyNetwork = self.network  # type: ignore[assignment]
        counts = [run.end - run.start for run in runs]
        ids = np.concatenate([np.atleast_1d(run.ids()) for run in runs]).astype(np.int64)
        places = np.concatenate([np.arange(run.start, run.end) for run in runs])
        slots = np.repeat([run.active.held.slot for run in runs], counts)
        sent = network.to_device(np.stack([ids, places, slots]))
        x = network.embed(sent[0], *self._features(runs))
        return network.through(x, sent[1], CachedRows(self.cache, network, runs, sent[2], sent[1]))


class CachedRows:
    """Answers the attention of a layer: rows of some runs over what their slots hold."""

    def __init__(self, cache: KvCache, network: FamilyNetwork, runs: Sequence[Run], slots: Tensor, places: Tensor) -> None:
        self.cache, self.runs, self.slots, self.places = cache, runs, slots, places
        counts = [run.end - run.start for run in runs]
        starts = np.cumsum([0, *counts[:-1]])
        self.spans = [(run, int(start), count) for run, start, count in zip(runs, starts, counts) if count > 1]
        single = [int(start) for start, count in zip(starts, counts) if count == 1]
        self.single = network.to_device(np.array(single, dtype=np.int64))
        self.reach = max(run.end for run in runs)
        two_way = network.family is not None and network.family.two_way
        self.groups = {run: network.to_device(groups_of(network, run)) for run, *_ in self.spans} if two_way else {}

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None, window: int | None) -> Tensor:
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.slots, self.places] = k.to(keys.dtype)
        values[self.slots, self.places] = v.to(values.dtype)
        out = torch.empty_like(q)
        for run, start, count in self.spans:
            rows = slice(start, start + count)
            mask = visible(self.places[rows], run.end, window, self.groups.get(run))
            held = (x[run.active.held.slot, : run.end].transpose(0, 1)[None].to(q.dtype) for x in (keys, values))
            out[rows] = dense(q[rows].transpose(0, 1)[None], *held, mask=mask, scale=scale)[0].transpose(0, 1)
        if len(self.single):
            # Sampled ids: one row each, all sequences at once.
            at = self.places[self.single]
            to = torch.arange(self.reach, device=q.device)
            mask = to[None] <= at[:, None]
            if window is not None:
                mask &= to[None] > at[:, None] - window
            held = (x[self.slots[self.single], : self.reach].transpose(1, 2).to(q.dtype) for x in (keys, values))
            out[self.single] = dense(q[self.single][:, :, None], *held, mask=mask[:, None, None], scale=scale)[:, :, 0]
        return out


def groups_of(network: FamilyNetwork, run: Run) -> np.ndarray:
    """[end]: the number of the picture that a placeholder belongs to, −1 elsewhere."""
    groups = np.full(run.end, -1, dtype=np.int64)
    row = run.active.request.input
    for number, span in enumerate(row.spans):
        if span.start < run.end:
            groups[network.placeholders(row, span.start, span.length)] = number
    return groups
