"""A pass of a sampler over a family's own layers. The cache is the worker's: our attention writes the keys and values of a layer into the slots, and reads
what the slots hold, so turns are appended and sequences batched as they are for our own network. No kernels of ours: right before fast.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor

from .attention import dense
from .draw import choose
from .families import FamilyNetwork
from .family_attention import Carried, visible
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
        positions = np.concatenate([np.broadcast_to(run.positions(), (3, count)) for run, count in zip(runs, counts)], axis=1)
        sent = network.to_device(np.concatenate([np.stack([ids, places, slots]), positions]))
        return network.through(sent[0], sent[3:], *self._features(runs), CachedRows(self.cache, network, runs, sent[2], sent[1]))


class CachedRows:
    """Answers the attention of a layer: rows of some runs over what their slots hold."""

    def __init__(self, cache: KvCache, network: FamilyNetwork, runs: Sequence[Run], slots: Tensor, places: Tensor) -> None:
        self.cache, self.network, self.runs, self.slots, self.places = cache, network, runs, slots, places
        counts = [run.end - run.start for run in runs]
        starts = np.cumsum([0, *counts[:-1]])
        self.spans = [(run, int(start), count) for run, start, count in zip(runs, starts, counts) if count > 1]
        self.steps = [(run, int(start)) for run, start, count in zip(runs, starts, counts) if count == 1]
        self.single = network.to_device(np.array([start for _, start in self.steps], dtype=np.int64))
        self.reach = max(run.end for run in runs)
        self.groups = {run: network.to_device(groups_of(network, run)) for run, *_ in self.spans} if network.two_way else {}

    def attend(self, module: Any, q: Tensor, k: Tensor, v: Tensor, scale: float | None, window: int | None) -> Tensor:
        layer = self.network.caches[module.layer_idx][0]
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        keys[self.slots, self.places] = k.to(keys.dtype)
        values[self.slots, self.places] = v.to(values.dtype)
        out = torch.empty_like(q)
        groups = self.groups if self.network.two_way == "all" or window is not None else {}
        for run, start, count in self.spans:
            rows = slice(start, start + count)
            mask = visible(self.places[rows], run.end, window, groups.get(run))
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

    def recur(self, module: Any, forward: Any, x: Tensor) -> Tensor:
        """Pieces of prompts one by one, sampled ids all at once, each from the state of its sequence."""
        out = torch.empty_like(x)
        for run, start, count in self.spans:
            out[:, start : start + count] = self._carry(module.layer_idx, [run], forward, x[:, start : start + count])
        fresh = [(run, start) for run, start in self.steps if run.start == 0]
        for steps in (fresh, [step for step in self.steps if step not in fresh]):
            if steps:
                rows = [start for _, start in steps]
                out[0, rows] = self._carry(module.layer_idx, [run for run, _ in steps], forward, x[0, rows][:, None])[:, 0]
        return out

    def _carry(self, layer: int, runs: Sequence[Run], forward: Any, x: Tensor) -> Tensor:
        holders = [run.active.held for run in runs]
        carried = Carried(layer, [held.states[layer] for held in holders] if runs[0].start else None)
        out: Tensor = forward(x, cache_params=carried)
        for held, state in zip(holders, carried.apart()):
            held.states[layer] = state
        return out


def groups_of(network: FamilyNetwork, run: Run) -> np.ndarray:
    """[end]: the number of the image that a placeholder belongs to, −1 elsewhere."""
    groups = np.full(run.end, -1, dtype=np.int64)
    row = run.active.request.input
    for number, span in enumerate(row.spans):
        if span.start < run.end:
            groups[network.placeholders(row, span.start, span.length)] = number
    return groups
