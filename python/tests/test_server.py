"""The door: keys, frames by name, calls that are done once, folders that travel, and an end with the parent."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import datum, tokens

from saccade_torch import wire
from saccade_torch.learner import ARRAYS, Datum, Learner, Settings
from saccade_torch.network import Tokens

KEY = "a long key for tests"
ADAMW = {"name": "adamw", "learningRate": 1e-2}


class Client:
    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"

    def send(self, method: str, path: str, body: bytes | None = None, key: str = KEY) -> bytes:
        request = urllib.request.Request(self.root + path, body, {"Authorization": f"Bearer {key}"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as response:
                return response.read()
        except urllib.error.HTTPError as answer:
            return answer.read()

    def call(self, op: str, **given) -> dict:
        return wire.unpack(self.send("POST", "/call", wire.request({"op": op, **given})))

    def show(self, *rows: Tokens) -> None:
        frames = {span.frame.key: span.frame for row in rows for span in row.spans}
        bodies = [
            ({"key": key, "height": frame.pixels.shape[0], "width": frame.pixels.shape[1]}, frame.pixels.numpy().tobytes())
            for key, frame in frames.items()
        ]
        self.send("POST", "/frames", wire.request({}, bodies))

    def sample(self, sampler: int, *asked: dict) -> list[dict]:
        stream = self.send("POST", "/call", wire.request({"op": "sample", "sampler": sampler, "asked": list(asked)}))
        messages = []
        while len(stream) > 4:
            size = int.from_bytes(stream[:4], "little")
            messages.append(wire.unpack(stream[4 : 4 + size]))
            stream = stream[4 + size :]
        return messages


def body(item: Datum) -> dict:
    arrays = {name: wire.raw(item.arrays[name]) for name in ARRAYS if name in item.arrays}
    return {"input": row_body(item.input), "targets": wire.raw(item.targets), "weights": wire.raw(item.weights), "temperature": item.temperature, **arrays}


def row_body(row: Tokens) -> dict:
    return {"ids": wire.raw(row.ids), "spans": [[span.start, span.length, span.frame.key] for span in row.spans]}


def start() -> tuple[subprocess.Popen, Client]:
    environment = {**os.environ, "SACCADE_TORCH_KEY": KEY}
    command = [sys.executable, "-m", "saccade_torch", "--device", "cpu", "--threads", "1", "--with-parent"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent, env=environment)
    assert process.stdout is not None
    return process, Client(json.loads(process.stdout.readline())["port"])


@pytest.fixture(scope="module")
def client():
    process, client = start()
    yield client
    process.stdin.close()
    assert process.wait(30) == 0


def test_without_the_key_nothing_is_answered(client):
    assert wire.unpack(client.send("GET", "/health", key="another"))["error"]["name"] == "ConfigError"
    assert wire.unpack(client.send("GET", "/health"))["device"] == "cpu"


@pytest.mark.parametrize("header", [b"Bearer \xff\xfe", b"Bearer " + "schl\u00fcssel".encode(), b"Bearer", b"", b"Basic YTpi", b"Bearer " + KEY.encode() + b"\xff"])
def test_a_malformed_key_is_a_wrong_key(client, header):
    host, port = client.root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: " + header + b"\r\n\r\n")
        said = b"".join(iter(lambda: connection.recv(65536), b""))
    assert said.startswith(b"HTTP/1.1 401") and b"The key is wrong" in said and b"Traceback" not in said


@pytest.mark.parametrize("key", ["", "x", "fifteen letters"])
def test_no_worker_starts_with_a_key_that_can_be_guessed(key):
    environment = {**os.environ, "SACCADE_TORCH_KEY": key}
    command = [sys.executable, "-m", "saccade_torch", "--device", "cpu", "--host", "0.0.0.0"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent, env=environment, stdin=subprocess.DEVNULL, timeout=300)
    assert ended.returncode == 1 and "SACCADE_TORCH_KEY" in ended.stderr and "Traceback" not in ended.stderr


def test_a_body_that_is_none_of_ours_is_refused_in_words(client):
    head = wire.pack({"op": "x", "frames": [{"key": "a"}]})
    bodies = [b"", b"\x00", b"\xff\xff\xff\xff", wire.pack([]), b"\x01\x00\x00\x00\xc0", len(head).to_bytes(4, "little") + head, b"\x04\x00\x00\x00" + b"\x91" * 4]
    bodies += [wire.request({}), wire.request({"op": ["x"]}), wire.request({"op": "open_learner", "folder": 3})]
    for body in bodies:
        error = wire.unpack(client.send("POST", "/call", body))["error"]
        assert (error["name"], "Traceback" in error["message"]) == ("DataError", False), body
    assert wire.unpack(client.send("GET", "/health"))["device"] == "cpu"


def test_a_learner_and_its_sampler_over_the_wire_are_those_in_process(client, folders):
    data = [datum(seed, seed % 3) for seed in range(4)]
    local = Learner(folders["qwen3"], Settings(torch.device("cpu")))
    learner = client.call("open_learner", folder=folders["qwen3"], seed=0)["learner"]
    missing = client.call("forward", learner=learner, data=[body(item) for item in data])["error"]
    assert missing["name"] == "MissingFrames"
    assert set(missing["keys"]) == {span.frame.key for item in data for span in item.input.spans}
    client.show(*(item.input for item in data))
    loss = {"name": "importance-sampling"}
    found = client.call("forward_backward", learner=learner, data=[body(item) for item in data], loss=loss, call=0)
    wanted = local.forward_backward(data, loss)
    assert found["loss"] == pytest.approx(wanted.loss, rel=1e-6) and found["finite"]
    for a, b in zip(found["outputs"], wanted.outputs):
        np.testing.assert_allclose(wire.floats(a), b, atol=1e-6)
    assert client.call("step", learner=learner, optimizer=ADAMW, call=1)["gradNorm"] == pytest.approx(local.step(ADAMW)["gradNorm"], rel=1e-5)
    published = client.call("publish", learner=learner, call=2)
    row = tokens(1, 1)
    client.show(row)
    asked = {"sequence": "a", "input": row_body(row), "params": {"maxTokens": 5, "temperature": 1, "seed": 1}, "stream": False}
    (sample,) = client.sample(published["sampler"], asked)
    assert sample["version"] == 1 and len(wire.ints(sample["ids"])) == 5
    twice = client.sample(published["sampler"], {**asked, "stream": True}, {**asked, "sequence": "b"}, {**asked, "sequence": "b"})
    drawn = [message["id"] for message in twice if "id" in message]
    ends = {message["of"]: message for message in twice if "id" not in message}
    assert drawn == list(wire.ints(sample["ids"])) == list(wire.ints(ends[0]["ids"])) == list(wire.ints(ends[1]["ids"]))
    assert "already sampling" in ends[2]["error"]["message"]
    client.call("close_sampler", sampler=published["sampler"])
    gone = client.send("POST", "/call", wire.request({"op": "sample", "sampler": published["sampler"], "asked": [asked]}))
    assert wire.unpack(gone)["error"]["name"] == "EngineError"


def test_a_call_that_is_sent_again_is_done_once(client, folders):
    learner = client.call("open_learner", folder=folders["qwen3"], seed=0)["learner"]
    item = datum(1, 0)
    for _ in range(2):
        client.call("forward_backward", learner=learner, data=[body(item)], loss={"name": "cross-entropy"}, call=7)
    first = client.call("step", learner=learner, optimizer=ADAMW, call=8)
    assert client.call("step", learner=learner, optimizer=ADAMW, call=8) == first
    assert first["step"] == 1
    local = Learner(folders["qwen3"], Settings(torch.device("cpu")))
    local.forward_backward([item], {"name": "cross-entropy"})
    assert first["gradNorm"] == pytest.approx(local.step(ADAMW)["gradNorm"], rel=1e-5)


def test_folders_travel_and_stay_in_their_place(client, folders):
    for file in Path(folders["qwen3"]).iterdir():
        client.send("PUT", f"/files/one/model/{file.name}", file.read_bytes())
    learner = client.call("open_learner", folder="bundle:one/model", seed=0)["learner"]
    client.call("checkpoint", learner=learner, folder="bundle:two/policy")
    names = wire.unpack(client.send("GET", "/files/two"))["files"]
    assert "policy/model.safetensors" in names and "policy.state.safetensors" in names
    weights = client.send("GET", "/files/two/policy/model.safetensors")
    assert len(weights) > 10_000
    client.send("DELETE", "/files/two")
    assert wire.unpack(client.send("GET", "/files/two"))["files"] == []
    for path in ("/files/..%2F..%2Fetc/passwd", "/files/one/..%2F..%2F..%2Fx"):
        answer = client.send("PUT", path, b"x")
        assert b"error" in answer or b"404" in answer
    assert client.call("restore", learner=learner, folder="bundle:../x")["error"]["name"] == "ConfigError"


def test_a_worker_ends_with_its_parent():
    process, client = start()
    client.send("GET", "/health")
    process.stdin.close()
    assert process.wait(30) == 0
