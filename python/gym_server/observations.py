"""What a model sees: an image as PNG, or the observation in words."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import numpy as np

from .settings import Json

MAX_CHARACTERS = 2000


def as_image(value: Any) -> np.ndarray[Any, Any] | None:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        return None
    if value.ndim == 2:
        value = np.repeat(value[:, :, None], 3, axis=2)
    if value.ndim != 3 or value.shape[2] not in (1, 3, 4) or min(value.shape[:2]) < 8:
        return None
    return np.repeat(value, 3, axis=2) if value.shape[2] == 1 else value[:, :, :3]


def encode_png(pixels: np.ndarray[Any, Any]) -> bytes:
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + width * 3), dtype=np.uint8)
    rows[:, 1:] = pixels.reshape(height, width * 3)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)) + chunk(b"IEND", b"")


def in_words(observation: Any) -> str:
    if isinstance(observation, str):
        return observation
    with np.printoptions(precision=4, suppress=True, threshold=200):
        return str(observation)[:MAX_CHARACTERS]


def plain(info: Json) -> Json:
    """The values of an `info` that fit into JSON; arrays are left out."""
    kept: Json = {}
    for key, value in info.items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            continue
        if isinstance(value, (str, bool, int, float)) or value is None:
            kept[str(key)] = value
    return kept
