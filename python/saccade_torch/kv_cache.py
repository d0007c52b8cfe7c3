"""Keys and values of sequences: [layers][slots, length, heads, d]. A sequence owns a slot between its turns; when slots run short, the sequence
that waited longest gives up its own, once it has waited for `GRACE`. All slots are as long as the longest sequence needed so far, rounded up by at most
half; there are as many as were needed at once, up to a number of bytes. Nothing is taken before the first sequence: a model that only scores never samples.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .attention import bucket
from .network import Network
from .prefixes import Prefixes

SMALLEST = {"cpu": 256, "cuda": 1024}
FEWEST = {"cpu": 16, "cuda": 64}
"""Length and number of slots to begin with. On CUDA every change voids the captured graphs."""
MOST_BYTES = {"cpu": 1024**3, "cuda": 32 * 1024**3}
MOST_SLOTS = 512
GRACE = 0.5
"""Seconds. An environment answers sooner than that, as a rule. Without it, more episodes than slots would take the slots from each other at every turn, and each
would compute all of its history again."""


def roomy(length: int) -> int:
    """The next power of two, or three quarters of it where that suffices: growing costs a copy of everything, and what is too long costs slots.
    src/engine/torch/memory.ts counts with the same."""
    most = bucket(length)
    return most * 3 // 4 if length <= most * 3 // 4 else most


@dataclass(eq=False)
class Held:
    """The first `filled` of a sequence lie in `slot`."""

    slot: int
    signature: np.ndarray
    prompt: int = 0
    """Ids of the last prompt; what follows was sampled."""
    filled: int = 0
    active: bool = False
    released: bool = False
    """The episode is over: goes when it is no longer active."""
    since: float = 0.0
    """When its last turn ended."""
    states: dict[int, Any] = field(default_factory=dict)
    """Of recurrent layers, after the first `filled`."""

    @property
    def computing(self) -> bool:
        """More of its prompt will be there soon."""
        return self.active and self.filled < self.prompt


@dataclass
class KvCache:
    network: Network
    most_bytes: int
    length: int = 0
    slots: int = 0
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    """By sequence, in the order of their last turn."""
    free: list[int] = field(default_factory=list)
    generation: int = 0
    """Grows when the tensors are new: what was captured over the old ones is void."""
    prefixes: Prefixes[Held] = field(default_factory=Prefixes)

    @staticmethod
    def of(network: Network, most_bytes: int | None = None) -> KvCache:
        return KvCache(network, most_bytes or MOST_BYTES.get(network.device.type, MOST_BYTES["cpu"]))

    def room(self) -> bool:
        """Whether a new sequence would get a slot."""
        return bool(self.free) or self.slots < self.most(max(self.length, self._smallest)) or self._idle() is not None

    def _idle(self) -> str | None:
        """The sequence that waited longest, if that is long."""
        late = time.monotonic() - GRACE
        return next((name for name, held in self.held.items() if not held.active and held.since <= late), None)

    def take(self, sequence: str, signature: np.ndarray) -> Held | None:
        """A slot for a new sequence, or none while all are in use."""
        if self.slots == 0:
            self._allocate(self._smallest, 0, FEWEST.get(self.network.device.type, FEWEST["cpu"]))
        if not self.free and self.slots < self.most(self.length):
            self._allocate(self.length, self.length, 4 * self.slots)
        if not self.free:
            idle = self._idle()
            if idle is None:
                return None
            self.drop(idle)
        held = Held(self.free.pop(), signature)
        self.held[sequence] = held
        return held

    def sign(self, held: Held, signature: np.ndarray, prompt: int, same: int) -> None:
        """Says what a slot will hold, of which the first `same` were said before."""
        held.signature, held.prompt = signature, prompt
        self.prefixes.add(held, same)

    def drop(self, sequence: str) -> None:
        held = self.held.pop(sequence, None)
        if held is not None:
            self.prefixes.remove(held)
            self.free.append(held.slot)

    def settle(self, sequence: str, failed: bool) -> None:
        """A sample is over. After an error nobody knows what the slot holds."""
        held = self.held.get(sequence)
        if held is None:
            return
        held.active, held.since = False, time.monotonic()
        if failed or held.released:
            self.drop(sequence)
        else:
            self.held[sequence] = self.held.pop(sequence)

    def release(self, sequence: str) -> None:
        held = self.held.get(sequence)
        if held is None:
            return
        held.released = True
        if not held.active:
            self.drop(sequence)

    def clear(self) -> None:
        for sequence in list(self.held):
            self.drop(sequence)

    def copy(self, source: int, target: int, count: int) -> None:
        tensors = (*self.keys, *self.values)
        torch._foreach_copy_([tensor[target, :count] for tensor in tensors], [tensor[source, :count] for tensor in tensors])

    def reach(self, length: int) -> None:
        """Makes every slot at least this long."""
        if length > self.length:
            self._allocate(max(self._smallest, roomy(length)), self.length, self.slots)

    @property
    def _smallest(self) -> int:
        return SMALLEST.get(self.network.device.type, SMALLEST["cpu"])

    def most(self, length: int) -> int:
        """Slots of this length."""
        each = 2 * length * sum(heads * width for _, heads, width in self.network.caches) * self.network.compute.itemsize + self.network.state_bytes
        return max(1, min(MOST_SLOTS, self.most_bytes // each))

    def _allocate(self, length: int, keep: int, wanted: int) -> None:
        dtype = self.network.compute
        active = sum(held.active for held in self.held.values())
        slots = max(active, min(wanted, self.most(length)))
        # Idle sequences that no longer fit go, those that waited longest first.
        for name in [name for name, held in self.held.items() if not held.active]:
            if len(self.held) <= slots:
                break
            self.drop(name)
        moved = {held.slot: place for place, held in enumerate(self.held.values())}
        old, new = list(moved), list(moved.values())
        for kind in ("keys", "values"):
            layers = getattr(self, kind) or [None] * self.network.depth
            for index, ((_, heads, width), tensor) in enumerate(zip(self.network.caches, layers)):
                # One slot more, for rows that only fill a batch.
                wide = torch.zeros(slots + 1, length, heads, width, dtype=dtype, device=self.network.device)
                if tensor is not None and old:
                    wide[new, :keep] = tensor[old, :keep]
                layers[index] = wide
            setattr(self, kind, layers)
        for held in self.held.values():
            held.slot = moved[held.slot]
        self.length, self.slots = length, slots
        self.free = [slot for slot in range(slots - 1, -1, -1) if slot not in set(new)]
        self.generation += 1
