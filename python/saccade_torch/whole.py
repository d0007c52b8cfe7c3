"""A model that nobody described, whole as transformers means it: padded batches instead of packs, and transformers' own generation with its own cache. Slower
than a described family; it says so once. What it computes together it compares with the same computed alone, the first time.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor

from .errors import ConfigError, DataError
from .families import Borrowed
from .frames import Frame
from .kinds import FAMILIES
from .network import Features, Head, Tokens
from .scores import score_rows
from .sight import alike, stacked

TOGETHER = 16
"""Sequences of one batch, at most."""
_told: set[str] = set()


@dataclass(frozen=True)
class Whole:
    sequences: tuple[Tokens, ...]
    frames: tuple[Frame, ...] = ()
    """None are seen ahead: the model sees them with their sequence."""


class WholeNetwork(Borrowed):
    def __init__(self, folder: str, kind: str, head: Head, compute: torch.dtype, device: torch.device, trained: bool, place: torch.device | None = None) -> None:
        if head == "value":
            raise ConfigError(f"{folder}: a critic needs a family that Saccade knows; {kind} is not one. Known: {', '.join(sorted(FAMILIES))}.")
        super().__init__(folder, head, compute, device, trained, place)
        if kind not in _told:
            _told.add(kind)
            print(f"saccade_torch: nobody has described {kind} yet: it runs in padded batches, which is slow.", file=sys.stderr, flush=True)
        self.takes = set(inspect.signature(self.model.forward).parameters)
        self.fits: dict[tuple[bool, bool], bool] = {}
        """Whether a batch gives what its sequences give alone, once that was seen: by whether it is padded before them, and whether it shows images."""

    def sees(self, name: str) -> bool:
        """Whether a parameter or module belongs to sight."""
        return name.startswith(("model.vision", "model.visual", "model.multi_modal_projector", "model.connector", "vision_", "visual.", "multi_modal_projector"))

    def pack(self, sequences: Sequence[Tokens]) -> Whole:
        return Whole(tuple(sequences))

    def forward(self, pack: Whole, wanted: Tensor, targets: Tensor, inverse: Tensor, features: Features | None = None) -> tuple[Tensor, Tensor]:
        ends = np.cumsum([len(sequence.ids) for sequence in pack.sequences])
        whose = np.searchsorted(ends, wanted.cpu().numpy(), side="right")
        found: dict[int, Tensor] = {}
        for batch in self.batches(pack.sequences):
            logits = self.rows([pack.sequences[i] for i in batch])
            for i, rows in zip(batch, logits):
                first = int(ends[i]) - len(pack.sequences[i].ids)
                found[i] = rows[wanted[self.to_device(whose == i)] - first].float()
        logits = torch.cat([found[i] for i in range(len(pack.sequences))])
        # In the order of sequences, as rows are asked for.
        logprobs, entropy, _ = score_rows(logits, inverse, self.bias.clamp(min=-1e30), targets)
        return logprobs, entropy

    def batches(self, sequences: Sequence[Tokens], left: bool = False) -> list[list[int]]:
        """Sequences that go together: those whose images can be laid one below the other. The others go alone, longest first."""
        groups: dict[Any, list[list[int]]] = {}
        for i in sorted(range(len(sequences)), key=lambda i: -len(sequences[i].ids)):
            kind = self._kind(sequences[i])
            batches = groups.setdefault(kind, [])
            if not batches or kind is None or self.fits.get((left, bool(kind))) is False or len(batches[-1]) == TOGETHER:
                batches.append([])
            batches[-1].append(i)
        return [batch for group in groups.values() for batch in group]

    def _kind(self, sequence: Tokens) -> Any:
        """Of its images; None: they have a dimension that counts sequences or tiles."""
        images = [self.format.of(span.frame) for span in sequence.spans]
        if any(tensor.dim() > 4 for one in images for tensor in one.inputs.values()) or len(alike(images)) > 1:
            return None
        return () if not images else tuple(sorted((name, tuple(tensor.shape[1:])) for name, tensor in images[0].inputs.items()))

    def rows(self, sequences: Sequence[Tokens]) -> list[Tensor]:
        """Of each sequence, all of its rows."""
        with self.narrow():
            logits = self.model(**self.inputs(sequences, left=False), use_cache=False).logits
        found = [row[: len(sequence.ids)] for row, sequence in zip(logits, sequences)]
        if len(sequences) > 1 and (False, bool(sequences[0].spans)) not in self.fits:
            with torch.no_grad():
                apart = torch.cat([self.rows([sequence])[0] for sequence in sequences])
            if not self.compare(False, sequences, torch.cat(found).detach(), apart):
                return [self.rows([sequence])[0] for sequence in sequences]
        return found

    def compare(self, left: bool, sequences: Sequence[Tokens], joined: Tensor, apart: Tensor) -> bool:
        """Remembers whether these logits are the same."""
        fits = bool((joined.float() - apart.float()).abs().mean() <= 0.02 * apart.float().std())
        shows = bool(sequences[0].spans)
        self.fits[left, shows] = fits
        if not fits:
            kind = f"{self.config.model_type} {'samples' if left else 'gives'} other numbers in a batch{' with images' if shows else ''}"
            print(f"saccade_torch: {kind}, so its sequences go one by one.", file=sys.stderr, flush=True)
        return fits

    def inputs(self, sequences: Sequence[Tokens], left: bool) -> dict[str, Tensor]:
        """As transformers takes them, padded before or behind."""
        longest = max(len(sequence.ids) for sequence in sequences)
        table = np.zeros((2, len(sequences), longest), dtype=np.int64)
        for row, sequence in enumerate(sequences):
            place = slice(longest - len(sequence.ids), None) if left else slice(len(sequence.ids))
            table[0, row, place], table[1, row, place] = sequence.ids, 1
        ids, mask = self.to_device(table)
        frames = [span.frame for sequence in sequences for span in sequence.spans]
        given = self._images(frames) if frames else {}
        for name in ("mm_token_type_ids", "token_type_ids"):
            given[name] = (ids == self.image).int()
        return {"input_ids": ids, "attention_mask": mask, **{name: tensor for name, tensor in given.items() if name in self.takes}}

    def _images(self, frames: Sequence[Frame]) -> dict[str, Tensor]:
        images = [self.format.of(frame) for frame in frames]
        if len(alike(images)) == 1 and all(tensor.dim() <= 4 for tensor in images[0].inputs.values()):
            return stacked(images, self.device)
        # Of one sequence: its processor knows how images of several sizes go together.
        found = self.format.together(frames)
        if found["input_ids"].eq(self.image).sum() != sum(one.tokens for one in images):
            raise DataError("This model's processor sees images in company otherwise than alone, so episodes with images of several sizes can't be appended to. Make them alike.")
        return {name: tensor.to(self.device) for name, tensor in found.items()}
