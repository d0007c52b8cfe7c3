"""Images on their way into a network. An image crosses the wire once: as the RGB bytes the model's processor made of it (the TypeScript side
resizes, so that every engine sees the same pixels), or as processed features, which are used as they are. Both are named by a key.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Sequence

import torch
from torch import Tensor

from .attention import to_device
from .errors import DataError, MissingFrames


@dataclass(frozen=True)
class Frame:
    """`pixels`: uint8 [height, width, 3], or processed patches [grid_h · grid_w, values]. The grid is in patches; pixels have none yet."""

    key: str
    pixels: Tensor
    grid: tuple[int, int] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """To another rank travels this image, not all that it came in with."""
        return Frame, (self.key, self.pixels.clone(), self.grid)


@dataclass(frozen=True)
class PatchFormat:
    """How a model cuts and normalises images: what `config.json` and `preprocessor_config.json` say."""

    patch: int
    temporal: int
    merge: int
    scale: float
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]

    def grid(self, frame: Frame) -> tuple[int, int]:
        if frame.grid is not None:
            return frame.grid
        height, width = frame.pixels.shape[:2]
        return height // self.patch, width // self.patch

    def tokens(self, frame: Frame) -> int:
        h, w = self.grid(frame)
        return h * w // self.merge**2

    def patches(self, frames: Sequence[Frame], device: torch.device) -> Tensor:
        """[patches of all frames, 3 · temporal · patch · patch] in 32 bits, one frame below the other, each in merge-block order."""
        kind = lambda frame: (frame.grid is None, frame.pixels.dtype, frame.pixels.shape)  # noqa: E731
        parts = []
        for (whole, *_), alike in groupby(frames, kind):
            stack = to_device(_stack([frame.pixels for frame in alike], device), device)
            parts.append(self._cut(stack) if whole else self._unpack(stack))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _cut(self, pixels: Tensor) -> Tensor:
        """[frames, height, width, 3]."""
        side = self.patch * self.merge
        count, height, width = pixels.shape[:3]
        if height % side or width % side:
            raise DataError(f"An image of {width}×{height} pixels is not whole tokens of {side}; resize it with the model's processor.")
        split = (count, height // side, self.merge, self.patch, width // side, self.merge, self.patch, 3)
        rows = pixels.reshape(split).permute(0, 1, 4, 2, 5, 7, 3, 6).reshape(-1, 3, self.patch**2)
        channels = torch.arange(3, device=pixels.device)[:, None]
        values = _table(self, pixels.device)[channels, rows.long()]
        return values[:, :, None].expand(-1, -1, self.temporal, -1).reshape(len(rows), -1)

    def _unpack(self, patches: Tensor) -> Tensor:
        """Patches that a renderer cut [frames, patches, values]; bytes are pixels, which are rescaled and normalised here."""
        row = 3 * self.temporal * self.patch**2
        if patches.shape[-1] != row:
            raise DataError(f"A processed image has {patches.shape[-1]} numbers a patch, and this model takes {row}. Render it with its processor.")
        values = patches.flatten(0, 1)
        if values.dtype != torch.uint8:
            return values.float()
        channel = torch.arange(row, device=values.device) // (row // 3)
        return _table(self, values.device)[channel, values.long()]


def _stack(pixels: Sequence[Tensor], device: torch.device) -> Tensor:
    """Where a device can fetch it at once."""
    out = torch.empty(len(pixels), *pixels[0].shape, dtype=pixels[0].dtype, pin_memory=device.type == "cuda")
    return torch.stack(list(pixels), out=out)


@lru_cache(maxsize=16)
def _table(format: PatchFormat, device: torch.device) -> Tensor:
    """[channel, byte]: a byte has 256 values, so one table gives exactly what the processor computes."""
    values = torch.arange(256, dtype=torch.float64) * format.scale
    mean, deviation = (torch.tensor(x, dtype=torch.float32)[:, None] for x in (format.mean, format.deviation))
    return ((values.float() - mean) / deviation).to(device)


FRAME_BYTES = 4 * 1024**3


class FrameStore:
    """Frames by key; the least recently used go first. Safe to use from several threads. Clients send what shows more of them in pieces."""

    def __init__(self, most_bytes: int = FRAME_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._frames: OrderedDict[str, Frame] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, frames: Sequence[Frame]) -> None:
        with self._lock:
            for frame in frames:
                if frame.key in self._frames:
                    continue
                self._frames[frame.key] = frame
                self.bytes += frame.pixels.nbytes
            while self.bytes > self.most_bytes and len(self._frames) > len(frames):
                _, old = self._frames.popitem(last=False)
                self.bytes -= old.pixels.nbytes

    def get(self, keys: Sequence[str]) -> list[Frame]:
        with self._lock:
            missing = sorted({key for key in keys if key not in self._frames})
            if missing:
                raise MissingFrames(missing)
            for key in keys:
                self._frames.move_to_end(key)
            return [self._frames[key] for key in keys]


def pixel_frame(key: str, height: int, width: int, data: Tensor) -> Frame:
    """Of bytes that nobody writes to."""
    if len(data) != height * width * 3:
        raise DataError(f"A {width}×{height} RGB image has {height * width * 3} bytes, but {len(data)} came.")
    return Frame(key, data.view(height, width, 3))


def feature_frame(key: str, grid: Sequence[int], dtype: str, data: Tensor) -> Frame:
    """Processed patches, as a renderer made them."""
    types = {"uint8": torch.uint8, "bfloat16": torch.bfloat16, "float32": torch.float32}
    if dtype not in types:
        raise DataError(f"Features of dtype {dtype} are not known; there are {', '.join(types)}.")
    time, height, width = grid
    if time != 1:
        raise DataError(f"Features of {time} frames are a film; only images are supported.")
    # Copied: a number of several bytes must not begin anywhere.
    return Frame(key, data.clone().view(types[dtype]).reshape(height * width, -1), (height, width))
