"""Continuous batching over the slots of a key-value cache, for one set of weights. A tick is one pass over the network: pieces of prompts up to a budget, so that
long prompts do not hold up the others, and on the CPU one row for each sequence that is decoding beside them. A sequence keeps its slot between turns, and a
new one starts from a copy of the longest prefix that another has (siblings share their prompt).

Called from one thread. On CUDA prompts go before decoding, pass after pass without waiting for what they draw, and sequences decode from graphs (`decoding.py`).
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import Iterator, Sequence, TypeVar

import numpy as np
import torch
from torch import Tensor

from .attention import uses_varlen
from .decoding import Flight, Graphs
from .draw import SamplingParams, draw_kept, keep
from .errors import EngineError, out_of_memory
from .families import FamilyNetwork
from .family_passes import FamilyPasses
from .features import FeatureCache
from .kv_cache import Held, KvCache, roomy
from .learner import Datum, Settings, check_datum, compile_layers, run_forward
from .network import Network
from .passes import Active, Drawn, Passes, Request, Run, Sample
from .prefixes import shared, signature
from .stops import ends_text

__all__ = ["Request", "Sample", "Sampler"]

PREFILL_TOKENS = {"cpu": 512, "cuda": 8192}
PATIENCE = 4
"""Steps that a waiting request lets pass, at most."""
AHEAD = 128
"""Ids of a reply for which a slot is made long enough before it begins."""
OWED = 8
"""Passes over prompts whose draws are not read yet, at most."""
Problem = TypeVar("Problem", bound=BaseException)


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
        self.fast = network.own and uses_varlen(network.device, network.compute)
        if isinstance(network, FamilyNetwork):
            self.passes: Passes = FamilyPasses(network, self.cache, self.seen)
        else:
            self.passes = Passes(network, self.cache, self.seen, self.fast, settings.compile)
        self.graphs = Graphs(self.passes, self.cache)
        self.patience = 0
        self.flight: Flight | None = None
        self.owed: list[tuple[list[Active], Drawn]] = []
        """Who drew in passes whose numbers were not read yet."""
        if self.fast and settings.compile:
            compile_layers(network)

    def renew(self, version: int) -> None:
        """The weights were overwritten by a later version's."""
        self.version = version
        self.cache.clear()
        self.seen.clear()

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.active)

    @property
    def stuck(self) -> bool:
        """Only a release, or time, lets it go on."""
        return bool(self.waiting) and not self.active

    def submit(self, request: Request) -> None:
        try:
            self.network.check(request.input)
            if any(other.sequence == request.sequence for other in self.requests()):
                raise EngineError(f'Sequence "{request.sequence}" is already sampling. Wait for it, or name another sequence.')
            if self.network.context - len(request.input.ids) < 1:
                raise EngineError(
                    f"A prompt of {len(request.input.ids)} ids leaves no room in the model's context of {self.network.context}. "
                    "Use fewer turns or smaller images."
                )
            self._reach(request)
        except Exception as problem:
            # A processor may refuse an image in words of its own.
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
        self.fail(EngineError("The sampler was closed while it sampled. Close it when its samples are done."))

    def fail(self, problem: Exception) -> None:
        """Tells all who wait, and begins anew."""
        told = _explain(problem)
        for request in self.requests():
            request.done(told)
        self.waiting.clear()
        self.active.clear()
        self._drop()
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
        if self.flight is not None:
            with self._answering([active for _, active in self.flight.rows]):
                self._fly_on(self.flight, due)
            if not due:
                return
        if due:
            self._admit()
        runs = self._runs()
        with self._answering([run.active for run in runs] + [active for actives, _ in self.owed for active in actives]):
            if runs and (not self.fast or not all(self._is_step(run) for run in runs)):
                self.cache.reach(max(run.end for run in runs))
                self._pass(runs)
                more = self.fast and len(self.owed) < OWED and (self.waiting or any(active.prompt_left for active in self.active))
            else:
                more = False
                if runs and not self.owed:
                    self.flight = self.graphs.fly(runs)
                    self.flight.start()
            if not more:
                self._collect()

    def _fly_on(self, flight: Flight, due: bool) -> None:
        """Reads a step after the next ones are on their way; all steps, if the batch changes."""
        flight.thin()
        if not due:
            flight.start()
        while flight.pending:
            ids, logprobs = flight.read()
            self._take([active for _, active in flight.rows], flight.graph.drawn, [i for i, _ in flight.rows], ids, logprobs)
            flight.thin()
            if not due and flight.pending:
                return
        if due or flight.over:
            self.flight = None

    def _runs(self) -> list[Run]:
        """What a pass computes: prompts, and where they do not go first, or there are none, ids that were drawn."""
        owed = {active for actives, _ in self.owed for active in actives}
        prompts = any(active.prompt_left for active in self.active)
        runs: list[Run] = []
        budget = self.budget
        for active in self.active:
            left = active.prompt_left
            if active in owed or (self.fast and prompts and not left):
                continue
            # Where placeholders see each other both ways, an image must not be cut: its whole prompt goes at once.
            count = min(left, budget) if self.network.cuts else left * (budget > 0)
            count = count if left else 1
            budget -= count if left else 0
            if count:
                runs.append(Run(active, active.held.filled, active.held.filled + count))
        return runs

    def _due(self) -> bool:
        """Whether waiting requests are taken in now. A pass with a prompt costs as much as several steps from a graph, so a few requests wait for others;
        never long."""
        self.patience -= 1
        ready = self._ready()
        if not ready or (self.fast and self.patience > 0 and self.active and 4 * ready < len(self.active)):
            return False
        self.patience = PATIENCE
        return True

    def _ready(self) -> int:
        """How many could be taken in. Those that get no slot yet change nothing, and decoding must not stop for them."""
        if not self.waiting or not self._fits(self.waiting[0]):
            return 0
        return len(self.waiting) if self.cache.room() else sum(request.sequence in self.cache.held for request in self.waiting)

    @contextmanager
    def _answering(self, actives: Sequence[Active]) -> Iterator[None]:
        """What breaks is told to all who were part of it."""
        try:
            yield
        except BaseException as problem:
            self._drop()
            for active in actives:
                if active in self.active:
                    self._end(active, failed=True).done(_explain(problem))
            if not isinstance(problem, Exception):
                raise

    def _drop(self) -> None:
        self.flight = None
        self.owed.clear()

    def requests(self) -> list[Request]:
        return [*self.waiting, *(active.request for active in self.active)]

    def _admit(self) -> None:
        """Takes waiting requests in, in order, until this tick's budget for prompts is spoken for. Where slots run short, those that have one go on."""
        room = self.budget - sum(active.prompt_left for active in self.active)
        late: list[Request] = []
        full = False
        while self.waiting and room > 0:
            request = self.waiting.pop(0)
            if not self._fits(request):
                late.append(request)
                break
            if full and request.sequence not in self.cache.held:
                late.append(request)
                continue
            signed = signature(request.input)
            # Log-probabilities of the prompt need all of it computed.
            length, source = (0, None) if request.params.prompt_logprobs else self._prefix(request, signed)
            if source is not None and source.computing and length < shared(source.signature, signed):
                # A sibling that is computing more of this very prompt will soon have it.
                late.append(request)
                continue
            try:
                # Its images are encoded when first a row of them is computed, all of a tick together.
                held = self._open(request, signed, length, source)
                if held is not None:
                    self._start(request, held, length)
            except Exception as problem:
                self.cache.drop(request.sequence)
                request.done(_explain(problem))
                continue
            if held is None:
                late.append(request)
                full = True
                continue
            room -= len(request.input.ids) - length
        self.waiting = late + self.waiting

    def _reach(self, request: Request) -> int:
        """Ids for which its slot should have room."""
        count = len(request.input.ids)
        return count + min(request.params.max_tokens, self.network.context - count, AHEAD)

    def _fits(self, request: Request) -> bool:
        """Whether its slot is long enough, or all may grow: not while more sequences are computed than there would be longer slots."""
        length = roomy(self._reach(request))
        return length <= self.cache.length or len(self.active) < self.cache.most(length)

    def _start(self, request: Request, held: Held, length: int) -> None:
        row = request.input
        positions, after = self.network.positions(row)
        limit = min(request.params.max_tokens, self.network.context - len(row.ids))
        sample = Sample(cached=length)
        if request.params.prompt_logprobs:
            sample.prompt = np.zeros(len(row.ids), dtype=np.float32)
        held.active = True
        self.cache.reach(self._reach(request))
        self.active.append(Active(request, held, positions, after, request.params.uniforms(limit), limit, sample))
        self.counts["cachedTokens"] += length
        self.counts["prefilledTokens"] += len(row.ids) - length
        if request.on_seen is not None:
            request.on_seen()

    def _prefix(self, request: Request, signed: np.ndarray) -> tuple[int, Held | None]:
        """The longest part of a prompt that lies in some slot, less its last id, which is always computed for its logits."""
        own = self.cache.held.get(request.sequence)
        if self.network.recurrent:
            # A state is of all that was computed, or of nothing.
            goes_on = own is not None and 0 < own.filled <= min(shared(own.signature, signed), len(signed) - 1)
            return (own.filled, own) if own is not None and goes_on else (0, None)
        # Its own slot has nearly all of a next turn; looking further is for new sequences.
        for source in (own, self.cache.prefixes.best(signed)):
            if source is not None:
                length = self._whole(request, min(shared(source.signature, signed), source.filled, len(signed) - 1))
                if length or source.computing:
                    return length, source
        return 0, None

    def _whole(self, request: Request, length: int) -> int:
        """A prefix that ends within no image, where that matters."""
        if self.network.cuts:
            return length
        return next((span.start for span in request.input.spans if span.start < length < span.start + span.length), length)

    def _open(self, request: Request, signed: np.ndarray, length: int, source: Held | None) -> Held | None:
        own = self.cache.held.get(request.sequence)
        if own is None:
            kept = source is not None and not source.active
            if kept:
                source.active = True  # type: ignore[union-attr]
            own = self.cache.take(request.sequence, signed)
            if kept:
                source.active = False  # type: ignore[union-attr]
                # Where only the source can make room, its slot is taken, with what it holds.
                own = own or self.cache.take(request.sequence, signed)
            if own is None:
                return None
        if source is not own and source is not None and length and source.slot != own.slot:
            self.cache.copy(source.slot, own.slot, length)
        own.filled, own.released = length, False
        self.cache.sign(own, signed, len(signed), length if source is own else 0)
        return own

    def _end(self, active: Active, failed: bool) -> Request:
        self.active.remove(active)
        active.over = True
        held, sample = active.held, active.sample
        # What was sampled is part of what the slot holds, as far as it was computed.
        self.cache.sign(held, np.concatenate([held.signature[: held.prompt], np.array(sample.ids, dtype=np.int64)]), held.prompt, held.prompt)
        self.cache.settle(active.request.sequence, failed)
        return active.request

    def _pass(self, runs: Sequence[Run]) -> None:
        """Computes them; whose prompt is complete draws an id."""
        hidden = self.passes.hidden(runs)
        for run in runs:
            run.active.held.filled = run.end
        self.passes.score_prompts(runs, hidden)
        lasts = np.cumsum([run.end - run.start for run in runs]) - 1
        ready = [(run.active, last) for run, last in zip(runs, lasts) if run.active.prompt_left == 0]
        if not ready:
            return
        actives = [active for active, _ in ready]
        told = [(last, active.request.params.inverse, active.uniforms[len(active.sample.ids)], active.request.params.temperature == 0) for active, last in ready]
        rows, inverse, uniform, greedy = self.network.to_device(np.array(told, dtype=np.float64).T)
        self.owed.append((actives, self.passes.draw(hidden[rows.long()], inverse.float(), uniform, greedy != 0)))

    def _collect(self) -> None:
        """Reads what passes drew."""
        while self.owed:
            actives, drawn = self.owed.pop(0)
            ids, logprobs = drawn.answers.tolist()
            live = [(i, active) for i, active in enumerate(actives) if not active.over]
            self._take([active for _, active in live], drawn, [i for i, _ in live], ids, logprobs)

    def _is_step(self, run: Run) -> bool:
        """One id in, one id drawn, nothing else asked: what graphs can do."""
        active, ids = run.active, run.active.request.input.ids
        if active.request.params.truncates or run.end < len(ids) or run.end - run.start != 1:
            return False
        return not run.inside or (active.sample.prompt is None and int(ids[run.start]) not in self.network.banned)

    def _take(self, actives: Sequence[Active], drawn: Drawn, rows: Sequence[int], ids: Sequence[float], logprobs: Sequence[float]) -> None:
        """Adds one id to each sample, from its row; those that end are answered."""
        raw: Tensor | None = None
        if any(active.request.params.raw_logprobs for active in actives):
            raw = drawn.logits + self.network.bias
            raw = raw - torch.logsumexp(raw, -1, keepdim=True)
        for i, active in zip(rows, actives):
            request, sample = active.request, active.sample
            params = request.params
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
            if request.on_token is not None:
                request.on_token(id, logprob)
            if id in params.stop_ids or (params.stop_strings and ends_text(self.network.folder, sample.ids, params.stop_strings)):
                sample.stop_reason = "stop"
            elif len(sample.ids) < active.limit:
                continue
            self._end(active, failed=False).done(sample)
        self.counts["decodedTokens"] += len(actives)


def _likeliest(logprobs: Tensor, kept: tuple[Tensor, Tensor] | None, count: int) -> list[tuple[int, float]]:
    ids, values = kept if kept is not None else keep(logprobs, SamplingParams(1, 1.0, 0))
    return list(zip(ids[:count].tolist(), values[:count].tolist()))


def _explain(problem: Problem) -> Problem | EngineError:
    if out_of_memory(problem):
        return EngineError("Memory ran out while sampling. Lower the engine's cacheBytes, or play fewer episodes at once.")
    return problem
