"""What the optimizer remembers of each parameter: 32 bits a number, or 8.

In 8 bits a tensor is cut into blocks of 256 with one 32-bit scale each, the block's largest magnitude; a code names one of 256 levels that are spaced evenly
in their logarithm. Rounding is random and right on average: a moment that decays by a thousandth a step would otherwise stay where it is. The random numbers
follow from the name and the step, so a run that resumes does what it would have done. A level is stored exactly, so a checkpoint changes nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .seeds import mix_seed

BLOCK = 256
DECADES = {"first": 5.0, "second": 7.0}
"""From the smallest level that is not 0 to the largest. Second moments are squares."""
TOGETHER = 2**26
"""Numbers that are in 32 bits at once."""


class Moments:
    """32 bits: what is read is what is kept."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], kind: str) -> None:
        self.kind = kind
        self._kept = {name: torch.zeros_like(p, requires_grad=False) for name, p in parameters.items()}

    def __getitem__(self, name: str) -> Tensor:
        return self._kept[name]

    def put(self, name: str, value: Tensor, step: int | None) -> None:
        """`step`: of the update that made it; none: it was read from a file."""
        mine = self._kept[name]
        if mine is not value:
            mine.copy_(value)

    def zero(self) -> None:
        for tensor in self._kept.values():
            tensor.zero_()

    def names(self) -> list[str]:
        return list(self._kept)

    def batches(self, names: list[str]) -> list[list[str]]:
        return [names]

    @property
    def bytes(self) -> int:
        return sum(local(tensor).nbytes for tensor in self._kept.values())


class SmallMoments(Moments):
    """8 bits. Of a tensor in pieces, each rank keeps the blocks of its own piece."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], kind: str) -> None:
        self.kind = kind
        self._parameters = parameters
        self._codes: dict[str, Tensor] = {}
        self._scales: dict[str, Tensor] = {}
        for name, parameter in parameters.items():
            mine = local(parameter.detach())
            blocks = -(-mine.numel() // BLOCK)
            self._codes[name] = torch.zeros(blocks * BLOCK, dtype=torch.uint8, device=mine.device)
            self._scales[name] = torch.zeros(blocks, device=mine.device)
        self.zero()

    def __getitem__(self, name: str) -> Tensor:
        parameter = self._parameters[name].detach()
        mine = local(parameter)
        codes, scales = self._codes[name], self._scales[name]
        values = (levels(self.kind, codes.device)[codes.int()].view(-1, BLOCK) * scales[:, None]).flatten()[: mine.numel()].view(mine.shape)
        if mine is parameter:
            return values
        from torch.distributed.tensor import DTensor

        return DTensor.from_local(values, parameter.device_mesh, parameter.placements, shape=parameter.shape, stride=parameter.stride())

    def put(self, name: str, value: Tensor, step: int | None) -> None:
        flat = local(value).float().flatten()
        blocks = F.pad(flat, (0, -len(flat) % BLOCK)).view(-1, BLOCK)
        scales = blocks.abs().amax(1)
        x = blocks / torch.where(scales > 0, scales, 1.0)[:, None]
        table = levels(self.kind, flat.device)
        if self.kind == "second":
            # Rounded to 0 below its square root, a first moment would move without bounds.
            x = torch.where(x > 0, x.clamp(min=float(table[1])), 0.0)
        # Between `low` and the next level.
        low = (torch.searchsorted(table, x, right=True) - 1).clamp(0, len(table) - 2)
        share = (x - table[low]) / (table[low + 1] - table[low])
        if step is None:
            up = share >= 0.5
        else:
            generator = torch.Generator(flat.device).manual_seed(mix_seed("moments", self.kind, name, step))
            up = torch.rand(x.shape, generator=generator, device=flat.device) < share
        self._codes[name].copy_((low + up).to(torch.uint8).flatten())
        self._scales[name].copy_(scales)

    def zero(self) -> None:
        zero = int((levels(self.kind, torch.device("cpu")) == 0).nonzero()[0, 0])
        for codes, scales in zip(self._codes.values(), self._scales.values()):
            codes.fill_(zero)
            scales.zero_()

    def names(self) -> list[str]:
        return list(self._codes)

    def batches(self, names: list[str]) -> list[list[str]]:
        found: list[list[str]] = []
        room = 0
        for name in names:
            count = len(self._codes[name])
            if not found or count > room:
                found.append([])
                room = TOGETHER
            found[-1].append(name)
            room -= count
        return found

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for kept in (self._codes, self._scales) for tensor in kept.values())


def moments_of(parameters: Mapping[str, nn.Parameter], small: bool) -> tuple[Moments, Moments]:
    kind = SmallMoments if small else Moments
    first, second = (kind(parameters, name) for name in ("first", "second"))
    return first, second


def local(tensor: Tensor) -> Tensor:
    """Of a tensor in pieces, the piece that lies here."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


@lru_cache(maxsize=8)
def levels(kind: str, device: torch.device) -> Tensor:
    """Rising. `first`: −1 to 1 with 127 on each side of 0; `second`: 0 to 1."""
    if kind == "second":
        positive = torch.logspace(-DECADES[kind], 0, 255, dtype=torch.float64)
        return torch.cat([torch.zeros(1, dtype=torch.float64), positive]).float().to(device)
    positive = torch.logspace(-DECADES[kind], 0, 127, dtype=torch.float64)
    return torch.cat([-positive.flip(0), torch.zeros(1, dtype=torch.float64), positive]).float().to(device)
