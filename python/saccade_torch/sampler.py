"""Continuous batching over the slots of a key-value cache, for one set of weights. Every tick is one pass over the network: one row for each sequence
that is decoding, and pieces of prompts up to a budget, so that long prompts do not hold up the others. A sequence keeps its slot between turns, and a new
one starts from a copy of the longest prefix that another has (siblings share their prompt). Placeholder ids look alike whatever the picture, so pictures
are compared by key.

Called from one thread. On CUDA, ticks in which every sequence decodes are replayed from a graph, and the next one is on its way before the ids of the last
are read: the device takes them from where it put them. A sequence that turns out to have ended was then computed once too often, into a spare slot or
behind what its own holds.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from .attention import cached_attention, dense, uses_varlen
from .compiled import compiled
from .draw import SamplingParams, choose, draw_kept, keep
from .errors import DataError, EngineError, out_of_memory
from .features import FeatureCache
from .kv_cache import Held, KvCache
from .learner import Datum, Settings, check_datum, compile_layers, run_forward
from .modules import TextLayer, join, norm
from .network import Features, Network, Span, Tokens, deepen
from .rotary import token_positions
from .scores import token_scores, wide_product

try:
    from .decode import attend, supports, write
except ImportError:  # No Triton, no CUDA.
    pass

PREFILL_TOKENS = {"cpu": 512, "cuda": 8192}
PATIENCE = 4
"""Steps that a waiting request lets pass, at most."""


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


class Sampler:
    def __init__(self, network: Network, settings: Settings, version: int = 0, cache_bytes: int | None = None) -> None:
        self.network = network.eval()
        self.settings = settings
        self.version = version
        self.cache = KvCache.of(network, cache_bytes)
        self.seen = FeatureCache(network)
        self.waiting: list[Request] = []
        self.active: list[Active] = []
        self.counts = {"cachedTokens": 0, "prefilledTokens": 0, "decodedTokens": 0}
        self.budget = PREFILL_TOKENS.get(network.device.type, PREFILL_TOKENS["cpu"])
        self.fast = uses_varlen(network.device, network.compute)
        self.steps = Steps(self.fast and settings.compile)
        self.graphs: dict[int, DecodeGraph] = {}
        self.graphs_of = 0
        """The cache's generation that they were captured over."""
        self.patience = 0
        self.pending: Pending | None = None
        """A step that was started and not read."""
        if self.fast:
            for layer in network.language.layers:
                join(layer.self_attn, ("q_proj", "k_proj", "v_proj"))
                join(layer.mlp, ("gate_proj", "up_proj"))
            if settings.compile:
                compile_layers(network)

    def renew(self, version: int) -> None:
        """The weights were overwritten by a later version's."""
        self.version = version
        self.cache.clear()
        self.seen.clear()

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.active)

    def submit(self, request: Request) -> None:
        try:
            self.network.check(request.input)
            if any(other.sequence == request.sequence for other in self._requests()):
                raise EngineError(f'Sequence "{request.sequence}" is already sampling. Wait for it, or name another sequence.')
            if self.network.context - len(request.input.ids) < 1:
                raise EngineError(
                    f"A prompt of {len(request.input.ids)} ids leaves no room in the model's context of {self.network.context}. "
                    "Use fewer turns or smaller pictures."
                )
        except (DataError, EngineError) as problem:
            request.done(problem)
            return
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """What it computed so far is sound and stays."""
        if request in self.waiting:
            self.waiting.remove(request)
        found = next((active for active in self.active if active.request is request), None)
        if found is not None:
            self._end(found, failed=False)

    def release(self, sequence: str) -> None:
        self.cache.release(sequence)

    def close(self) -> None:
        problem = EngineError("The sampler was closed while it sampled. Close it when its samples are done.")
        for request in self._requests():
            request.done(problem)
        self.waiting.clear()
        self.active.clear()
        self.pending = None
        self.cache.clear()

    @torch.no_grad()
    def score(self, data: Sequence[Datum]) -> list[np.ndarray]:
        for datum in data:
            check_datum(datum, self.network)
        return [found for found, _ in run_forward(self.network, data, self.settings, self.seen)]

    @torch.no_grad()
    def tick(self) -> None:
        """One pass over the network, if anything is asked."""
        due = self._due()
        if self.pending is not None:
            ahead = None if due else self._ahead(self.pending)
            self._settle(ahead)
            if ahead is not None:
                return
        if due:
            self._admit()
        runs: list[Run] = []
        budget = self.budget
        for active in self.active:
            left = active.prompt_left
            count = min(left, budget) if left else 1
            budget -= count if left else 0
            if count:
                runs.append(Run(active, active.held.filled, active.held.filled + count))
        if not runs:
            return
        with self._answering(runs):
            self.cache.reach(max(run.end for run in runs))
            self._pass(runs)

    def _due(self) -> bool:
        """Whether waiting requests are taken in now. A pass with a prompt costs as much as several steps from a graph, so a few requests wait for others;
        never long."""
        self.patience -= 1
        if not self.waiting or (self.fast and self.patience > 0 and self.active and 4 * len(self.waiting) < len(self.active)):
            return False
        self.patience = PATIENCE
        return True

    @contextmanager
    def _answering(self, runs: Sequence[Run]) -> Iterator[None]:
        """What breaks is told to all who were part of it."""
        try:
            yield
        except BaseException as problem:
            self.pending = None
            for run in runs:
                if run.active in self.active:
                    self._end(run.active, failed=True).done(_explain(problem))
            if not isinstance(problem, Exception):
                raise

    def _requests(self) -> list[Request]:
        return [*self.waiting, *(active.request for active in self.active)]

    def _admit(self) -> None:
        """Takes waiting requests in, in order, until this tick's budget for prompts is spoken for."""
        room = self.budget - sum(active.prompt_left for active in self.active)
        for request in list(self.waiting):
            if room <= 0:
                return
            # Log-probabilities of the prompt need all of it computed.
            anew = request.params.prompt_logprobs
            length, source = (0, None) if anew else self._prefix(request)
            fresh = request.sequence not in self.cache.held
            if not anew and fresh and any(
                active.prompt_left and shared_prefix(active.request.input, request.input) > length + 1 for active in self.active
            ):
                # A sibling that is computing more of this very prompt will soon have it.
                continue
            try:
                # Its pictures are encoded when first a row of them is computed, all of a tick together.
                held = self._open(request, length, source)
            except Exception as problem:
                self.waiting.remove(request)
                request.done(_explain(problem))
                continue
            if held is None:
                return
            self.waiting.remove(request)
            self._start(request, held, length)
            room -= len(request.input.ids) - length

    def _start(self, request: Request, held: Held, length: int) -> None:
        row = request.input
        grids = [(span.start, *self.network.format.grid(span.frame)) for span in row.spans]
        positions, after = token_positions(len(row.ids), grids, self.network.format.merge)
        limit = min(request.params.max_tokens, self.network.context - len(row.ids))
        sample = Sample(cached=length)
        if request.params.prompt_logprobs:
            sample.prompt = np.zeros(len(row.ids), dtype=np.float32)
        held.active = True
        self.active.append(Active(request, held, positions, after, request.params.uniforms(limit), limit, sample))
        self.counts["cachedTokens"] += length
        self.counts["prefilledTokens"] += len(row.ids) - length
        if request.on_seen is not None:
            request.on_seen()

    def _prefix(self, request: Request) -> tuple[int, Held | None]:
        """The longest part of a prompt that lies in some slot, less its last id, which is always computed for its logits."""

        def length(held: Held) -> int:
            return min(shared_prefix(Tokens(held.ids[: held.filled], held.spans), request.input), len(request.input.ids) - 1)

        own = self.cache.held.get(request.sequence)
        best, source = (length(own), own) if own is not None else (0, None)
        if best == 0:
            # Its own slot has nearly all of a next turn; looking further is for new sequences.
            for held in self.cache.held.values():
                if (found := length(held)) > best:
                    best, source = found, held
        return best, source

    def _open(self, request: Request, length: int, source: Held | None) -> Held | None:
        own = self.cache.held.get(request.sequence)
        if own is None:
            kept = source is not None and not source.active
            if kept:
                source.active = True  # type: ignore[union-attr]
            own = self.cache.take(request.sequence, request.input.ids, request.input.spans)
            if kept:
                source.active = False  # type: ignore[union-attr]
            if own is None:
                return None
            if source is not None and length:
                self.cache.copy(source.slot, own.slot, length)
        elif source is not own and source is not None and length:
            self.cache.copy(source.slot, own.slot, length)
        own.ids, own.spans, own.filled, own.released = request.input.ids, request.input.spans, length, False
        return own

    def _end(self, active: Active, failed: bool) -> Request:
        self.active.remove(active)
        active.over = True
        held, sample = active.held, active.sample
        # What was sampled is part of what the slot holds, as far as it was computed.
        held.ids = np.concatenate([active.request.input.ids, np.array(sample.ids, dtype=np.int32)])
        self.cache.settle(active.request.sequence, failed)
        return active.request

    def _pass(self, runs: Sequence[Run]) -> None:
        if self.fast and all(self._is_step(run) for run in runs):
            self._replay(runs)
            return
        hidden = self._forward(runs)
        for run in runs:
            run.active.held.filled = run.end
        self._score_prompts(runs, hidden)
        lasts = np.cumsum([run.end - run.start for run in runs]) - 1
        ready = [(run.active, last) for run, last in zip(runs, lasts) if run.active.prompt_left == 0]
        if not ready:
            return
        send = self.network.to_device
        rows = norm(self.network.language.norm, hidden[send(np.array([last for _, last in ready]))], self.network.compute)
        actives = [active for active, _ in ready]
        inverse = send(np.array([active.request.params.inverse for active in actives], dtype=np.float32))
        uniform = send(np.array([active.uniforms[len(active.sample.ids)] for active in actives]))
        greedy = send(np.array([active.request.params.temperature == 0 for active in actives]))
        logits = wide_product(rows, self.network.output_weight().T)
        chosen, logprob, total = self.steps.choose(logits, inverse, self.network.bias, uniform, greedy)
        ids, logprobs = torch.stack([chosen.double(), logprob.double()]).tolist()
        self._take(actives, Drawn(logits, inverse, total), range(len(actives)), ids, logprobs)

    def _is_step(self, run: Run) -> bool:
        """One id in, one id drawn, nothing else asked: what graphs can do."""
        active, ids = run.active, run.active.request.input.ids
        if active.request.params.truncates or run.end < len(ids) or run.end - run.start != 1:
            return False
        return run.start >= len(ids) or (active.sample.prompt is None and int(ids[run.start]) not in self.network.banned)

    def _take(self, actives: Sequence[Active], drawn: Drawn, rows: Sequence[int], ids: Sequence[float], logprobs: Sequence[float]) -> None:
        """Adds one id to each sample, from its row; those that end are answered."""
        raw: Tensor | None = None
        if any(active.request.params.raw_logprobs for active in actives):
            raw = drawn.logits + self.network.bias
            raw = raw - torch.logsumexp(raw, -1, keepdim=True)
        for i, active in zip(rows, actives):
            params, sample = active.request.params, active.sample
            id, logprob = int(ids[i]), logprobs[i]
            if not math.isfinite(logprob):
                self._end(active, failed=True).done(
                    EngineError("The model gives no valid distribution: its logits are not finite. Load an earlier checkpoint and lower the learning rate.")
                )
                continue
            kept = keep(drawn.row(i, self.network.bias), params) if params.truncates else None
            if kept is not None:
                place = draw_kept(*kept, active.uniforms[len(sample.ids)])
                id, logprob = int(kept[0][place]), float(kept[1][place])
            sample.ids.append(id)
            sample.logprobs.append(logprob)
            if params.raw_logprobs and raw is not None:
                sample.raw.append(float(raw[i, id]))
            if params.top_logprobs is not None:
                sample.top.append(_likeliest(drawn.row(i, self.network.bias), kept, params.top_logprobs))
            self.counts["decodedTokens"] += 1
            if active.request.on_token is not None:
                active.request.on_token(id, logprob)
            if id in params.stop_ids or self._ends_text(active):
                sample.stop_reason = "stop"
            elif len(sample.ids) < active.limit:
                continue
            self._end(active, failed=False).done(sample)

    def _ends_text(self, active: Active) -> bool:
        stops = active.request.params.stop_strings
        if not stops:
            return False
        # A stop string may begin in earlier ids; an id is at least a byte.
        reach = max(len(stop.encode()) for stop in stops)
        text = text_of(self.network.folder, tuple(active.sample.ids[-reach:]))
        return any(stop in text for stop in stops)

    def _ids(self, run: Run) -> np.ndarray:
        row = run.active.request.input
        if run.start < len(row.ids):
            return row.ids[run.start : run.end]
        return np.array([run.active.sample.ids[-1]], dtype=np.int32)

    def _positions(self, run: Run) -> np.ndarray:
        active = run.active
        count = active.positions.shape[1]
        if run.start < count:
            return active.positions[:, run.start : run.end]
        return np.full((3, 1), active.after + run.start - count, dtype=np.int64)

    def _forward(self, runs: Sequence[Run]) -> Tensor:
        """Hidden rows of all runs, before the last norm; their keys and values go into the cache."""
        network, cache, send = self.network, self.cache, self.network.to_device
        ids = send(np.concatenate([self._ids(run) for run in runs]).astype(np.int64))
        positions = send(np.concatenate([self._positions(run) for run in runs], axis=1))
        slots = send(np.repeat([run.active.held.slot for run in runs], [run.end - run.start for run in runs]))
        places = send(np.concatenate([np.arange(run.start, run.end) for run in runs]))
        features, rows, to = self._features(runs)
        x = network.embed(ids, features, rows, to)
        cos, sin = network.rotary(positions)
        attend = CachedAttention(cache, runs, network)
        for index, layer in enumerate(network.language.layers):
            q, k, v = self.steps.project(layer, x, cos, sin)
            cache.keys[index][slots, places] = k
            cache.values[index][slots, places] = v
            x = self.steps.finish(layer, x, attend(index, q))
            x = deepen(x, features, index, rows, to)
        return x

    def _features(self, runs: Sequence[Run]) -> tuple[Features | None, Tensor, Tensor]:
        """Features of the pictures that these rows show, and which row shows which."""
        frames, rows, to = [], [], []
        at = used = 0
        for run in runs:
            for span in run.active.request.input.spans:
                first, last = max(span.start, run.start), min(span.start + span.length, run.end)
                if first < last:
                    frames.append(span.frame)
                    rows.append(np.arange(first, last) - span.start + used)
                    to.append(np.arange(first, last) - run.start + at)
                    used += span.length
            at += run.end - run.start
        send = self.network.to_device
        join = lambda parts: send(np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64))  # noqa: E731
        return self.seen.joined(frames), join(rows), join(to)

    def _score_prompts(self, runs: Sequence[Run], hidden: Tensor) -> None:
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
        asked = norm(self.network.language.norm, hidden[send(np.array(rows))], self.network.compute)
        found, _ = token_scores(
            asked, self.network.output_weight(), send(np.array(targets)), send(np.array(inverse, dtype=np.float32)), self.network.bias
        )
        for (array, place), value in zip(into, found.tolist()):
            array[place] = value

    def _replay(self, runs: Sequence[Run]) -> None:
        if self.graphs_of != self.cache.generation:
            self.graphs.clear()
            self.graphs_of = self.cache.generation
            # A pool ends with its last graph.
            self.pool = torch.cuda.graph_pool_handle()
        size = next(size for size in BUCKETS if size >= len(runs))
        if size not in self.graphs:
            self.graphs[size] = DecodeGraph(self.network, self.cache, self.steps, size, self.pool)
        graph = self.graphs[size]
        self.pending = Pending(graph, list(runs), *graph.run(runs))
        if any(run.active.request.params.looks_further for run in runs):
            self._settle(None)

    def _ahead(self, pending: Pending) -> list[Run | None] | None:
        """The step after one that was not read yet: the same rows, without those that end there for sure. Nothing, if another batch is better."""
        rows = [
            Run(run.active, run.end, run.end + 1) if run is not None and self._goes_on(run.active) else None for run in pending.runs
        ]
        going = [run for run in rows if run is not None]
        if len(going) < len(self.active) or 2 * len(going) <= pending.graph.size or max(run.end for run in going) > self.cache.length:
            return None
        return rows

    def _goes_on(self, active: Active) -> bool:
        return not active.over and len(active.sample.ids) + 1 < active.limit

    def _settle(self, ahead: list[Run | None] | None) -> None:
        """Reads the step that is pending, after the one ahead is on its way."""
        pending, self.pending = self.pending, None
        assert pending is not None
        runs = [run for run in pending.runs if run is not None]
        with self._answering(runs):
            if ahead is not None:
                self.pending = Pending(pending.graph, ahead, *pending.graph.run(ahead, fresh=False))
            ids, logprobs = pending.read()
            live = [(run, i) for i, run in enumerate(pending.runs) if run is not None and not run.active.over]
            for run, _ in live:
                run.active.held.filled = run.end
            if live:
                self._take([run.active for run, _ in live], pending.drawn, [i for _, i in live], ids, logprobs)
        if self.pending is not None and all(run is None or run.active.over for run in self.pending.runs):
            self.pending = None


class Steps:
    """The parts of a pass, compiled or not."""

    def __init__(self, fast: bool) -> None:
        ready = compiled if fast else lambda function: function
        self.project = ready(TextLayer.project)
        self.finish = ready(TextLayer.finish)
        self.choose = ready(choose)


@dataclass(frozen=True)
class Drawn:
    """What ids were drawn from."""

    logits: Tensor
    inverse: Tensor
    total: Tensor

    def row(self, i: int, bias: Tensor) -> Tensor:
        """All log-probabilities of one row."""
        return self.logits[i] * self.inverse[i] + bias - self.total[i]


@dataclass(frozen=True)
class Pending:
    """A step under way; `runs` by row, none where a row only fills. `answers` [2, rows]: ids and their log-probabilities, on the host after `ready`."""

    graph: DecodeGraph
    runs: list[Run | None]
    drawn: Drawn
    answers: Tensor
    ready: torch.cuda.Event

    def read(self) -> list[list[float]]:
        self.ready.synchronize()
        return self.answers.tolist()  # type: ignore[no-any-return]


class CachedAttention:
    """Queries of some runs over what their slots hold."""

    def __init__(self, cache: KvCache, runs: Sequence[Run], network: Network) -> None:
        self.cache = cache
        self.runs = runs
        self.device = network.device
        self.varlen = uses_varlen(network.device, network.compute)
        if self.varlen:
            counts = [run.end - run.start for run in runs]
            self.bounds = network.to_device(np.cumsum([0, *counts]).astype(np.int32))
            starts = [run.active.held.slot * cache.length for run in runs]
            self.starts = network.to_device(np.array([*starts, 0], dtype=np.int32))
            self.used = network.to_device(np.array([run.end for run in runs], dtype=np.int32))
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


BUCKETS = (4, 16, 32, 64, 128, 256, 512)
"""Up to as many slots as there can be."""


class DecodeGraph:
    """One decoding step of up to `size` sequences, captured. Rows that only fill the batch write into the cache's spare slot."""

    def __init__(self, network: Network, cache: KvCache, steps: Steps, size: int, pool: Any) -> None:
        self.network, self.cache, self.steps, self.size = network, cache, steps, size
        # ids, positions, slots, lengths, inverse temperatures, uniform numbers, greedy: doubles hold them all, and one copy takes them over. Two of each
        # on the host: one step is read while the next is written.
        self.inputs = [torch.zeros(7, size, dtype=torch.float64, pin_memory=True) for _ in range(2)]
        self.outputs = [torch.zeros(2, size, dtype=torch.float64, pin_memory=True) for _ in range(2)]
        self.events = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0
        self.given = self.inputs[0].to(network.device)
        self.given[2] = cache.slots
        self.answers = torch.zeros(2, size, dtype=torch.float64, device=network.device)
        text = network.config.text_config
        self.flash = not supports(network.head_dim, text.num_attention_heads // text.num_key_value_heads)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        # The learner's thread goes on meanwhile.
        with torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local"):
            self.drawn = self._step()

    def run(self, runs: Sequence[Run | None], fresh: bool = True) -> tuple[Drawn, Tensor, torch.cuda.Event]:
        """Starts a step. Not `fresh`: the same rows as the last, whose ids are on the device alone."""
        rows: list[tuple[Any, ...]] = []
        for run in runs:
            if run is None:
                rows.append((0, 0, self.cache.slots, 0, 1.0, 0.0, True))
                continue
            active = run.active
            params, prompt = active.request.params, len(active.request.input.ids)
            inside = run.start < prompt
            id = active.request.input.ids[run.start] if inside else active.sample.ids[-1] if fresh else -1
            position = active.positions[0, run.start] if inside else active.after + run.start - prompt
            rows.append((id, position, active.held.slot, run.start, params.inverse, active.uniforms[run.end - prompt], params.temperature == 0))
        self.turn = 1 - self.turn
        host, answers, ready = self.inputs[self.turn], self.outputs[self.turn], self.events[self.turn]
        filled = host.numpy()
        filled[:, : len(rows)] = np.array(rows, dtype=np.float64).T
        filled[:, len(rows) :] = 0
        filled[2, len(rows) :] = self.cache.slots
        self.given.copy_(host, non_blocking=True)
        self.graph.replay()
        answers.copy_(self.answers, non_blocking=True)
        ready.record()
        return self.drawn, answers, ready

    def _step(self) -> Drawn:
        network, cache = self.network, self.cache
        ids, positions, slots, places, inverse, uniform, greedy = self.given.unbind(0)
        ids = torch.where(ids < 0, self.answers[0], ids).long()
        positions, slots, places, inverse = positions.long(), slots.long(), places.long(), inverse.float()
        x = network.embed(ids, None, ids, ids)
        cos, sin = network.rotary(positions.expand(3, -1))
        used = (places + 1).int()
        for index, layer in enumerate(network.language.layers):
            q, k, v = self.steps.project(layer, x, cos, sin)
            keys, values = cache.keys[index], cache.values[index]
            if self.flash:
                keys.index_put_((slots, places), k)
                values.index_put_((slots, places), v)
                starts = torch.cat([slots * cache.length, slots[:1]]).int()
                bounds = torch.arange(self.size + 1, dtype=torch.int32, device=network.device)
                attended = cached_attention(q, keys, values, bounds, starts, 1, used)
            else:
                write(k, v, keys, values, slots, places)
                attended = attend(q, keys, values, slots, used)
            x = self.steps.finish(layer, x, attended)
        rows = norm(network.language.norm, x, network.compute)
        logits = wide_product(rows, network.output_weight().T)
        chosen, logprob, total = self.steps.choose(logits, inverse, network.bias, uniform, greedy != 0)
        self.answers.copy_(torch.stack([chosen.double(), logprob.double()]))
        return Drawn(logits, inverse, total)


def shared_prefix(a: Tokens, b: Tokens) -> int:
    """How many of the first ids are equal, pictures included."""
    end = min(len(a.ids), len(b.ids))
    differs = np.nonzero(a.ids[:end] != b.ids[:end])[0]
    length = int(differs[0]) if len(differs) else end
    for left, right in _zip_longest(a.spans, b.spans):
        start = min(span.start for span in (left, right) if span is not None)
        if start >= length:
            return length
        same = left is not None and right is not None and (left.start, left.length, left.frame.key) == (right.start, right.length, right.frame.key)
        if not same:
            return start
    return length


def _zip_longest(a: Sequence[Span], b: Sequence[Span]) -> list[tuple[Span | None, Span | None]]:
    count = max(len(a), len(b))
    return [(a[i] if i < len(a) else None, b[i] if i < len(b) else None) for i in range(count)]


def _likeliest(logprobs: Tensor, kept: tuple[Tensor, Tensor] | None, count: int) -> list[tuple[int, float]]:
    ids, values = kept if kept is not None else keep(logprobs, SamplingParams(1, 1.0, 0))
    return list(zip(ids[:count].tolist(), values[:count].tolist()))


def _explain(problem: BaseException) -> BaseException:
    if out_of_memory(problem):
        return EngineError("Memory ran out while sampling. Lower the engine's cacheBytes, or play fewer episodes at once.")
    return problem


@lru_cache(maxsize=2**16)
def text_of(folder: str, ids: tuple[int, ...]) -> str:
    """Replies resemble each other, and reading the same ids again costs more than a step."""
    return str(tokenizer_of(folder).decode(list(ids), skip_special_tokens=False))


@lru_cache(maxsize=8)
def tokenizer_of(folder: str) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
