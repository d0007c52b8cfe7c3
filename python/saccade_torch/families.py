"""Other vision-language models, through the modules that transformers has for them. A family is described, not copied: where its parts are and what its
attention needs. The body gets sequences end to end through an attention of ours, with positions that start again at each; everything else of a layer is
transformers'. A model that nobody described runs whole, one sequence at a time, as transformers means it: slower, and said once.

Attention that a described family may need: windows, which transformers names to the attention itself, and two ways within the placeholders of a picture.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .attention import dense, packed_attention, to_device
from .attention import Segments
from .errors import ConfigError, DataError
from .frames import Frame
from .modules import linear
from .network import Features, Head, Pack, Tokens, check_tokens, public_name, vision_token_ids
from .scores import score_rows, token_scores
from .sight import alike, sight_of, stacked

ATTENTION = "saccade_packed"


@dataclass(frozen=True)
class Family:
    """Paths of modules. `sees`: tower, projector and what else belongs to sight. `two_way`: placeholders of one picture see each other."""

    name: str
    body: str = "model.language_model"
    sees: tuple[str, ...] = ("model.vision_tower", "model.multi_modal_projector")
    two_way: bool = False


IDEFICS = dict(body="model.text_model", sees=("model.vision_model", "model.connector"))
FAMILIES = {
    "gemma3": Family("Gemma 3", two_way=True),
    "idefics3": Family("Idefics3", **IDEFICS),  # type: ignore[arg-type]
    "internvl": Family("InternVL"),
    "llava_onevision": Family("LLaVA-OneVision", sees=("model.vision_tower", "model.multi_modal_projector", "model.image_newline")),
    "mistral3": Family("Mistral 3"),
    "smolvlm": Family("SmolVLM", **IDEFICS),  # type: ignore[arg-type]
}
"""By `model_type`. docs/guide/pytorch.md has the same table, with what was tested."""


@dataclass(frozen=True)
class Rows:
    """Sequences of a pack, as the attention needs them. `groups` [T]: the number of the picture that a placeholder belongs to, −1 elsewhere."""

    segments: Segments
    lengths: tuple[int, ...]
    groups: Tensor | None

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float | None, window: int | None) -> Tensor:
        longest = max(self.lengths)
        window = None if window is None or window >= longest else window
        if self.groups is None and window is None:
            return packed_attention(q, k, v, self.segments, causal=True, scale=scale)
        cut = (x.split(list(self.lengths)) for x in (q, k, v))
        groups = self.groups.split(list(self.lengths)) if self.groups is not None else [None] * len(self.lengths)
        parts = []
        for *part, group in zip(*cut, groups):
            count = len(part[0])
            mask = visible(torch.arange(count, device=q.device), count, window, group)
            parts.append(dense(*(x.transpose(0, 1)[None] for x in part), mask=mask, scale=scale)[0].transpose(0, 1))
        return torch.cat(parts)


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
    return saccade.attend(module.layer_idx, q, k, v, scaling, sliding_window)[None], None


def register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, attention)
    # Who sees whom is decided in our attention: no mask is built.
    AttentionMaskInterface.register(ATTENTION, lambda *_, **__: None)


@dataclass(frozen=True)
class FamilyPack(Pack):
    sequences: tuple[Tokens, ...]
    rows_of: Rows


_told: set[str] = set()


class FamilyNetwork(nn.Module):
    """With the face of `Network`."""

    compiled = False
    sharded = False
    ranks = 1

    def __init__(self, folder: str, kind: str, head: Head, compute: torch.dtype, device: torch.device, trained: bool) -> None:
        super().__init__()
        from transformers import AutoModelForImageTextToText

        self.folder, self.head, self.compute, self.device = folder, head, compute, device
        self.family = FAMILIES.get(kind)
        self.own = False
        """Its layers are not ours."""
        try:
            model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32 if trained else compute, attn_implementation="sdpa")
        except Exception as problem:
            raise ConfigError(f"{folder}: transformers can't open it as an image-text model ({problem}).") from problem
        self.model = model.eval().to(device)
        self.config = model.config
        text = self.config.get_text_config()
        self.context = int(text.max_position_embeddings)
        self.vocabulary = int(text.vocab_size)
        self.depth = int(text.num_hidden_layers)
        self.kv_heads = int(getattr(text, "num_key_value_heads", None) or text.num_attention_heads)
        self.head_dim = int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
        image = getattr(self.config, "image_token_id", None)
        self.image = int(self.config.image_token_index if image is None else image)
        if self.family is None:
            if head == "value":
                raise ConfigError(f"{folder}: a critic needs a family that Saccade knows; {kind} is not one. Known: {', '.join(sorted(FAMILIES))}.")
            if kind not in _told:
                _told.add(kind)
                print(f"saccade_torch: {kind} runs one sequence at a time, which is slow: nobody has described this family yet.", file=sys.stderr, flush=True)
        else:
            register()
            # Set like this, no name is looked for on a hub; the tower keeps its own attention.
            self.body.config._attn_implementation_internal = ATTENTION
            if getattr(self.model.get_output_embeddings(), "bias", None) is not None:
                raise ConfigError(f"{folder}: a language head with a bias is not supported.")
        self.score = nn.Linear(int(text.hidden_size), 1, bias=False, device=device) if head == "value" else None
        if head == "value":
            self.model.lm_head = nn.Identity()
        self.format = sight_of(folder, self.image)
        self.banned = frozenset(id for id in vision_token_ids(self.config) | self.format.vision_ids() if id < self.vocabulary)
        self.bias = torch.zeros(self.vocabulary, device=device)
        self.bias[sorted(self.banned)] = float("-inf")
        self._takes = set(inspect.signature(self.model.model.get_image_features if hasattr(self.model, "model") else self.model.forward).parameters)
        self._checkpointing = False

    @property
    def body(self) -> nn.Module:
        assert self.family is not None
        return self.model.get_submodule(self.family.body)

    @property
    def checkpointing(self) -> bool:
        return self._checkpointing

    @checkpointing.setter
    def checkpointing(self, on: bool) -> None:
        self._checkpointing = on
        if on:
            # Its name changes within transformers 5.
            enable = getattr(self.model, "activation_checkpointing_enable", None) or self.model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
            # transformers asks whether a layer is in training; what is inside it stays as it is, so nothing is dropped.
            for layer in self.body.layers if self.family else ():
                layer.training = True

    def sees(self, name: str) -> bool:
        """Whether a parameter or module belongs to sight."""
        prefixes = self.family.sees if self.family else ("model.vision", "model.visual", "model.multi_modal_projector", "model.connector")
        return name.startswith(prefixes)

    def named(self) -> dict[str, nn.Parameter]:
        return {public_name(name): parameter for name, parameter in self.named_parameters()}

    def as_files(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Under the names that this model's files use, which may be older than those of transformers' modules."""
        from transformers.core_model_loading import revert_weight_conversion

        return dict(revert_weight_conversion(self.model, tensors))

    def read(self, folder: str) -> dict[str, Tensor]:
        """Weights of a folder, by the names of modules."""
        from transformers import AutoModelForImageTextToText

        model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
        return {name: parameter.detach() for name, parameter in model.named_parameters()}

    def to_device(self, array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(np.ascontiguousarray(array)), self.device)

    def check(self, sequence: Tokens) -> None:
        check_tokens(self, sequence)

    def positions(self, row: Tokens) -> tuple[np.ndarray, int]:
        count = len(row.ids)
        return np.broadcast_to(np.arange(count), (3, count)), count

    def output_weight(self) -> Tensor:
        return self.model.get_output_embeddings().weight

    def last(self, hidden: Tensor) -> Tensor:
        """The body's last norm is part of it."""
        return hidden.to(self.compute)

    def narrow(self) -> AbstractContextManager[Any]:
        """Products in the dtype of the computation, though trained weights have 32 bits."""
        return nullcontext() if self.compute == torch.float32 else torch.autocast(self.device.type, self.compute)

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
        two_way = self.family is not None and self.family.two_way and bool(to)
        return FamilyPack(
            ids=self.to_device(np.concatenate([sequence.ids for sequence in sequences]).astype(np.int64)),
            positions=self.to_device(np.concatenate([np.arange(length) for length in lengths])),
            segments=segments,
            frames=tuple(frames.values()),
            rows=self.to_device(joined(rows)),
            to=self.to_device(joined(to)),
            sequences=tuple(sequences),
            rows_of=Rows(segments, tuple(lengths), self.to_device(np.concatenate(groups)) if two_way else None),
        )

    @property
    def cuts(self) -> bool:
        """Whether a prompt may be computed in pieces that end within a picture."""
        return self.family is not None and not self.family.two_way

    def placeholders(self, sequence: Tokens, start: int, length: int) -> np.ndarray:
        """Between them a processor may write other tokens, such as those that end a row."""
        return start + np.nonzero(sequence.ids[start : start + length] == self.image)[0]

    def forward(self, pack: FamilyPack, wanted: Tensor, targets: Tensor, inverse: Tensor, features: Features | None = None) -> tuple[Tensor, Tensor | None]:
        if self.family is None:
            logits = torch.cat([self._whole(sequence) for sequence in pack.sequences])[wanted].float()
            logprobs, entropy, _ = score_rows(logits, inverse, self.bias.clamp(min=-1e30), targets)
            return logprobs, entropy
        if features is None and pack.frames:
            features = self.encode(pack.frames)
        hidden = self.last(self.hidden(pack, features)[wanted])
        if self.score is not None:
            return linear(self.score, hidden.float()).sum(-1), None
        return token_scores(hidden, self.output_weight(), targets, inverse, self.bias)

    def hidden(self, pack: FamilyPack, features: Features | None) -> Tensor:
        """Rows after the last norm."""
        return self.through(self.embed(pack.ids, features, pack.rows, pack.to), pack.positions, pack.rows_of)

    def through(self, x: Tensor, positions: Tensor, rows: Any) -> Tensor:
        """The body over rows end to end; `rows` answers its attention."""
        with self.narrow():
            return self.body(inputs_embeds=x[None], position_ids=positions[None], use_cache=False, saccade=rows).last_hidden_state[0]

    def embed(self, ids: Tensor, features: Features | None, rows: Tensor, to: Tensor) -> Tensor:
        # A placeholder may lie outside the vocabulary, and its row is written over.
        x = self.body.get_input_embeddings()(torch.where(ids == self.image, 0, ids))
        return x if features is None or len(to) == 0 else x.index_copy(0, to, features.main[rows].to(x.dtype))

    def encode(self, frames: Sequence[Frame]) -> Features:
        """The tower and projector over pictures of any sizes; those that fit into one batch go together."""
        if self.family is None:
            # Such a model sees its pictures with their sequence.
            return Features(torch.zeros(sum(self.format.tokens(frame) for frame in frames), 0), ())
        pictures = [self.format.of(frame) for frame in frames]
        found: dict[int, Tensor] = {}
        for places in alike(pictures):
            group = [pictures[place] for place in places]
            inputs = {name: tensor for name, tensor in stacked(group, self.device).items() if name in self._takes}
            with self.narrow():
                seen = self.model.model.get_image_features(**inputs, return_dict=True).pooler_output
            rows = flat(seen)
            sizes = [one.tokens for one in group]
            if len(rows) != sum(sizes):
                raise DataError(f"The tower makes {len(rows)} rows of pictures whose prompts have {sum(sizes)} placeholders: processor and model do not belong together.")
            found.update(zip(places, rows.split(sizes)))
        return Features(torch.cat([found[place] for place in range(len(pictures))]), ())

    def _whole(self, sequence: Tokens) -> Tensor:
        """Logits of a model that nobody described: all of it is transformers'."""
        ids = self.to_device(sequence.ids.astype(np.int64))[None]
        inputs: dict[str, Any] = {}
        if sequence.spans:
            pictures = [self.format.of(span.frame) for span in sequence.spans]
            if len(alike(pictures)) > 1:
                raise DataError("Images of one sequence must have one size for a family that nobody described. Make them alike.")
            inputs = stacked(pictures, self.device)
        takes = inspect.signature(self.model.forward).parameters
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in takes:
                inputs[name] = (ids == self.image).int()
        inputs = {name: tensor for name, tensor in inputs.items() if name in takes}
        with self.narrow():
            return self.model(input_ids=ids, use_cache=False, **inputs).logits[0]


def flat(seen: Any) -> Tensor:
    """Rows of pictures, one below the other."""
    parts = seen if isinstance(seen, (list, tuple)) else [seen]
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])
