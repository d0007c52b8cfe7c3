"""Other vision-language models, through the modules that transformers has for them. A family is described (`kinds.py`), not copied. The body gets sequences
end to end through an attention of ours (`family_attention.py`), with positions that start again at each; everything else of a layer is transformers'. A model
that nobody described runs whole, in padded batches, as transformers means it (`whole.py`): slower, and said once.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .attention import Segments, to_device
from .errors import ConfigError, DataError
from .family_attention import ATTENTION, Rows, make_narrow, make_restart, register
from .frames import Frame
from .kinds import FAMILIES
from .modules import linear
from .network import Features, Head, Pack, Tokens, banned_ids, check_tokens, open_model, patch_format, public_name, vision_token_ids
from .rotary import token_positions
from .scores import token_scores
from .sight import alike, sight_of, stacked


@dataclass(frozen=True)
class FamilyPack(Pack):
    rows_of: Rows


class Borrowed(nn.Module):
    """A model of transformers with the face of `Network`."""

    own = False
    """Its layers are not ours."""
    compiled = False
    sharded = False
    ranks = 1
    cuts = True
    recurrent = False
    state_bytes = 0

    def __init__(self, folder: str, head: Head, compute: torch.dtype, device: torch.device, trained: bool, place: torch.device | None = None) -> None:
        super().__init__()
        self.folder, self.head, self.compute, self.device = folder, head, compute, device
        self.model = open_model(folder, torch.float32 if trained else compute).to(place or device)
        self.config = self.model.config
        text = self.config.get_text_config()
        self.context = int(text.max_position_embeddings)
        self.vocabulary = int(text.vocab_size)
        self.depth = int(text.num_hidden_layers)
        image = getattr(self.config, "image_token_id", None)
        self.image = int(self.config.image_token_index if image is None else image)
        self.score = nn.Linear(int(text.hidden_size), 1, bias=False, device=place or device) if head == "value" else None
        if head == "value":
            self.model.lm_head = nn.Identity()
        self.format: Any = self._format()
        self.banned = frozenset(id for id in self._never() if id < self.vocabulary)
        self.bias = torch.zeros(self.vocabulary, device=device)
        self.bias[sorted(self.banned)] = float("-inf")
        self._checkpointing = False

    def _format(self) -> Any:
        return sight_of(self.folder, self.image)

    def _never(self) -> set[int]:
        """Ids that can't be sampled: images are put into a sequence by us alone."""
        return vision_token_ids(self.config) | self.format.vision_ids()

    @property
    def checkpointing(self) -> bool:
        return self._checkpointing

    @checkpointing.setter
    def checkpointing(self, on: bool) -> None:
        from transformers.modeling_layers import GradientCheckpointingLayer

        self._checkpointing = on
        if on:
            # Its name changes within transformers 5.
            enable = getattr(self.model, "activation_checkpointing_enable", None) or self.model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
            # transformers asks whether a layer is in training; what is inside it stays as it is, so nothing is dropped.
            for layer in self.model.modules():
                if isinstance(layer, GradientCheckpointingLayer):
                    layer.training = True

    def named(self) -> dict[str, nn.Parameter]:
        return {public_name(name): parameter for name, parameter in self.named_parameters()}

    def as_files(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Under the names that this model's files use, which may be older than those of transformers' modules, with what is kept beside weights."""
        from transformers.core_model_loading import revert_weight_conversion

        kept = self.model.state_dict().keys()
        buffers = {name: buffer for name, buffer in self.model.named_buffers() if name in kept}
        return dict(revert_weight_conversion(self.model, buffers | tensors))

    def read(self, folder: str) -> dict[str, Tensor]:
        """Weights of a folder, by the names of modules."""
        return {name: parameter.detach() for name, parameter in open_model(folder, torch.float32).named_parameters()}

    def to_device(self, array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(np.ascontiguousarray(array)), self.device)

    def check(self, sequence: Tokens) -> None:
        check_tokens(self, sequence)

    def narrow(self) -> AbstractContextManager[Any]:
        """Products in the dtype of the computation, though trained weights have 32 bits."""
        return nullcontext() if self.compute == torch.float32 else torch.autocast(self.device.type, self.compute)

    def placeholders(self, sequence: Tokens, start: int, length: int) -> np.ndarray:
        """Between them a processor may write other tokens, such as those that end a row."""
        return start + np.nonzero(sequence.ids[start : start + length] == self.image)[0]

    def output_weight(self) -> Tensor:
        return self.model.get_output_embeddings().weight


class FamilyNetwork(Borrowed):
    def __init__(self, folder: str, kind: str, head: Head, compute: torch.dtype, device: torch.device, trained: bool, place: torch.device | None = None) -> None:
        self.family = FAMILIES[kind]
        super().__init__(folder, head, compute, device, trained, place)
        register()
        # Set like this, no name is looked for on a hub; the tower keeps its own attention.
        self.body.config._attn_implementation_internal = ATTENTION
        if getattr(self.model.get_output_embeddings(), "bias", None) is not None:
            raise ConfigError(f"{folder}: a language head with a bias is not supported.")
        text = self.config.get_text_config()
        # Some models of a family look both ways, others don't.
        self.two_way = "" if self.family.two_way == "windows" and getattr(text, "use_bidirectional_attention", None) != "vision" else self.family.two_way
        self.cuts = not self.two_way
        """Whether a prompt may be computed in pieces that end within an image."""
        self.cap = getattr(text, "final_logit_softcapping", None)
        self.merge = int(getattr(self.config.vision_config, "spatial_merge_size", 1)) if self.family.grid else 1
        self.beside = bool(getattr(text, "hidden_size_per_layer_input", 0))
        """Each layer gets embeddings of its own beside the stream."""
        self.recurrent = bool(self.family.recurrent)
        for name, layer in self.body.named_modules():
            if self.recurrent and name.endswith(f".{self.family.recurrent}"):
                make_restart(layer)
                self.state_bytes += layer.conv_dim * layer.conv_kernel_size * compute.itemsize + 4 * layer.num_v_heads * layer.head_k_dim * layer.head_v_dim
        if trained and compute != torch.float32:
            for layer in list(self.body.modules()):
                if any(weight is not None and weight.dim() == 3 for weight in layer._parameters.values()):
                    make_narrow(layer)
        self.caches = caches_of(self.body)
        self._takes = set(inspect.signature(self.model.model.get_image_features).parameters)

    def _format(self) -> Any:
        if not self.family.patches:
            return super()._format()
        return patch_format(Path(self.folder), self.config.vision_config)

    def _never(self) -> set[int]:
        return set(banned_ids(Path(self.folder), self.config)) if self.family.patches else super()._never()

    @property
    def body(self) -> nn.Module:
        return self.model.get_submodule(self.family.body)

    def sees(self, name: str) -> bool:
        """Whether a parameter or module belongs to sight."""
        return name.startswith(self.family.sees)

    def positions(self, row: Tokens) -> tuple[np.ndarray, int]:
        """[3, ids], and where the first id after them stands."""
        count = len(row.ids)
        if not self.family.grid:
            return np.broadcast_to(np.arange(count), (3, count)), count
        return token_positions(count, [(span.start, *self.format.grid(span.frame)) for span in row.spans], self.merge)

    def last(self, hidden: Tensor) -> Tensor:
        """The body's last norm is part of it."""
        return hidden.to(self.compute)

    def pack(self, sequences: Sequence[Tokens]) -> FamilyPack:
        frames: dict[str, Frame] = {}
        starts: dict[str, int] = {}
        used = at = 0
        rows, to, groups = [], [], []
        for sequence in sequences:
            group = np.full(len(sequence.ids), -1, dtype=np.int64)
            for number, span in enumerate(sequence.spans):
                if span.frame.key not in frames:
                    frames[span.frame.key], starts[span.frame.key] = span.frame, used
                    used += self.format.tokens(span.frame)
                places = self.placeholders(sequence, span.start, span.length)
                group[places] = number
                rows.append(np.arange(len(places)) + starts[span.frame.key])
                to.append(places + at)
            groups.append(group)
            at += len(sequence.ids)
        joined = lambda parts: np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)  # noqa: E731
        lengths = [len(sequence.ids) for sequence in sequences]
        segments = Segments.of(lengths, self.device, self.compute, 4096)
        two_way = self.two_way if to else ""
        return FamilyPack(
            ids=self.to_device(np.concatenate([sequence.ids for sequence in sequences]).astype(np.int64)),
            positions=self.to_device(np.concatenate([self.positions(sequence)[0] for sequence in sequences], axis=1)),
            segments=segments,
            frames=tuple(frames.values()),
            rows=self.to_device(joined(rows)),
            to=self.to_device(joined(to)),
            rows_of=Rows(segments, tuple(lengths), self.to_device(np.concatenate(groups)) if two_way else None, two_way, self.compute),
        )

    def forward(self, pack: FamilyPack, wanted: Tensor, targets: Tensor, inverse: Tensor, features: Features | None = None) -> tuple[Tensor, Tensor | None]:
        if features is None and pack.frames:
            features = self.encode(pack.frames)
        hidden = self.last(self.hidden(pack, features)[wanted])
        if self.score is not None:
            return linear(self.score, hidden.float()).sum(-1), None
        return token_scores(hidden, self.output_weight(), targets, inverse, self.bias, cap=self.cap)

    def hidden(self, pack: FamilyPack, features: Features | None) -> Tensor:
        """Rows after the last norm."""
        return self.through(pack.ids, pack.positions, features, pack.rows, pack.to, pack.rows_of)

    def through(self, ids: Tensor, positions: Tensor, features: Features | None, rows: Tensor, to: Tensor, answers: Any) -> Tensor:
        """The body over rows end to end; `answers` does its attention. Placeholder `to[i]` takes row `rows[i]` of the features."""
        # A placeholder may lie outside the vocabulary, and its row is written over.
        x = self.body.get_input_embeddings()(torch.where(ids == self.image, 0, ids))
        more: dict[str, Any] = {}
        if features is not None and len(to):
            x = x.index_copy(0, to, features.main[rows].to(x.dtype))
            if features.deepstack:
                more["visual_pos_masks"] = torch.zeros_like(ids, dtype=torch.bool).index_fill(0, to, True)[None]
                more["deepstack_visual_embeds"] = [level[rows] for level in features.deepstack]
        if self.beside:
            padded = torch.where(ids == self.image, self.body.config.pad_token_id, ids)
            more["per_layer_inputs"] = self.body.get_per_layer_inputs(padded[None], None)
        places = positions[:, None] if self.family.grid else positions[:1]
        with self.narrow():
            return self.body(inputs_embeds=x[None], position_ids=places, use_cache=False, saccade=answers, **more).last_hidden_state[0]

    def encode(self, frames: Sequence[Frame]) -> Features:
        """The tower and projector over images of any sizes; those that fit into one batch go together."""
        found: dict[int, list[Tensor]] = {}
        for places, inputs in self._batches(frames):
            with self.narrow():
                seen = self.model.model.get_image_features(**inputs, return_dict=True)
            sizes = [self.format.tokens(frames[place]) for place in places]
            levels = [flat(level) for level in (seen.pooler_output, *(getattr(seen, "deepstack_features", None) or ()))]
            if any(len(level) != sum(sizes) for level in levels):
                raise DataError(f"The tower makes {len(levels[0])} rows of images whose prompts have {sum(sizes)} placeholders: processor and model do not belong together.")
            found.update(zip(places, zip(*(level.split(sizes) for level in levels))))
        main, *deep = (torch.cat(level) for level in zip(*(found[place] for place in range(len(frames)))))
        return Features(main, tuple(deep))

    def _batches(self, frames: Sequence[Frame]) -> list[tuple[list[int], dict[str, Tensor]]]:
        """Which images go together, and what the tower takes of them."""
        if self.family.patches:
            grids = [(1, *self.format.grid(frame)) for frame in frames]
            patches = self.format.patches(frames, self.device).to(self.compute)
            return [(list(range(len(frames))), dict(pixel_values=patches, image_grid_thw=torch.tensor(grids, device=self.device)))]
        images = [self.format.of(frame) for frame in frames]
        return [
            (places, {name: tensor for name, tensor in stacked([images[place] for place in places], self.device).items() if name in self._takes})
            for places in alike(images)
        ]


def flat(seen: Any) -> Tensor:
    """Rows of images, one below the other."""
    parts = seen if isinstance(seen, (list, tuple)) else [seen]
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])


def caches_of(body: nn.Module) -> list[tuple[int, int, int]]:
    """Of each layer: whose keys and values it reads (its own, but for layers that share), and how many heads of which width it keeps itself."""
    found: list[tuple[int, int, int]] = []
    kinds: dict[str | None, int] = {}
    for index, layer in enumerate(body.layers):
        attention = getattr(layer, "self_attn", None)
        kind = getattr(attention, "layer_type", None)
        if attention is not None and hasattr(attention, "k_proj"):
            kinds[kind] = index
            found.append((index, attention.k_proj.out_features // attention.head_dim, attention.head_dim))
        else:
            found.append((kinds.get(kind, index), 0, 0))
    return found
