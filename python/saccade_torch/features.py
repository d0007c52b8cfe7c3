"""What a vision tower that does not change makes of images: computed once for each distinct image and kept, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Sequence

import torch

from .frames import Frame
from .network import Features, Network

MOST_BYTES = {"cpu": 512 * 1024**2, "cuda": 8 * 1024**3}
MOST_PATCHES = 65536
"""In one pass over the tower."""


class FeatureCache:
    def __init__(self, network: Network, most_bytes: int | None = None) -> None:
        self.network = network
        self.most_bytes = most_bytes or MOST_BYTES.get(network.device.type, MOST_BYTES["cpu"])
        self.encoded = 0
        self._kept: OrderedDict[str, Features] = OrderedDict()
        self._bytes = 0

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0

    def of(self, frames: Sequence[Frame]) -> list[Features]:
        found = {frame.key: self._kept[frame.key] for frame in frames if frame.key in self._kept}
        missing = list({frame.key: frame for frame in frames if frame.key not in found}.values())
        for batch in self._batches(missing):
            with torch.no_grad():
                features = self.network.encode(batch)
            self.encoded += len(batch)
            sizes = [self.network.format.tokens(frame) for frame in batch]
            parts = zip(features.main.split(sizes), *(level.split(sizes) for level in features.deepstack))
            for frame, (main, *deep) in zip(batch, parts):
                # Parts of what was computed together, which goes when its last part does.
                found[frame.key] = self._kept[frame.key] = Features(main, tuple(deep))
                self._bytes += main.nbytes * (1 + len(deep))
        for frame in frames:
            self._kept.move_to_end(frame.key)
        while self._bytes > self.most_bytes and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.main.nbytes * (1 + len(old.deepstack))
        return [found[frame.key] for frame in frames]

    def joined(self, frames: Sequence[Frame]) -> Features | None:
        """Of these images, one below the other."""
        if not frames:
            return None
        parts = self.of(frames)
        levels = zip(*(part.deepstack for part in parts))
        return Features(torch.cat([part.main for part in parts]), tuple(torch.cat(level) for level in levels))

    def _batches(self, frames: list[Frame]) -> list[list[Frame]]:
        batches: list[list[Frame]] = []
        room = 0
        for frame in frames:
            h, w = self.network.format.grid(frame)
            if not batches or h * w > room:
                batches.append([])
                room = MOST_PATCHES
            batches[-1].append(frame)
            room -= h * w
        return batches
