"""The attention that layers of transformers call in our packs. Everything else of a layer is transformers'.

Sequences lie end to end. Windows, which transformers names to the attention itself, and two ways within the placeholders of an image are made here; layers
that carry a state (linear attention) get each sequence as a row of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Literal, Sequence

import torch
from torch import Tensor, nn

from .attention import Segments, dense, packed_attention
from .errors import ConfigError

ATTENTION = "saccade_packed"
State = tuple[Tensor, Tensor]
"""Of a recurrent layer: the last inputs of its convolution, and its memory. The first dimension counts sequences."""


@dataclass(frozen=True)
class Rows:
    """Sequences of a pack, as the attention needs them. `groups` [T]: the number of the image that a placeholder belongs to, −1 elsewhere. `compute`: autocast
    leaves what follows a norm in 32 bits."""

    segments: Segments
    lengths: tuple[int, ...]
    groups: Tensor | None
    two_way: Literal["", "all", "windows"]
    compute: torch.dtype

    def attend(self, module: nn.Module, q: Tensor, k: Tensor, v: Tensor, scale: float | None, window: int | None) -> Tensor:
        q, k, v = (x.to(self.compute) for x in (q, k, v))
        groups = self.groups if self.two_way == "all" or window is not None else None
        # Lengths are asked only where they are needed: a compiled layer would be compiled anew for others.
        window = None if window is None or window >= max(self.lengths) else window
        if groups is None and window is None:
            return packed_attention(q, k, v, self.segments, causal=True, scale=scale)
        cut = (x.split(list(self.lengths)) for x in (q, k, v))
        each = groups.split(list(self.lengths)) if groups is not None else [None] * len(self.lengths)
        parts = []
        for *part, group in zip(*cut, each):
            count = len(part[0])
            mask = visible(torch.arange(count, device=q.device), count, window, group)
            parts.append(dense(*(x.transpose(0, 1)[None] for x in part), mask=mask, scale=scale)[0].transpose(0, 1))
        return torch.cat(parts)

    def recur(self, module: nn.Module, forward: Any, x: Tensor) -> Tensor:
        """Sequences below each other, filled up behind: what comes later changes nothing before it."""
        rows = nn.utils.rnn.pad_sequence(x[0].split(list(self.lengths)), batch_first=True)
        out = forward(rows)
        return torch.cat([row[:length] for row, length in zip(out, self.lengths)])[None]


def visible(places: Tensor, count: int, window: int | None, groups: Tensor | None) -> Tensor:
    """[queries, count]: which of the first `count` ids those at `places` see. A window bounds the view backwards, two-way groups included."""
    to = torch.arange(count, device=places.device)
    seen = to[None] <= places[:, None]
    if groups is not None:
        mine = groups[places]
        seen |= (mine[:, None] == groups[None, :count]) & (mine[:, None] >= 0)
    if window is not None:
        seen &= to[None] > places[:, None] - window
    return seen


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float | None = None,
    sliding_window: int | None = None, softcap: float | None = None, saccade: Any = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """What transformers calls in each layer of the body: [1, heads, T, d] → [1, T, heads, d]."""
    if saccade is None:
        raise ConfigError("This model's layers do not hand our arguments to their attention; it must run as a family that nobody described.")
    if softcap is not None:
        raise ConfigError("Attention with capped scores is not supported.")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return saccade.attend(module, q, k, v, scaling, sliding_window)[None], None


def register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, attention)
    # Who sees whom is decided in our attention: no mask is built.
    AttentionMaskInterface.register(ATTENTION, lambda *_, **__: None)


def make_restart(layer: nn.Module) -> None:
    """A recurrent layer asks the rows of a pack where its sequences begin."""
    forward = type(layer).forward

    def restarting(self: nn.Module, hidden_states: Tensor, saccade: Any = None, **_: Any) -> Tensor:
        return saccade.recur(self, partial(forward, self), hidden_states)

    # Of the class, not of the module: snapshots are copies, and a method bound to a module would compute with that module's weights.
    kind = type(layer)
    layer.__class__ = type(kind.__name__, (kind,), {"forward": restarting, "__module__": kind.__module__})


def make_narrow(module: nn.Module) -> None:
    """Weights of experts, which autocast does not know, are cast where they are used."""
    names = tuple(name for name, weight in module._parameters.items() if weight is not None and weight.dim() == 3)
    module.__class__ = _narrow(type(module), names)


@lru_cache(maxsize=None)
def _narrow(kind: type[nn.Module], names: tuple[str, ...]) -> type[nn.Module]:
    """One class for all layers: what is compiled for one serves the others."""

    def cast(name: str) -> property:
        def read(self: nn.Module) -> Tensor:
            weight: Tensor = self._parameters[name]  # type: ignore[assignment]
            device = weight.device.type
            return weight.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else weight

        return property(read)

    return type(kind.__name__, (kind,), {**{name: cast(name) for name in names}, "__module__": kind.__module__})


class Carried:
    """States as a recurrent layer of transformers asks for them, of some sequences at once. Its words change within transformers 5; these are all of them."""

    def __init__(self, layer: int, states: Sequence[State] | None) -> None:
        self.layer = layer
        self.conv, self.memory = (None, None) if states is None else (torch.cat([state[i] for state in states]) for i in (0, 1))

    def has_previous_state(self, layer: int | None = None, state_idx: int = 0) -> bool:
        return self.conv is not None

    @property
    def layers(self) -> dict[int, Any]:
        return {self.layer: SimpleNamespace(conv_states=[self.conv], recurrent_states=[self.memory], record_past=False)}

    def is_recording_past(self, layer: int) -> bool:
        return False

    def get_conv_state(self, layer: int, state_idx: int = 0) -> Tensor | None:
        return self.conv

    def get_recurrent_state(self, layer: int, state_idx: int = 0) -> Tensor | None:
        return self.memory

    def update_conv_state(self, inputs: Tensor, layer: int, conv_kernel_size: int, **_: Any) -> Tensor:
        whole = inputs if self.conv is None else torch.cat([self.conv, inputs], -1)
        whole = nn.functional.pad(whole, (max(0, conv_kernel_size - whole.shape[-1]), 0))
        self.conv = whole[..., -conv_kernel_size:].clone()
        return whole

    def update_recurrent_state(self, memory: Tensor, layer: int, **_: Any) -> Tensor:
        self.memory = memory
        return memory

    def apart(self) -> list[State]:
        assert self.conv is not None and self.memory is not None
        # Each its own: a sequence that waits must not keep those it was computed with.
        return [(conv.clone(), memory.clone()) for conv, memory in zip(self.conv.split(1), self.memory.split(1))]
