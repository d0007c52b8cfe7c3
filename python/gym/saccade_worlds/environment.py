"""A world as a Gymnasium environment.

The observation is the frame; what the agent is told is in `info["text"]`, all images in `info["images"]`. An action is the reply's text, or, where `actions` lists
replies, the number of one. A frame of another size than the first is scaled to it, since a space has one shape; `info["images"]` has it unscaled.
"""

from __future__ import annotations

import io
import string
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image

from .client import World

MAX_REPLY = 4096


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


class SaccadeEnv(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}

    def __init__(
        self,
        world: str,
        options: dict | None = None,
        actions: list[str] | None = None,
        render_mode: str | None = None,
        url: str | None = None,
        key: str | None = None,
    ):
        self.render_mode = render_mode
        self.world = World(world, options, url, key)
        self.replies = list(actions) if actions is not None else None
        self._data, images = self.world.reset(0)
        if not images:
            raise ValueError(f"{world} shows no image: play it with saccade_worlds.World, which speaks text.")
        self._frame = pixels(images[-1])
        self.observation_space = gym.spaces.Box(0, 255, self._frame.shape, np.uint8)
        self.action_space = (
            gym.spaces.Text(MAX_REPLY, min_length=0, charset=string.printable)
            if self.replies is None
            else gym.spaces.Discrete(len(self.replies))
        )

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        # Without a seed, the generator that the last one set goes on.
        episode = seed if seed is not None else int(self.np_random.integers(2**31))
        self._data, images = self.world.reset(episode)
        return self._seen(images), self._info(images)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reply = str(action) if self.replies is None else self.replies[int(action)]
        self._data, images = self.world.step(reply)
        data = self._data
        return self._seen(images), float(data["reward"]), bool(data["terminated"]), bool(data["truncated"]), self._info(images)

    def render(self) -> np.ndarray | None:
        return self._frame if self.render_mode == "rgb_array" else None

    def oracle(self) -> str | None:
        """The reply of the world's own solver; None where it has none."""
        return self.world.builtin("oracle")

    def close(self) -> None:
        self.world.close()

    def _seen(self, images: list[bytes]) -> np.ndarray:
        if images:
            frame = pixels(images[-1])
            height, width, _ = self.observation_space.shape
            if frame.shape != self.observation_space.shape:
                frame = np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.BILINEAR))
            self._frame = frame
        return self._frame

    def _info(self, images: list[bytes]) -> dict[str, Any]:
        info: dict[str, Any] = {"text": self._data["obs"], "images": [pixels(png) for png in images]}
        if "success" in self._data:
            info["success"] = self._data["success"]
        return info
