"""Where tokens and patches stand, and the rotary angles that follow from it. Always in 32 bits: rounded angles lose long contexts.

A text token counts up on three axes together (time, height, width); the tokens of an image share one time and spread over height and width, and
the text after it goes on at start + max(height, width) in merged cells.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Sequence

import numpy as np
import torch
from torch import Tensor


def token_positions(count: int, spans: Sequence[tuple[int, int, int]], merge: int) -> tuple[np.ndarray, int]:
    """Positions [3, count] and the one after. A span is (start, grid height, grid width), the grid in patches."""
    out = np.empty((3, count), dtype=np.int64)
    position = row = 0
    for start, grid_h, grid_w in spans:
        out[:, row:start] = np.arange(position, position + start - row)
        position += start - row
        h, w = grid_h // merge, grid_w // merge
        row = start + h * w
        out[:, start:row] = cells(h, w) + position
        position += max(h, w)
    out[:, row:] = np.arange(position, position + count - row)
    return out, position + count - row


@lru_cache(maxsize=256)
def cells(h: int, w: int) -> np.ndarray:
    """Time, row and column of an image's tokens [3, h · w], from 0."""
    return np.stack([np.zeros(h * w, dtype=np.int64), np.repeat(np.arange(h), w), np.tile(np.arange(w), h)])


@lru_cache(maxsize=256)
def patch_places(grid_h: int, grid_w: int, merge: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each patch, in merge-block order: the patches of one token are neighbours."""
    shape = (grid_h // merge, merge, grid_w // merge, merge)
    rows, columns = np.meshgrid(np.arange(grid_h), np.arange(grid_w), indexing="ij")
    return tuple(x.reshape(shape).swapaxes(1, 2).reshape(-1) for x in (rows, columns))  # type: ignore[return-value]


def frequencies(theta: float, width: int, device: torch.device) -> Tensor:
    return 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)


class TextRotary:
    """cos and sin of the language model's heads. `section` says how many frequencies each axis turns."""

    def __init__(self, theta: float, head_dim: int, section: Sequence[int], interleaved: bool, device: torch.device) -> None:
        half = head_dim // 2
        axis = torch.zeros(half, dtype=torch.long)
        if interleaved:
            for which in (1, 2):
                axis[which : section[which] * 3 : 3] = which
        else:
            axis = torch.repeat_interleave(torch.arange(3), torch.tensor(list(section)))
        self.axis = axis.to(device)
        self.frequencies = frequencies(theta, head_dim, device)

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions [3, T] → cos, sin [T, 1, head_dim]."""
        angles = positions[self.axis].T.float() * self.frequencies
        angles = torch.cat((angles, angles), -1)[:, None]
        return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [T, heads, d]."""
    wide = x.float()
    first, second = wide.chunk(2, -1)
    return (wide * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)
