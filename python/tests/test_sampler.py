"""Sampling: what is sampled is what the learner scores, whatever ran beside it and however much was cached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from queue import Empty, SimpleQueue

import numpy as np
import pytest
import torch
from tiny import DEVICE, IMAGE, IMAGES, datum, tokens

from saccade_torch import kv_cache
from saccade_torch.draw import SamplingParams, draw, draw_kept, keep
from saccade_torch.errors import EngineError
from saccade_torch.kv_cache import Held
from saccade_torch.learner import Datum, Learner, Settings
from saccade_torch.network import Span, Tokens
from saccade_torch.prefixes import Prefixes, shared, signature
from saccade_torch.sampler import Request, Sample, Sampler
from saccade_torch.sampler_thread import SamplerThread

SETTINGS = Settings(DEVICE)


@pytest.fixture(params=["qwen3", "qwen25-untied"])
def learner(folders, request) -> Learner:
    return Learner(folders[request.param], SETTINGS)


def sampler_of(learner: Learner, **options) -> Sampler:
    network, version = learner.publish()
    return Sampler(network, SETTINGS, version, **options)


def ask(sampler: Sampler, sequence: str, row: Tokens, **params) -> list:
    """Submits; the list has the answer once it is there."""
    box: list = []
    given = dict(max_tokens=6, temperature=0.9, seed=3) | params
    sampler.submit(Request(sequence, row, SamplingParams(**given), box.append))
    return box


def run(sampler: Sampler) -> None:
    while sampler.busy:
        sampler.tick()


def test_who_only_scores_takes_no_cache(learner):
    """A reference model is a sampler that never samples."""
    sampler = sampler_of(learner)
    scored = sampler.score([datum(1, 1)])
    assert len(scored) == 1 and not sampler.cache.keys and sampler.cache.slots == 0
    assert len(sample(sampler, "one", tokens(1, 1)).ids) > 0
    assert sampler.cache.slots > 0


def test_whatever_refuses_a_request_is_told_to_who_asked(learner, monkeypatch):
    sampler = sampler_of(learner)

    def refuse(_: object) -> None:
        raise ValueError("absolute aspect ratio must be smaller than 200")

    monkeypatch.setattr(sampler.network, "check", refuse)
    box = ask(sampler, "one", tokens(1, 1))
    assert "aspect ratio" in str(box[0]) and not sampler.busy


def test_a_worker_whose_sampling_breaks_off_ends_in_words():
    code = "import sys, torch; from saccade_torch.sampler_thread import SamplerThread; t = SamplerThread(torch.device('cpu')); t.do(sys.exit); t.join()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    assert ended.returncode == 1 and "saccade_torch: Sampling broke off (SystemExit" in ended.stderr


def test_a_thread_whose_samplers_wait_for_a_slot_goes_on_when_one_is_released_or_left(learner, monkeypatch):
    thread, sampler = SamplerThread(DEVICE), sampler_of(learner, cache_bytes=1)
    thread.watch(sampler)
    said: SimpleQueue = SimpleQueue()
    submit = lambda name: thread.do(lambda: sampler.submit(Request(name, tokens(1, 1), SamplingParams(3, 0.9, 3), lambda found: said.put((name, found)))))  # noqa: E731
    monkeypatch.setattr(kv_cache, "GRACE", 3600)
    for name in ("one", "two"):
        submit(name)
    assert said.get(timeout=60)[0] == "one"
    with pytest.raises(Empty):
        said.get(timeout=0.2)
    thread.do(lambda: sampler.release("one"))
    name, found = said.get(timeout=60)
    assert name == "two" and isinstance(found, Sample)
    submit("three")
    with pytest.raises(Empty):
        said.get(timeout=0.2)
    # Nobody releases it, and nothing else happens.
    monkeypatch.setattr(kv_cache, "GRACE", 0.01)
    name, found = said.get(timeout=60)
    assert name == "three" and isinstance(found, Sample)


def test_a_request_that_makes_no_sense_fails_alone_and_sampling_goes_on(learner):
    thread, sampler = SamplerThread(DEVICE), sampler_of(learner)
    thread.watch(sampler)
    thread.do(lambda: sampler.release(["no", "name"]))  # type: ignore[arg-type]
    for params, wanted in (({"seed": -1}, ValueError), ({"temperature": "warm"}, TypeError), ({}, Sample)):
        box: SimpleQueue = SimpleQueue()
        given = dict(max_tokens=3, temperature=0.9, seed=3) | params
        thread.do(lambda: sampler.submit(Request("one", tokens(1, 1), SamplingParams(**given), box.put)))
        assert isinstance(box.get(timeout=60), wanted)


def sample(sampler: Sampler, sequence: str, row: Tokens, **params) -> Sample:
    box = ask(sampler, sequence, row, **params)
    run(sampler)
    assert isinstance(box[0], Sample), box[0]
    return box[0]


def extend(row: Tokens, ids: list[int], images: int, seed: int) -> Tokens:
    """What a turn appends: the reply, then more text and images."""
    more = tokens(seed, images)
    at = len(row.ids) + len(ids)
    spans = tuple(Span(span.start + at, span.length, span.frame) for span in more.spans)
    return Tokens(np.concatenate([row.ids, np.array(ids, dtype=np.int32), more.ids]), (*row.spans, *spans))


def as_datum(row: Tokens, reply: Sample, temperature: float) -> Datum:
    whole = np.concatenate([row.ids, np.array(reply.ids, dtype=np.int32)])
    targets = np.full(len(whole), -1, dtype=np.int32)
    targets[len(row.ids) - 1 : -1] = reply.ids
    return Datum(Tokens(whole, row.spans), targets, (targets >= 0).astype(np.float32), temperature, {})


def test_log_probabilities_of_several_turns_are_the_learners(learner):
    sampler = sampler_of(learner)
    for seed in range(3):
        row = tokens(seed, seed)
        for turn in range(4):
            reply = sample(sampler, f"episode {seed}", row, temperature=0.7, seed=100 * seed + turn)
            (scored, _), = learner.forward([as_datum(row, reply, 0.7)])
            np.testing.assert_allclose(reply.logprobs, scored[len(row.ids) - 1 : -1], atol=1e-4)
            assert turn == 0 or reply.cached >= cached - 1
            cached = len(row.ids) + len(reply.ids)
            row = extend(row, reply.ids, turn % 3, 50 + turn)


def test_company_and_cache_change_nothing(learner):
    rows = [tokens(seed, seed % 4) for seed in range(6)]
    alone = []
    for i, row in enumerate(rows):
        alone.append(sample(sampler_of(learner), "x", row, seed=i))
    crowded = sampler_of(learner)
    crowded.budget = 7
    boxes = [ask(crowded, f"sequence {i}", row, seed=i) for i, row in enumerate(rows)]
    run(crowded)
    again = [ask(crowded, f"sequence {i}", row, seed=i) for i, row in enumerate(rows)]
    run(crowded)
    for wanted, *others in zip(alone, boxes, again):
        for (found,) in others:
            assert found.ids == wanted.ids
            np.testing.assert_allclose(found.logprobs, wanted.logprobs, atol=1e-4)
    assert all(box[0].cached == len(row.ids) - 1 for box, row in zip(again, rows))


def test_siblings_share_the_prompt_and_each_frame_is_encoded_once(learner):
    sampler = sampler_of(learner)
    row = tokens(2, 3)
    boxes = [ask(sampler, f"sibling {i}", row, seed=i) for i in range(5)]
    run(sampler)
    assert sampler.counts["prefilledTokens"] == len(row.ids) + 4
    assert sampler.seen.encoded == len({span.frame.key for span in row.spans})
    assert len({tuple(box[0].ids) for box in boxes}) > 1


def test_slots_that_run_short_evict_the_one_that_waited_longest(learner, monkeypatch):
    monkeypatch.setattr(kv_cache, "GRACE", 0.01)
    sampler = sampler_of(learner, cache_bytes=1)
    rows = [tokens(seed, 1) for seed in range(3)]
    wanted = [sample(sampler_of(learner), "x", row, seed=i).ids for i, row in enumerate(rows)]
    boxes = [ask(sampler, f"sequence {i}", row, seed=i) for i, row in enumerate(rows)]
    run(sampler)
    assert [box[0].ids for box in boxes] == wanted
    assert sampler.cache.slots == 1 and list(sampler.cache.held) == ["sequence 2"]


def test_more_episodes_than_slots_compute_nothing_twice_and_say_the_same(learner, monkeypatch):
    # However slow this machine is: every episode comes back in time.
    monkeypatch.setattr(kv_cache, "GRACE", 3600)
    turns, late = 4, 3

    def play(count: int, cache_bytes: int | None) -> tuple[list[list[int]], Sampler, int]:
        """Episodes whose environments answer `late` ticks after each reply."""
        sampler = sampler_of(learner, cache_bytes=cache_bytes)
        rows = {f"episode {i}": tokens(i, 1) for i in range(count)}
        said: dict[str, list[int]] = {name: [] for name in rows}
        coming: list[tuple[int, str]] = [(0, name) for name in rows]
        boxes: dict[str, list] = {}
        fresh = {name: len(row.ids) for name, row in rows.items()}
        new = now = most = 0
        while coming or boxes:
            for name in [name for when, name in coming if when <= now]:
                boxes[name] = ask(sampler, name, rows[name], seed=int(name.split()[1]) + 100 * len(said[name]), max_tokens=3)
                new += fresh[name]
            coming = [(when, name) for when, name in coming if when > now]
            sampler.tick()
            most = max(most, len(sampler.active))
            for name in [name for name, box in boxes.items() if box]:
                ids = boxes.pop(name)[0].ids
                said[name] += ids
                if len(said[name]) == 3 * turns:
                    sampler.release(name)
                    continue
                longer = extend(rows[name], ids, 1, len(said[name]))
                # The id that was drawn last was not computed yet.
                fresh[name] = len(longer.ids) - len(rows[name].ids) - len(ids) + 1
                rows[name] = longer
                coming.append((now + late, name))
            now += 1
        assert most <= max(1, sampler.cache.slots)
        return list(said.values()), sampler, new

    _, first, _ = play(1, 1)
    slot = sum(tensor[0].nbytes for tensor in (*first.cache.keys, *first.cache.values))
    found, sampler, new = play(7, 2 * slot)
    assert sampler.cache.slots == 2
    assert sampler.counts["prefilledTokens"] == new
    assert found == play(7, None)[0]


def test_slots_grow_only_when_few_enough_are_computed_so_the_cache_keeps_to_its_bytes(learner):
    rows = []
    for seed, least in enumerate((40, 40, 40, 300)):
        row = tokens(seed, 1)
        while len(row.ids) < least:
            row = extend(row, [1], 0, len(row.ids))
        rows.append(row)

    def play(cache_bytes: int | None) -> tuple[list[list[int]], int, Sampler]:
        sampler = sampler_of(learner, cache_bytes=cache_bytes)
        boxes = [ask(sampler, f"episode {i}", row, seed=i) for i, row in enumerate(rows)]
        most = 0
        while sampler.busy:
            sampler.tick()
            most = max(most, sampler.cache.slots * sampler.cache.length)
        return [box[0].ids for box in boxes], most, sampler

    sampler = sampler_of(learner, cache_bytes=1)
    sample(sampler, "one", tokens(1, 1))
    slot = sum(tensor[0].nbytes for tensor in (*sampler.cache.keys, *sampler.cache.values))
    found, most, sampler = play(4 * slot)
    # Four of 256, or two of 384.
    assert (sampler.cache.length, sampler.cache.slots) == (384, 2) and most == 4 * 256
    assert found == play(None)[0]


def test_the_cache_grows_and_keeps_what_it_holds(learner):
    sampler = sampler_of(learner)
    row, short = tokens(1, 2), tokens(2, 0)
    sample(sampler, "short", short)
    for turn in range(40):
        row = extend(row, [1], 1, turn)
        if len(row.ids) > 300:
            break
    box = ask(sampler, "long", row, max_tokens=20)
    run(sampler)
    assert sampler.cache.length == 384
    assert box[0].ids == sample(sampler_of(learner), "x", row, max_tokens=20).ids
    assert sample(sampler, "short", extend(short, [1], 0, 9)).cached > 0


def test_vision_ids_are_never_sampled_and_all_others_can_be(learner):
    top = sample(sampler_of(learner), "x", tokens(1, 1), max_tokens=2, top_logprobs=97, temperature=2.0).top
    for row in top:
        assert {id for id, _ in row} == set(range(97)) - {90, 91, 92, 93}
        assert sum(np.exp(logprob) for _, logprob in row) == pytest.approx(1, abs=1e-5)


def test_greedy_reports_temperature_one_and_raw_is_always_that(learner):
    sampler = sampler_of(learner)
    row = tokens(4, 1)
    greedy = sample(sampler, "a", row, temperature=0, raw_logprobs=True, top_logprobs=1)
    assert greedy.ids == [top[0][0] for top in greedy.top]
    assert greedy.logprobs == greedy.raw
    hot = sample(sampler, "b", row, temperature=1.7, raw_logprobs=True)
    (scored, _), = learner.forward([as_datum(row, hot, 1.0)])
    np.testing.assert_allclose(hot.raw, scored[len(row.ids) - 1 : -1], atol=1e-4)


def test_log_probabilities_of_the_prompt_are_the_forwards(learner):
    row = tokens(5, 2)
    found = sample(sampler_of(learner), "a", row, prompt_logprobs=True, temperature=0.8).prompt
    targets = np.full(len(row.ids), -1, dtype=np.int32)
    targets[:-1] = np.where(row.ids[1:] < 90, row.ids[1:], -1)
    (scored, _), = learner.forward([Datum(row, targets, np.zeros(len(row.ids), dtype=np.float32), 0.8, {})])
    np.testing.assert_allclose(found[1:], scored[:-1], atol=1e-4)
    assert found[0] == 0


def test_an_abort_a_stop_id_and_a_full_context_end_samples(learner):
    sampler = sampler_of(learner)
    row = tokens(6, 0)
    whole = sample(sampler, "a", row)
    stopped = sample(sampler, "a", row, stop_ids=frozenset({whole.ids[2]}))
    assert stopped.ids == whole.ids[: whole.ids.index(whole.ids[2]) + 1] and stopped.stop_reason == "stop"
    box: list = []
    request = Request("gone", row, SamplingParams(100, 1.0, 0), box.append)
    sampler.submit(request)
    sampler.tick()
    sampler.abort(request)
    assert not sampler.busy and box == []
    long = Tokens(np.resize(row.ids, 510).astype(np.int32))
    assert len(sample(sampler, "long", long, max_tokens=10).ids) == 2
    full = ask(sampler, "full", Tokens(np.resize(row.ids, 512).astype(np.int32)))
    assert isinstance(full[0], EngineError)
    ask(sampler, "twice", row)
    assert isinstance(ask(sampler, "twice", row)[0], EngineError)


def test_weights_written_over_a_sampler_are_what_it_samples_from(learner):
    loss = {"name": "cross-entropy"}
    sampler = sampler_of(learner)
    row = tokens(2, 2)
    before = sample(sampler, "a", row)
    for _ in range(3):
        learner.forward_backward([datum(1, 2), datum(2, 2)], loss)
        learner.step({"name": "adamw", "learningRate": 0.05})
    _, version = learner.publish(sampler.network)
    sampler.renew(version)
    after = sample(sampler, "a", row)
    assert after.cached == 0 and sampler.version == version
    (scored, _), = learner.forward([as_datum(row, after, 0.9)])
    np.testing.assert_allclose(after.logprobs, scored[len(row.ids) - 1 : -1], atol=1e-4)
    assert np.abs(np.array(after.logprobs[:1]) - before.logprobs[:1]).max() > 1e-3


def test_draws_follow_the_distribution_and_truncations_renormalise():
    logprobs = torch.log_softmax(torch.tensor([[0.0, 1.0, -1.0, float("-inf"), 2.0]]), -1)
    uniforms = torch.linspace(0, 1, 10001, dtype=torch.float64)[:-1]
    drawn, found, _ = draw(logprobs.expand(len(uniforms), -1).contiguous(), uniforms, torch.zeros(len(uniforms), dtype=torch.bool))
    assert torch.allclose(found, logprobs[0][drawn])
    counts = torch.bincount(drawn, minlength=5) / len(uniforms)
    assert torch.allclose(counts, logprobs[0].exp(), atol=1e-3)
    for params, wanted in (
        (SamplingParams(1, 1.0, 0, top_k=2), [4, 1]),
        (SamplingParams(1, 1.0, 0, top_p=0.7), [4, 1]),
        (SamplingParams(1, 1.0, 0, min_p=0.1), [4, 1, 0]),
    ):
        ids, kept = keep(logprobs[0], params)
        assert ids.tolist() == wanted
        assert float(kept.exp().sum()) == pytest.approx(1, abs=1e-6)
        assert draw_kept(ids, kept, 0.0) == 0 and draw_kept(ids, kept, 0.9999999999) == len(wanted) - 1


def test_prefixes_compare_images_by_key():
    row = tokens(3, 2)
    other = Tokens(row.ids, (row.spans[0], Span(row.spans[1].start, row.spans[1].length, IMAGES[0])))
    assert shared(signature(row), signature(row)) == len(row.ids)
    expected = len(row.ids) if row.spans[1].frame.key == IMAGES[0].key else row.spans[1].start
    assert shared(signature(row), signature(other)) == expected
    assert int(row.ids[row.spans[0].start]) == IMAGE


def test_who_holds_the_longest_beginning_is_found_and_who_left_is_not():
    prefixes: Prefixes[Held] = Prefixes()
    numbers = np.arange(100, dtype=np.int64)
    other = np.where(numbers < 50, numbers, -numbers)
    first, second, third = (Held(slot, signature, filled=filled) for slot, signature, filled in ((0, numbers, 60), (1, other, 100), (2, numbers, 80)))
    for held in (first, second, third):
        prefixes.add(held)
    assert prefixes.best(np.append(numbers, 7)) is third
    assert prefixes.best(other) is second
    assert prefixes.best(numbers[1:]) is None
    third.signature = np.append(numbers[:20], 5)
    prefixes.add(third, 20)
    assert prefixes.best(numbers) is first
    prefixes.remove(first)
    assert prefixes.best(numbers) is second and shared(numbers, other) == 50
    for held in (second, third):
        prefixes.remove(held)
    assert prefixes.best(numbers) is None and not prefixes._holders and not prefixes._chains
