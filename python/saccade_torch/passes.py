"""A pass of a sampler over the network: rows of some sequences, over what their slots of the cache hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .attention import cached_attention, dense, uses_varlen
from .compiled import compiled
from .draw import SamplingParams, choose
from .features import FeatureCache
from .kv_cache import Held, KvCache
from .modules import TextLayer, join
from .network import Features, Network, Tokens
from .scores import add_into, capped, token_scores, wide_product

try:
    from .kernels import gate, normed, turned

    HAS_KERNELS = True
except ImportError:  # No Triton, no CUDA.
    HAS_KERNELS = False


@dataclass
class Sample:
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stop_reason: str = "length"
    raw: list[float] = field(default_factory=list)
    prompt: np.ndarray | None = None
    top: list[list[tuple[int, float]]] = field(default_factory=list)
    cached: int = 0
    """Prompt ids that were in the cache."""


@dataclass(eq=False)
class Request:
    """`done` is called once, with a sample or an error; `on_token` after each id."""

    sequence: str
    input: Tokens
    params: SamplingParams
    done: Callable[[Sample | BaseException], None]
    on_token: Callable[[int, float], None] | None = None
    on_seen: Callable[[], None] | None = None


@dataclass(eq=False)
class Active:
    request: Request
    held: Held
    positions: np.ndarray
    """[3, prompt]; sampled ids stand at `after`, `after` + 1, …"""
    after: int
    uniforms: np.ndarray
    limit: int
    sample: Sample
    over: bool = False

    @property
    def prompt_left(self) -> int:
        return max(0, len(self.request.input.ids) - self.held.filled)


@dataclass(frozen=True)
class Run:
    """The next ids of a sequence: rows from..to of its slot."""

    active: Active
    start: int
    end: int

    @property
    def inside(self) -> bool:
        """In the prompt; else it is one sampled id."""
        return self.start < len(self.active.request.input.ids)

    def ids(self) -> np.ndarray | int:
        return self.active.request.input.ids[self.start : self.end] if self.inside else self.active.sample.ids[-1]

    def positions(self) -> np.ndarray | int:
        if self.inside:
            return self.active.positions[:, self.start : self.end]
        return self.active.after + self.start - self.active.positions.shape[1]


@dataclass(frozen=True)
class Drawn:
    """Ids with their log-probabilities [2, rows], and what they were drawn from."""

    answers: Tensor
    logits: Tensor
    inverse: Tensor
    total: Tensor

    def row(self, i: int, bias: Tensor) -> Tensor:
        """All log-probabilities of one row."""
        return self.logits[i] * self.inverse[i] + bias - self.total[i]


Attend = Callable[[int, Tensor], Tensor]


class Passes:
    def __init__(self, network: Network, cache: KvCache, seen: FeatureCache, fast: bool, compile: bool) -> None:
        self.network, self.cache, self.seen = network, cache, seen
        plain = True
        if fast:
            for layer in network.language.layers:
                joined = (join(layer.self_attn, ("q_proj", "k_proj", "v_proj")), join(layer.mlp, ("gate_proj", "up_proj")))
                plain = plain and all(joined) and all(isinstance(x, torch.nn.Linear) and x.bias is None for x in (layer.self_attn.o_proj, layer.mlp.down_proj))
        self.fused = fast and plain and HAS_KERNELS and network.head_dim & (network.head_dim - 1) == 0
        ready = compiled if fast and compile else lambda function: function
        self.project, self.finish, self.choose = ready(TextLayer.project), ready(TextLayer.finish), ready(choose)

    def through(self, index: int, x: Tensor, cos: Tensor, sin: Tensor, slots: Tensor, places: Tensor, attend: Attend) -> Tensor:
        """One layer; keys and values of these rows go into the cache. `x` may be written over."""
        layer: Any = self.network.language.layers[index]
        keys, values = self.cache.keys[index], self.cache.values[index]
        if not self.fused:
            q, k, v = self.project(layer, x, cos, sin)
            keys[slots, places] = k
            values[slots, places] = v
            return self.finish(layer, x, attend(index, q))
        attention, mlp, before, after = layer.self_attn, layer.mlp, layer.input_layernorm, layer.post_attention_layernorm
        compute = self.network.compute
        qkv = torch.nn.functional.linear(normed(x, before.weight, before.variance_epsilon, compute), attention.joined, getattr(attention, "joined_bias", None))
        scales = (attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None
        epsilon = attention.q_norm.variance_epsilon if scales else 0.0
        q = turned(qkv, scales, epsilon, cos, sin, slots, places, keys, values, qkv.shape[1] // self.network.head_dim - 2 * keys.shape[2])
        add_into(x, attend(index, q).flatten(1), attention.o_proj.weight.T)
        wide = torch.nn.functional.linear(normed(x, after.weight, after.variance_epsilon, compute), mlp.joined)
        add_into(x, gate(wide), mlp.down_proj.weight.T)
        return x

    def hidden(self, runs: Sequence[Run]) -> Tensor:
        """Rows of all runs, before the last norm; their keys and values go into the cache."""
        network = self.network
        counts = [run.end - run.start for run in runs]
        table = np.empty((6, sum(counts)), dtype=np.int64)
        at = 0
        for run, count in zip(runs, counts):
            part = table[:, at : at + count]
            part[0], part[1:4], part[4], part[5] = run.ids(), run.positions(), run.active.held.slot, np.arange(run.start, run.end)
            at += count
        sent = network.to_device(table)
        ids, slots, places = sent[0], sent[4], sent[5]
        features, rows, to = self._features(runs)
        x = network.embed(ids, features, rows, to)
        cos, sin = network.rotary(sent[1:4])
        attend = CachedAttention(self.cache, runs, network)
        for index in range(len(network.language.layers)):
            x = self.through(index, x, cos, sin, slots, places, attend)
            if features is not None and index < len(features.deepstack):
                x.index_add_(0, to, features.deepstack[index][rows].to(x.dtype))
        return x

    def draw(self, hidden: Tensor, inverse: Tensor, uniform: Tensor, greedy: Tensor) -> Drawn:
        """One id for each row."""
        rows = self._last(hidden)
        logits = capped(wide_product(rows, self.network.output_weight().T), self.network.cap)
        chosen, logprob, total = self.choose(logits, inverse, self.network.bias, uniform, greedy)
        return Drawn(torch.stack([chosen.double(), logprob.double()]), logits, inverse, total)

    def _last(self, hidden: Tensor) -> Tensor:
        if not self.fused:
            return self.network.last(hidden)
        last = self.network.language.norm
        return normed(hidden, last.weight, last.variance_epsilon, self.network.compute)

    def _features(self, runs: Sequence[Run]) -> tuple[Features | None, Tensor, Tensor]:
        """Features of the images that these rows show, and which row shows which."""
        frames, rows, to = [], [], []
        at = used = 0
        for run in runs:
            for span in run.active.request.input.spans:
                first, last = max(span.start, run.start), min(span.start + span.length, run.end)
                if first < last:
                    places = self.network.placeholders(run.active.request.input, span.start, span.length)
                    inside = (places >= first) & (places < last)
                    frames.append(span.frame)
                    rows.append(np.nonzero(inside)[0] + used)
                    to.append(places[inside] - run.start + at)
                    used += len(places)
            at += run.end - run.start
        if not frames:
            nothing = torch.zeros(0, dtype=torch.long, device=self.network.device)
            return None, nothing, nothing
        sent = self.network.to_device(np.stack([np.concatenate(rows), np.concatenate(to)]))
        return self.seen.joined(frames), sent[0], sent[1]

    def score_prompts(self, runs: Sequence[Run], hidden: Tensor) -> None:
        """Log-probabilities of prompt ids, where they were asked for. Vision ids have none: they can't be sampled."""
        if all(run.active.sample.prompt is None for run in runs):
            return
        rows, targets, inverse, into = [], [], [], []
        at = 0
        for run in runs:
            sample, ids = run.active.sample, run.active.request.input.ids
            for i in range(run.start, run.end):
                if sample.prompt is not None and i + 1 < len(ids) and int(ids[i + 1]) not in self.network.banned:
                    rows.append(at + i - run.start)
                    targets.append(int(ids[i + 1]))
                    inverse.append(run.active.request.params.inverse)
                    into.append((sample.prompt, i + 1))
            at += run.end - run.start
        if not rows:
            return
        send = self.network.to_device
        asked = self.network.last(hidden[send(np.array(rows))])
        found, _ = token_scores(
            asked, self.network.output_weight(), send(np.array(targets)), send(np.array(inverse, dtype=np.float32)), self.network.bias, cap=self.network.cap
        )
        for (array, place), value in zip(into, found.tolist()):
            array[place] = value


class CachedAttention:
    """Queries of some runs over what their slots hold."""

    def __init__(self, cache: KvCache, runs: Sequence[Run], network: Network) -> None:
        self.cache = cache
        self.runs = runs
        self.device = network.device
        self.varlen = uses_varlen(network.device, network.compute)
        if self.varlen:
            counts = [run.end - run.start for run in runs]
            starts = [run.active.held.slot * cache.length for run in runs]
            table = np.array([np.cumsum([0, *counts]), [*starts, 0], [*(run.end for run in runs), 0]], dtype=np.int32)
            self.bounds, self.starts, used = network.to_device(table)
            self.used = used[:-1]
            self.longest = max(counts)
            return
        self.single = [(i, run) for i, run in enumerate(runs) if run.end - run.start == 1]
        if self.single:
            longest = max(run.end for _, run in self.single)
            self.slots = network.to_device(np.array([run.active.held.slot for _, run in self.single]))
            ends = network.to_device(np.array([run.end for _, run in self.single]))
            self.mask = (torch.arange(longest, device=self.device) < ends[:, None])[:, None, None]
            self.reach = longest

    def __call__(self, layer: int, q: Tensor) -> Tensor:
        keys, values = self.cache.keys[layer], self.cache.values[layer]
        if self.varlen:
            return cached_attention(q, keys, values, self.bounds, self.starts, self.longest, self.used)
        out = torch.empty_like(q)
        at = 0
        singles: list[int] = []
        for run in self.runs:
            count = run.end - run.start
            if count == 1:
                singles.append(at)
            else:
                k, v = (x[run.active.held.slot, : run.end].transpose(0, 1)[None] for x in (keys, values))
                mask = None
                if run.start:
                    mask = torch.ones(count, run.end, dtype=torch.bool, device=q.device).tril(run.start)
                rows = q[at : at + count].transpose(0, 1)[None]
                out[at : at + count] = dense(rows, k, v, causal=mask is None, mask=mask)[0].transpose(0, 1)
            at += count
        if singles:
            k, v = (x[self.slots, : self.reach].transpose(1, 2) for x in (keys, values))
            out[singles] = dense(q[singles][:, :, None], k, v, mask=self.mask)[:, :, 0]
        return out
