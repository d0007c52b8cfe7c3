"""Every rank samples: the same ids as one process, a sequence where its keys and values are, and an end in words when a rank is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import Pipe
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest
from test_server import ADAMW, KEY, Client, body, row_body
from tiny import datum, tokens

from saccade_torch import spread, wire
from saccade_torch.draw import SamplingParams
from saccade_torch.network import Span, Tokens
from saccade_torch.passes import Request

HERE = Path(__file__).parent.parent
FLAGS = ["--device", "cpu", "--threads", "1", "--pack-tokens", "64", "--with-parent", "--dtype", "float64"]


def start(ranks: int) -> tuple[subprocess.Popen, Client]:
    spread = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    process = subprocess.Popen(
        [sys.executable, *spread, "-m", "saccade_torch", *FLAGS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE,
        env={**os.environ, "SACCADE_TORCH_KEY": KEY, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    return process, Client(json.loads(process.stdout.readline())["port"])


def end(process: subprocess.Popen) -> None:
    process.stdin.close()  # type: ignore[union-attr]
    process.wait(60)


def ask(sequence: str, row: Tokens, seed: int) -> dict:
    return {"sequence": sequence, "input": row_body(row), "params": {"maxTokens": 6, "temperature": 0.9, "seed": seed}, "stream": seed % 2 == 0}


def extend(row: Tokens, ids: list[int], more: Tokens) -> Tokens:
    at = len(row.ids) + len(ids)
    spans = tuple(Span(span.start + at, span.length, span.frame) for span in more.spans)
    return Tokens(np.concatenate([row.ids, np.array(ids, dtype=np.int32), more.ids]), (*row.spans, *spans))


def play(client: Client, learner: int) -> list[list[int]]:
    """Three groups of four siblings over two turns; an older version is closed, the next one written over it."""
    found = []
    for step in range(3):
        sampler = client.call("publish", learner=learner)["sampler"]
        rows = {f"{step}/{group}/{one}": tokens(10 * group + step, 1 + group % 2) for group in range(3) for one in range(4)}
        for turn in range(2):
            client.show(*rows.values())
            asked = [ask(name, row, 100 * turn + seed) for seed, (name, row) in enumerate(rows.items())]
            messages = client.sample(sampler, *asked)
            tokens_of = {i: [one["id"] for one in messages if one["of"] == i and "id" in one] for i in range(len(asked))}
            answers = {one["of"]: one for one in messages if "id" not in one}
            for i, name in enumerate(rows):
                ids = wire.ints(answers[i]["ids"]).tolist()
                assert tokens_of[i] == (ids if asked[i]["stream"] else [])
                # The second turn finds all of the first one in the cache of its rank, but for the id that was drawn last.
                if turn:
                    assert answers[i]["cached"] >= len(rows[name].ids) - 20
                found.append(ids)
                rows[name] = extend(rows[name], ids, tokens(7 * i + turn, turn))
        for name in rows:
            client.call("release", sampler=sampler, sequence=name)
        client.call("close_sampler", sampler=sampler)
        data = [datum(seed, seed % 2) for seed in range(4)]
        client.show(*(one.input for one in data))
        assert client.call("forward_backward", learner=learner, data=[body(one) for one in data], loss={"name": "cross-entropy"})["finite"]
        assert client.call("step", learner=learner, optimizer=ADAMW)["applied"]
    return found


@pytest.fixture(scope="module")
def alone(folders):
    process, client = start(1)
    try:
        yield play(client, client.call("open_learner", folder=folders["qwen3"], seed=0)["learner"])
    finally:
        end(process)


def decoded(client: Client) -> list[int]:
    return wire.unpack(client.send("GET", "/health"))["stats"]["decodedBy"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_ranks_sample_what_one_process_samples(folders, alone, ranks):
    process, client = start(ranks)
    try:
        learner = client.call("open_learner", folder=folders["qwen3"], seed=0)["learner"]
        sampler = client.call("publish", learner=learner)["sampler"]
        rows = [tokens(seed, 1) for seed in range(2 * ranks)]
        client.show(*rows)
        client.sample(sampler, *(ask(str(seed), row, seed) for seed, row in enumerate(rows)))
        assert len(decoded(client)) == ranks and min(decoded(client)) == 2 * 6
        client.call("close_sampler", sampler=sampler)
        assert play(client, learner) == alone
        # A model from a folder is opened on a rank when first it is asked there.
        frozen = client.call("open_sampler", folder=folders["qwen3"])["sampler"]
        client.show(*rows)
        answers = client.sample(frozen, *({**ask(str(seed), row, seed), "stream": False} for seed, row in enumerate(rows)))
        assert len(answers) == len(rows) and not any("error" in one for one in answers)
        client.call("close_sampler", sampler=frozen)
        # What was kept to write the next version over goes with its learner, on all ranks.
        assert sum(decoded(client)) > 0
        client.call("close", learner=learner)
        assert sum(decoded(client)) == 0
    finally:
        end(process)


def test_what_is_remembered_of_prompts_has_an_end(monkeypatch):
    monkeypatch.setattr(spread, "MOST_PROMPTS", 8)
    dealt, far = spread.Spread([]), spread.Far(1)
    for seed in range(40):
        row = tokens(seed, 1)
        dealt.deal(far, [Request(f"{seed}", row, SamplingParams(1, 1.0, 0), lambda _: None)])
        dealt.release(far, f"{seed}")
    assert len(dealt._prompts[1]) == 8 and not dealt.places[1]
    assert sum(len(start) for start in dealt._prompts[1]) == 8 * 16


def test_siblings_go_together_and_a_rank_is_told_what_it_lacks_and_what_is_over():
    ours, theirs = Pipe()
    # Never closed: without the other end a rank counts as gone, and all would end.
    os.dup(theirs.fileno())
    def told() -> tuple:
        assert theirs.poll(60)
        return spread.take(theirs)

    dealt, far = spread.Spread([spread.Mate(ours)]), spread.Far(1)
    answers: SimpleQueue = SimpleQueue()

    def asked(name: str, row: Tokens) -> Request:
        return Request(name, row, SamplingParams(1, 1.0, 0), answers.put)

    rows = [tokens(seed, 1) for seed in range(4)]
    names = {f"{group}/{one}": row for group, row in enumerate(rows) for one in range(3)}
    here = {request.sequence for request in dealt.deal(far, [asked(name, row) for name, row in names.items()])}
    op, _, given, frames = told()
    away = {name for _, name, *_ in given}
    assert op == "sample" and here | away == set(names) and not here & away
    assert len(here) == len(away) == 6 and all(len({name in here for name in names if name.startswith(f"{group}/")}) == 1 for group in range(4))
    shown = {span.frame.key for name in away for span in names[name].spans}
    assert {frame.key for frame in frames} == shown
    # A next turn stays where its keys and values are, and its image is there.
    first = next(name for name in names if name in away)
    longer = extend(names[first], [1, 2], tokens(9, 0))
    assert dealt.deal(far, [asked(first, longer)]) == []
    op, _, [(ticket, name, *_)], frames = told()
    assert (op, name, frames) == ("sample", first, [])
    # It let the image go: all of this request goes again.
    spread.put(theirs, ("missing", ticket, far))
    op, _, [(again, name, *_)], frames = told()
    assert (op, name) == ("sample", first) and {frame.key for frame in frames} == {span.frame.key for span in longer.spans}
    spread.put(theirs, ("done", again, "said"))
    assert answers.get(timeout=60) == "said"
    dealt.abort(far, list(names))
    op, _, gone = told()
    assert op == "abort" and set(gone) == away
    for name in names:
        dealt.release(far, name)
    assert {told()[2] for _ in away} == away and not dealt.places[1]


def test_a_killed_rank_ends_all_in_words_and_a_new_worker_goes_on_from_the_checkpoint(folders, alone, tmp_path):
    process, client = start(2)
    try:
        learner = client.call("open_learner", folder=folders["qwen3"], seed=0)["learner"]
        client.call("checkpoint", learner=learner, folder=str(tmp_path / "policy"))
        client.call("publish", learner=learner)
        assert len(decoded(client)) == 2
        other = next(int(line.split()[0]) for line in processes() if f" {process.pid} " in line and rank_of(int(line.split()[0])) == "1")
        os.kill(other, signal.SIGKILL)
        with pytest.raises((OSError, EOFError)):
            for _ in range(60):
                client.call("forward", learner=learner, data=[body(datum(1, 0))])
                time.sleep(0.5)
        assert process.wait(60) != 0
        assert "saccade_torch: Rank 1 of 2 ended." in process.stderr.read()  # type: ignore[union-attr]
    finally:
        process.kill()
    again, client = start(2)
    try:
        learner = client.call("open_learner", folder=folders["qwen3"], seed=5)["learner"]
        client.call("restore", learner=learner, folder=str(tmp_path / "policy"))
        assert play(client, learner) == alone
    finally:
        end(again)


def processes() -> list[str]:
    return subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout.splitlines()[1:]


def rank_of(pid: int) -> str | None:
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return next((one.removeprefix("RANK=") for one in variables if one.startswith("RANK=")), None)
