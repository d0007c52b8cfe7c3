"""Decoding on CUDA. A step of a batch is captured as a graph in which everything happens on the device: what a step draws, the next one takes from where it
lies, lengths and positions count themselves up, and uniform numbers of the next steps are there beforehand. The host only starts steps, some ahead of what it
has read, and reads ids later. A sequence that turns out to have ended was then computed a few times too often, behind what its slot holds."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import torch

from .attention import bucket, cached_attention
from .kv_cache import KvCache
from .passes import Active, Drawn, Passes, Run

try:
    from .decode import CHUNK, attend, supports
except ImportError:  # No Triton, no CUDA.
    CHUNK = 512

SIZES = (4, 16, 32, 64, 128, 256, 512)
"""Of batches, up to as many as there can be slots."""
SPAN = 64
"""Steps for which uniform numbers are sent at once."""
AHEAD = 4
"""Steps under way at most."""
ID, POSITION, SLOT, PLACE, INVERSE, GREEDY, LEFT, UNIFORM = range(8)
"""Rows of the table of a batch; doubles hold them all, and one copy takes them over."""


def size_for(rows: int) -> int:
    return next(size for size in SIZES if size >= rows)


class DecodeGraph:
    """One step of up to `size` sequences of at most `reach` ids. Rows that only fill the batch, or have drawn all they may, write into the cache's spare slot."""

    def __init__(self, passes: Passes, cache: KvCache, size: int, reach: int, pool: Any) -> None:
        self.passes, self.cache, self.size, self.reach = passes, cache, size, reach
        network = passes.network
        self.given = torch.zeros(UNIFORM + SPAN, size, dtype=torch.float64, device=network.device)
        self.turn = torch.zeros(1, dtype=torch.long, device=network.device)
        self.answers = torch.zeros(2, size, dtype=torch.float64, device=network.device)
        pinned = network.device.type == "cuda"
        self.host = torch.zeros(self.given.shape, dtype=torch.float64, pin_memory=pinned)
        self.read = [torch.zeros(2, size, dtype=torch.float64, pin_memory=pinned) for _ in range(AHEAD)]
        self.events = [torch.cuda.Event() for _ in range(AHEAD)]
        text = network.config.text_config
        self.flash = not supports(network.head_dim, text.num_attention_heads // text.num_key_value_heads)
        self._capture(pool)

    def _capture(self, pool: Any) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # The learner's thread goes on meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            self.drawn = self._step()
        self.replay = graph.replay

    def load(self, runs: Sequence[Run]) -> None:
        """Another batch. Nothing of this graph may be under way."""
        table = self.host.numpy()
        table[:] = 0
        for i, run in enumerate(runs):
            active, drawn = run.active, len(run.active.sample.ids)
            params = active.request.params
            position = active.positions[0, run.start] if run.inside else run.positions()
            id = active.request.input.ids[run.start] if run.inside else active.sample.ids[-1]
            table[:UNIFORM, i] = id, position, active.held.slot, run.start, params.inverse, params.temperature == 0, active.limit - drawn
            ahead = active.uniforms[drawn : drawn + SPAN]
            table[UNIFORM : UNIFORM + len(ahead), i] = ahead
        self.given.copy_(self.host, non_blocking=True)
        self.turn.zero_()

    def start(self, step: int) -> None:
        """Starts the next step."""
        self.replay()
        self.read[step % AHEAD].copy_(self.answers, non_blocking=True)
        self.events[step % AHEAD].record()

    def wait(self, step: int) -> list[list[float]]:
        """Ids and log-probabilities of a step."""
        self.events[step % AHEAD].synchronize()
        return self.read[step % AHEAD].tolist()  # type: ignore[no-any-return]

    def _step(self) -> Drawn:
        passes, network, cache = self.passes, self.passes.network, self.cache
        given = self.given
        live = given[LEFT] > 0
        ids = torch.where(given[ID] < 0, self.answers[0], given[ID]).long()
        slots = torch.where(live, given[SLOT], cache.slots).long()
        places = torch.where(live, given[PLACE], 0).long()
        uniform = given[UNIFORM:].index_select(0, self.turn.clamp(max=SPAN - 1))[0]
        x = network.embed(ids, None, ids, ids)
        cos, sin = network.rotary(given[POSITION].long().expand(3, -1))
        used = (places + 1).int()
        if self.flash:
            starts = torch.cat([slots * cache.length, slots[:1]]).int()
            bounds = torch.arange(self.size + 1, dtype=torch.int32, device=network.device)
            seen = lambda index, q: cached_attention(q, cache.keys[index], cache.values[index], bounds, starts, 1, used)  # noqa: E731
        else:
            seen = lambda index, q: attend(q, cache.keys[index], cache.values[index], slots, used, self.reach)  # noqa: E731
        for index in range(len(network.language.layers)):
            x = passes.through(index, x, cos, sin, slots, places, seen)
        drawn = passes.draw(x, given[INVERSE].float(), uniform, given[GREEDY] != 0)
        self.answers.copy_(drawn.answers)
        given[ID].fill_(-1)
        given[POSITION : PLACE + 1 : PLACE - POSITION].add_(live)
        given[LEFT].sub_(1)
        self.turn.add_(1)
        return drawn


class Flight:
    """A batch that decodes from a graph: steps that were started, and those of them that were read."""

    def __init__(self, graph: DecodeGraph, runs: Sequence[Run]) -> None:
        self.graph = graph
        graph.load(runs)
        self.rows: list[tuple[int, Active]] = [(i, run.active) for i, run in enumerate(runs)]
        """Those that go on, as far as is known."""
        self.steps = min(SPAN, max(active.limit - len(active.sample.ids) for _, active in self.rows))
        # Where more is asked of a step than its ids, it has to be read before the next one writes over it.
        self.ahead = 1 if any(active.request.params.looks_further for _, active in self.rows) else AHEAD
        self.started = 0
        self.done = 0

    @property
    def over(self) -> bool:
        """There are no more steps to start, or a smaller batch would do."""
        return self.started == self.steps or not self.rows or size_for(len(self.rows)) < self.graph.size

    @property
    def pending(self) -> bool:
        return self.done < self.started

    def start(self) -> None:
        """Starts as many steps as may be ahead."""
        while not self.over and self.started - self.done < self.ahead:
            self.graph.start(self.started)
            self.started += 1

    def read(self) -> tuple[list[float], list[float]]:
        """The next step: all rows have one id more."""
        ids, logprobs = self.graph.wait(self.done)
        self.done += 1
        for _, active in self.rows:
            active.held.filled += 1
        return ids, logprobs

    def thin(self) -> None:
        """Forgets rows that ended."""
        self.rows = [(i, active) for i, active in self.rows if not active.over]


class Graphs:
    """Captured when they are first needed, by the size of the batch and how far its sequences reach."""

    def __init__(self, passes: Passes, cache: KvCache) -> None:
        self.passes, self.cache = passes, cache
        self.made: dict[tuple[int, int], DecodeGraph] = {}
        self.generation = -1
        """The cache's, over whose tensors they were captured."""

    def fly(self, runs: Sequence[Run]) -> Flight:
        longest = max(run.start + min(SPAN, run.active.limit - len(run.active.sample.ids)) for run in runs)
        self.cache.reach(longest)
        if self.generation != self.cache.generation:
            self.made.clear()
            self.generation = self.cache.generation
            # A pool ends with its last graph.
            self.pool = torch.cuda.graph_pool_handle()
        key = (size_for(len(runs)), bucket(max(longest, CHUNK)))
        if key not in self.made:
            self.made[key] = DecodeGraph(self.passes, self.cache, *key, self.pool)
        return Flight(self.made[key], runs)
