"""What crosses the wire: msgpack with raw little-endian arrays, never numbers as text. The TypeScript half is src/engine/torch/wire.ts.

A sequence is {ids, spans: [[start, length, frame key], …]}; a datum adds targets, weights, temperature and the arrays that a loss needs.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import msgpack
import numpy as np
import torch
from torch import Tensor

from .errors import DataError, MissingFrames, SaccadeError, out_of_memory
from .frames import Frame, FrameStore, feature_frame, pixel_frame
from .learner import ARRAYS, Datum
from .network import Span, Tokens
from .sampler import Sample

Body = Mapping[str, Any]


def pack(value: Any) -> bytes:
    return msgpack.packb(value, use_bin_type=True)  # type: ignore[no-any-return]


def unpack(data: bytes | memoryview) -> Any:
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False, max_bin_len=2**31 - 1)
    except (ValueError, msgpack.UnpackException) as problem:
        raise DataError(f"The body is not msgpack ({problem}). Use the same version of saccade on both sides.") from None


def read_request(data: bytearray) -> tuple[dict[str, Any], list[Frame]]:
    """The head of a request, and the images behind it, whose bytes stay where they came in."""
    try:
        return split_request(data)
    except SaccadeError:
        raise
    except Exception as problem:
        raise DataError(f"The request can't be read ({type(problem).__name__}: {problem}). Use the same version of saccade on both sides.") from None


def split_request(data: bytearray) -> tuple[dict[str, Any], list[Frame]]:
    behind = 4 + int.from_bytes(data[:4], "little")
    head = unpack(memoryview(data)[4:behind])
    if not isinstance(head, dict):
        raise DataError("The head of a request is a map.")
    frames = []
    named = head.pop("frames")
    # One tensor for all: making one of a buffer takes longer than cutting it.
    pixels = torch.frombuffer(data, dtype=torch.uint8) if named else None
    for given in named:
        assert pixels is not None
        frames.append(read_frame(given, pixels[behind : behind + given["bytes"]]))
        behind += given["bytes"]
    return head, frames


def request(body: Body, frames: Sequence[tuple[Body, bytes]] = ()) -> bytes:
    """As the TypeScript half writes it."""
    head = pack({**body, "frames": [{**about, "bytes": len(data)} for about, data in frames]})
    return b"".join([len(head).to_bytes(4, "little"), head, *(data for _, data in frames)])


def read_tokens(given: Sequence[Body], frames: FrameStore) -> list[Tokens]:
    """All at once: images that are missing are told together."""
    keys = [key for one in given for _, _, key in one["spans"]]
    found = dict(zip(keys, frames.get(keys)))
    return [Tokens(ints(one["ids"]), tuple(Span(start, length, found[key]) for start, length, key in one["spans"])) for one in given]


def read_data(given: Sequence[Body], frames: FrameStore) -> list[Datum]:
    rows = read_tokens([one["input"] for one in given], frames)
    return [
        Datum(
            row,
            ints(one["targets"]),
            floats(one["weights"]),
            float(one.get("temperature") or 1.0),
            {name: floats(one[name]) for name in ARRAYS if one.get(name) is not None},
        )
        for row, one in zip(rows, given)
    ]


def read_frame(given: Body, data: Tensor) -> Frame:
    if "grid" in given:
        return feature_frame(given["key"], given["grid"], given["dtype"], data)
    return pixel_frame(given["key"], given["height"], given["width"], data)


def sample_body(sample: Sample, version: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "ids": raw(np.array(sample.ids, dtype=np.int32)),
        "logprobs": raw(np.array(sample.logprobs, dtype=np.float32)),
        "stopReason": sample.stop_reason,
        "version": version,
    }
    if sample.raw:
        body["rawLogprobs"] = raw(np.array(sample.raw, dtype=np.float32))
    if sample.prompt is not None:
        body["promptLogprobs"] = raw(sample.prompt)
    if sample.top:
        body["topLogprobs"] = [
            [raw(np.array([id for id, _ in row], dtype=np.int32)), raw(np.array([value for _, value in row], dtype=np.float32))] for row in sample.top
        ]
    return body


def error_body(problem: BaseException) -> dict[str, Any]:
    if isinstance(problem, MissingFrames):
        return {"error": {"name": "MissingFrames", "message": str(problem), "keys": problem.keys}}
    if isinstance(problem, SaccadeError):
        return {"error": {"name": type(problem).__name__, "message": str(problem)}}
    if out_of_memory(problem):
        message = "Memory ran out. Set the engine's offload or more processes, lower cacheBytes, or play fewer episodes at once."
        return {"error": {"name": "EngineError", "message": message}}
    return {"error": {"name": "EngineError", "message": f"The PyTorch worker failed: {type(problem).__name__}: {problem}"}}


def ints(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype="<i4")


def floats(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype="<f4")


def raw(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
