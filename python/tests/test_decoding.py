"""How the sampler decodes on CUDA, on the CPU: a graph is the function that it would capture, attention a call for each row. What it gives must be what the plain
road gives, whoever comes late, ends early or asks for more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_sampler import SETTINGS, ask, extend, run
from tiny import DEVICE, tokens

from saccade_torch import decoding, sampler
from saccade_torch.attention import dense
from saccade_torch.learner import Learner
from saccade_torch.sampler import Sampler

pytestmark = pytest.mark.skipif(DEVICE.type != "cpu", reason="CUDA has the real ones")


class Event:
    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


def attend(q, keys, values, slots, used, reach):
    assert int(used.max()) <= reach
    rows = [dense(q[i][None, :, None], *(x[slots[i], : used[i]].transpose(0, 1)[None] for x in (keys, values)))[0, :, 0] for i in range(len(q))]
    return torch.stack(rows)


@pytest.fixture
def road(monkeypatch):
    def capture(graph, pool):
        def replay():
            graph.drawn = graph._step()

        graph.replay = replay

    monkeypatch.setattr(decoding.DecodeGraph, "_capture", capture)
    monkeypatch.setattr(decoding, "supports", lambda *_: True, raising=False)
    monkeypatch.setattr(decoding, "attend", attend, raising=False)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(sampler, "uses_varlen", lambda *_: True)


@pytest.mark.parametrize("kind", ["qwen3", "qwen25-untied"])
def test_steps_that_run_ahead_give_what_steps_one_by_one_give(folders, kind, road, monkeypatch):
    learner = Learner(folders[kind], SETTINGS)
    ahead = Sampler(learner.publish()[0], SETTINGS)
    ahead.budget = 40
    monkeypatch.setattr(sampler, "uses_varlen", lambda *_: False)
    plain = Sampler(learner.publish()[0], SETTINGS)
    assert ahead.fast and not plain.fast
    rows = {i: tokens(i, i % 4) for i in range(9)}
    for turn in range(3):

        def params(i: int) -> dict:
            given = dict(max_tokens=1 + 7 * i % 19 if i % 5 else 70, seed=i, temperature=0 if i % 6 == 0 else 0.9)
            if i % 3 == 0:
                given["stop_ids"] = frozenset(range(3, 8))
            if turn == 2 and i == 7:
                given |= dict(raw_logprobs=True, top_logprobs=2)
            if turn == 1 and i == 8:
                given["top_k"] = 5
            return given

        wanted = {i: ask(plain, f"sequence {i}", row, **params(i)) for i, row in rows.items()}
        run(plain)
        late = [i for i in rows if i % 4 == 1]
        found = {i: ask(ahead, f"sequence {i}", row, **params(i)) for i, row in rows.items() if i not in late}
        ticks = 0
        while ahead.busy or late:
            ahead.tick()
            ticks += 1
            assert ticks < 1000
            if late and ticks % 3 == 0:
                i = late.pop()
                found[i] = ask(ahead, f"sequence {i}", rows[i], **params(i))
        for i, (one,) in wanted.items():
            (other,) = found[i]
            assert (other.ids, other.stop_reason) == (one.ids, one.stop_reason)
            np.testing.assert_allclose(other.logprobs, one.logprobs, atol=1e-4)
            np.testing.assert_allclose(other.raw, one.raw, atol=1e-4)
            assert [[id for id, _ in top] for top in other.top] == [[id for id, _ in top] for top in one.top]
            assert turn == 0 or other.cached > 0
            rows[i] = extend(rows[i], one.ids, turn % 2, 70 + turn)
    assert len({size for size, _ in ahead.graphs.made}) > 1


def test_an_abort_leaves_the_others_as_they_were(folders, road):
    learner = Learner(folders["qwen3"], SETTINGS)
    one = Sampler(learner.publish()[0], SETTINGS)
    alone = ask(one, "a", tokens(1, 1), max_tokens=30, seed=1)
    run(one)
    both = Sampler(learner.publish()[0], SETTINGS)
    kept, gone = (ask(both, name, tokens(seed, 1), max_tokens=30, seed=seed) for name, seed in (("a", 1), ("b", 2)))
    for _ in range(6):
        both.tick()
    both.abort(next(active.request for active in both.active if active.request.sequence == "b"))
    # Its slot goes to another at once.
    both.release("b")
    other = ask(both, "c", tokens(3, 1), max_tokens=5, seed=3)
    run(both)
    assert kept[0].ids == alone[0].ids and len(other[0].ids) == 5 and gone == []
