"""A Qwen3-VL or Qwen2.5-VL from a Hugging Face folder, as a function of packed sequences.

Two dtypes: that of the parameters that are trained (always 32 bits, the masters) and that of the computation. Frozen parameters are kept in the
latter. The vision tower sees each distinct image of a pack once, wherever it appears.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .attention import Segments, to_device
from .compiled import open_rows
from .errors import ConfigError, DataError
from .files import read_weights
from .frames import Frame, PatchFormat
from .modules import TextLayer, VisionBlock, adopt, linear, merge, norm
from .rotary import TextRotary, frequencies, patch_places, token_positions
from .scores import token_scores

Head = Literal["lm", "value"]
Freeze = Literal["vision", "language"]
VALUE_HEAD = "score.weight"
VISION_PREFIX = "model.visual."
ARCHITECTURES = {"qwen3_vl": "Qwen3-VL", "qwen2_5_vl": "Qwen2.5-VL"}
"""What this file computes; `families.py` has the others."""


@dataclass(frozen=True)
class Span:
    """Ids start..start+length-1 are the placeholders of an image."""

    start: int
    length: int
    frame: Frame


@dataclass(frozen=True)
class Tokens:
    """Ids with their images."""

    ids: np.ndarray
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Features:
    """What the tower made of images that lie one below the other: rows for the placeholders, and as many of each DeepStack level."""

    main: Tensor
    deepstack: tuple[Tensor, ...]


@dataclass(frozen=True)
class Pack:
    """Sequences end to end, ready for the device."""

    ids: Tensor
    positions: Tensor
    segments: Segments
    frames: tuple[Frame, ...]
    """Distinct images; placeholder `to[i]` takes row `rows[i]` of their features."""
    rows: Tensor
    to: Tensor


class Network(nn.Module):
    own = True
    """Its layers compute what we wrote."""
    recurrent = False
    """Layers carry a state from id to id: what was computed can't be taken back."""
    state_bytes = 0
    """Of one sequence."""
    cuts = True
    """Whether a prompt may be computed in pieces that end within an image."""

    def __init__(self, folder: str, head: Head, compute: torch.dtype, device: torch.device, trained: bool, place: torch.device | None = None) -> None:
        """`trained`: parameters are 32-bit masters; else they are kept as they are computed with. `place`: where they lie until they are cut into pieces."""
        super().__init__()
        self.folder = folder
        self.head: Head = head
        self.compute = compute
        self.device = device
        self.ranks = 1
        self.sharded = False
        """It lies in pieces, over so many ranks."""
        self.checkpointing = False
        """Activations of a layer are computed again in the backward pass instead of kept."""
        kind = read_kind(folder)
        self.interleaved = kind == "qwen3_vl"
        self.model = open_model(folder, torch.float32 if trained else compute).to(place or device)
        self.config = self.model.config
        # Read from a config of transformers, each would cost microseconds every time.
        self.context = int(self.config.text_config.max_position_embeddings)
        self.vocabulary = int(self.config.text_config.vocab_size)
        self.image = int(self.config.image_token_id)
        text, vision = self.config.text_config, self.config.vision_config
        if getattr(text, "use_sliding_window", False):
            raise ConfigError(f"{folder}: attention with a sliding window is not supported; set use_sliding_window to false in config.json.")
        self.depth, self.kv_heads = int(text.num_hidden_layers), int(text.num_key_value_heads)
        self.cap: float | None = None
        """Logits beyond it are bent back."""
        width = text.hidden_size
        self.score = nn.Linear(width, 1, bias=False, device=place or device) if head == "value" else None
        if head == "value":
            # A critic has no language head; a tied one is the embedding, which stays.
            self.model.lm_head = nn.Identity()
        for layer in self.language.layers:
            adopt(layer, TextLayer, compute)
        for block in self.visual.blocks:
            adopt(block, VisionBlock, compute)
        self.head_dim = getattr(text, "head_dim", None) or width // text.num_attention_heads
        self.caches = [(layer, self.kv_heads, self.head_dim) for layer in range(self.depth)]
        """Of each layer: whose keys and values it reads, and how many heads of which width it keeps."""
        rope = text.rope_parameters
        if rope.get("rope_type", "default") != "default":
            raise ConfigError(f"{folder}: rotary positions of type {rope['rope_type']} are not supported; only default is.")
        section = rope.get("mrope_section") or ([24, 20, 20] if self.interleaved else [16, 24, 24])
        self.rotary = TextRotary(rope["rope_theta"], self.head_dim, section, self.interleaved, device)
        self.format = patch_format(Path(folder), vision)
        self.banned = frozenset(banned_ids(Path(folder), self.config))
        self.bias = torch.zeros(self.vocabulary, device=device)
        """Added to logits: −∞ where an id can't be sampled."""
        self.bias[sorted(self.banned)] = float("-inf")
        self.compiled = False
        """What is compiled has to be told which dimension changes."""

    @property
    def language(self) -> nn.Module:
        return self.model.model.language_model

    @property
    def visual(self) -> nn.Module:
        return self.model.model.visual

    def named(self) -> dict[str, nn.Parameter]:
        """Every parameter under its Hugging Face name, the tied head once."""
        return {public_name(name): parameter for name, parameter in self.named_parameters()}

    def as_files(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return tensors

    def read(self, folder: str) -> dict[str, Tensor]:
        return read_weights(Path(folder))

    def pack(self, sequences: Sequence[Tokens]) -> Pack:
        # Images of one shape lie together: each shape is sent and cut at once, whatever the order in which sequences show them.
        frames = sorted({span.frame.key: span.frame for sequence in sequences for span in sequence.spans}.values(), key=lambda frame: tuple(frame.pixels.shape))
        starts: dict[str, int] = {}
        used = 0
        for frame in frames:
            starts[frame.key] = used
            used += self.format.tokens(frame)
        positions, rows, to = [], [], []
        at = 0
        for sequence in sequences:
            spans = []
            for span in sequence.spans:
                rows.append(np.arange(span.length) + starts[span.frame.key])
                to.append(np.arange(span.length) + at + span.start)
                spans.append((span.start, *self.format.grid(span.frame)))
            positions.append(token_positions(len(sequence.ids), spans, self.format.merge)[0])
            at += len(sequence.ids)
        joined = lambda parts: np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)  # noqa: E731
        return Pack(
            ids=self.to_device(np.concatenate([sequence.ids for sequence in sequences]).astype(np.int64)),
            positions=self.to_device(np.concatenate(positions, axis=1)),
            segments=Segments.of([len(sequence.ids) for sequence in sequences], self.device, self.compute, 4096),
            frames=tuple(frames),
            rows=self.to_device(joined(rows)),
            to=self.to_device(joined(to)),
        )

    def to_device(self, array: np.ndarray) -> Tensor:
        return to_device(torch.from_numpy(np.ascontiguousarray(array)), self.device)

    def forward(
        self, pack: Pack, wanted: Tensor, targets: Tensor, inverse: Tensor, features: Features | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(log-probabilities, entropy) of `targets` at rows `wanted`, or (values, None). `inverse` is 1 / temperature of each row.
        `features`: those of the pack's images, where the tower is frozen."""
        if features is None and pack.frames:
            features = self.encode(pack.frames)
        # Before the layers, as images are: ranks must gather in one order.
        nothing = self._look_away() if features is None and self.sharded and any(p.requires_grad for p in self.visual.parameters()) else None
        hidden = self.hidden(pack, features)[wanted]
        if nothing is not None:
            hidden = hidden + nothing
        hidden = self.last(hidden)
        if self.score is not None:
            return linear(self.score, hidden.float()).sum(-1), None
        return token_scores(hidden, self.output_weight(), targets, inverse, self.bias, self.compiled)

    def output_weight(self) -> Tensor:
        return self.model.lm_head.weight

    def hidden(self, pack: Pack, features: Features | None) -> Tensor:
        """Rows before the last norm."""
        x = self.embed(pack.ids, features, pack.rows, pack.to)
        cos, sin = self.rotary(pack.positions)
        for index, layer in enumerate(self.language.layers):
            x = self._through(layer, x, cos, sin, pack.segments)
            x = deepen(x, features, index, pack.rows, pack.to)
        return x

    def embed(self, ids: Tensor, features: Features | None, rows: Tensor, to: Tensor) -> Tensor:
        # Rounded as a sampler's weights are.
        x = F.embedding(ids, self.language.embed_tokens.weight).to(self.compute).float()
        return x if features is None or len(to) == 0 else x.index_copy(0, to, features.main[rows].float())

    def encode(self, frames: Sequence[Frame]) -> Features:
        """The vision tower over images of any sizes."""
        return self.encode_patches(self.format.patches(frames, self.device), [self.format.grid(frame) for frame in frames])

    def encode_patches(self, patches: Tensor, grids: Sequence[tuple[int, int]]) -> Features:
        visual = self.visual
        projection = visual.patch_embed.proj
        # The kernel is as large as its stride: a convolution in name only.
        bias = None if projection.bias is None else projection.bias.to(self.compute)
        x = F.linear(patches.to(self.compute), projection.weight.flatten(1).to(self.compute), bias)
        geometry = self._geometry(tuple(grids))
        if hasattr(visual, "pos_embed"):
            table = visual.pos_embed.weight.float()
            stretched = (F.embedding(geometry.taps, table) * geometry.weights[..., None]).sum(1)
            x = x + stretched.to(self.compute)
        x = x.float()
        if geometry.order is not None:
            x = x[geometry.order]
        levels: list[Tensor] = []
        whole = getattr(visual, "fullatt_block_indexes", None)
        deep = list(getattr(visual, "deepstack_visual_indexes", []))
        for index, block in enumerate(visual.blocks):
            segments = geometry.segments if whole is None or index in whole else geometry.windows
            x = self._through(block, x, geometry.cos, geometry.sin, segments)
            if index in deep:
                levels.append(merge(visual.deepstack_merger_list[deep.index(index)], x, self.compute))
        main = merge(visual.merger, x, self.compute)
        if geometry.back is not None:
            main = main[geometry.back]
        return Features(main, tuple(levels))

    def _look_away(self) -> Tensor:
        """Nothing, computed by the whole tower: ranks without images must take part in the collectives of those that have some."""
        side = self.format.merge
        patches = torch.zeros(side * side, 3 * self.format.temporal * self.format.patch**2, device=self.device)
        seen = self.encode_patches(patches, [(side, side)])
        return 0 * sum(level.sum() for level in (seen.main, *seen.deepstack))

    def _through(self, layer: nn.Module, x: Tensor, cos: Tensor, sin: Tensor, segments: Segments) -> Tensor:
        if self.compiled:
            open_rows(x, cos, sin, segments.bounds)
        if self.checkpointing and torch.is_grad_enabled():
            return checkpoint(layer, x, cos, sin, segments, use_reentrant=False)  # type: ignore[no-any-return]
        return layer(x, cos, sin, segments)  # type: ignore[no-any-return]

    def _geometry(self, grids: tuple[tuple[int, int], ...]) -> Geometry:
        return geometry_of(grids, GeometrySpec.of(self.config.vision_config), self.device, self.compute)

    def check(self, sequence: Tokens) -> None:
        check_tokens(self, sequence)

    def sees(self, name: str) -> bool:
        """Whether a parameter or module belongs to sight."""
        return name.startswith(VISION_PREFIX)

    def positions(self, row: Tokens) -> tuple[np.ndarray, int]:
        """[3, ids], and where the first id after them stands."""
        grids = [(span.start, *self.format.grid(span.frame)) for span in row.spans]
        return token_positions(len(row.ids), grids, self.format.merge)

    def placeholders(self, sequence: Tokens, start: int, length: int) -> np.ndarray:
        return np.arange(start, start + length)

    def last(self, hidden: Tensor) -> Tensor:
        """The last norm, before the head."""
        return norm(self.language.norm, hidden, self.compute)


def check_tokens(network: Any, sequence: Tokens) -> None:
    """Ids and images must agree before anything is computed. Between the placeholders of an image a processor may write other tokens."""
    ids, image = sequence.ids, network.image
    if len(ids) == 0:
        raise DataError("A sequence needs at least one id.")
    if len(ids) > network.context:
        raise DataError(f"A sequence of {len(ids)} ids is longer than the model's context of {network.context}. Use fewer turns or smaller images.")
    known = (ids >= 0) & ((ids < network.vocabulary) | (ids == image))
    if not known.all():
        raise DataError(f"An id lies outside the vocabulary of {network.vocabulary}.")
    inside = np.zeros(len(ids), dtype=bool)
    end = 0
    for span in sequence.spans:
        if span.start < end or span.length < 1 or span.start + span.length > len(ids):
            raise DataError(f"An image at {span.start}, {span.length} ids long, does not fit among {len(ids)} ids.")
        end = span.start + span.length
        inside[span.start : end] = True
        own = ids[span.start : end] == image
        tokens = network.format.tokens(span.frame)
        if tokens != own.sum() or not (own[0] and own[-1]):
            raise DataError(f"An image has {tokens} tokens, but {own.sum()} placeholders stand for it. Render it with this model's processor.")
    if (ids[~inside] == image).any():
        raise DataError("Placeholder ids and images do not lie in the same places.")


def deepen(x: Tensor, features: Features | None, layer: int, rows: Tensor, to: Tensor) -> Tensor:
    """Adds a DeepStack level to the placeholders' rows after one of the first layers."""
    if features is None or layer >= len(features.deepstack) or len(to) == 0:
        return x
    return x.index_add(0, to, features.deepstack[layer][rows].to(x.dtype))


@dataclass(frozen=True)
class GeometrySpec:
    merge: int
    head_dim: int
    theta: float
    table_side: int | None
    window: int | None
    """Merged cells along a window's side."""

    @staticmethod
    def of(vision: object) -> GeometrySpec:
        get = lambda name: getattr(vision, name, None)  # noqa: E731
        table = get("num_position_embeddings")
        merge_size, patch = get("spatial_merge_size"), get("patch_size")
        window = get("window_size")
        rope = get("rope_parameters") or {}
        return GeometrySpec(
            merge=merge_size,
            head_dim=get("hidden_size") // get("num_heads"),
            theta=rope.get("rope_theta", 10_000.0),
            table_side=int(table**0.5) if table else None,
            window=window // merge_size // patch if window else None,
        )


@dataclass(frozen=True)
class Geometry:
    """All that depends on the sizes of images alone. `order` puts patches window by window, `back` undoes it for tokens."""

    cos: Tensor
    sin: Tensor
    segments: Segments
    windows: Segments
    taps: Tensor
    weights: Tensor
    order: Tensor | None
    back: Tensor | None


@lru_cache(maxsize=64)
def geometry_of(grids: tuple[tuple[int, int], ...], spec: GeometrySpec, device: torch.device, dtype: torch.dtype) -> Geometry:
    places = [patch_places(h, w, spec.merge) for h, w in grids]
    at = torch.from_numpy(np.stack([np.concatenate([place[axis] for place in places]) for axis in (0, 1)]))
    at = to_device(at, device)
    quarter = frequencies(spec.theta, spec.head_dim // 2, device)
    angles = torch.cat([at[axis][:, None].float() * quarter for axis in (0, 1)], -1)
    angles = torch.cat((angles, angles), -1)[:, None]
    segments = Segments.of([h * w for h, w in grids], device, dtype, images=True)
    taps = weights = torch.zeros(0, device=device)
    if spec.table_side is not None:
        found = [position_taps(h, w, spec.merge, spec.table_side) for h, w in grids]
        taps, weights = (to_device(torch.from_numpy(np.concatenate([pair[i] for pair in found])), device) for i in (0, 1))
    if spec.window is None:
        return Geometry(angles.cos(), angles.sin(), segments, segments, taps, weights, None, None)
    tokens, lengths = window_order(grids, spec.merge, spec.window)
    area = spec.merge**2
    order = torch.from_numpy((tokens[:, None] * area + np.arange(area)).reshape(-1)).to(device)
    back = torch.from_numpy(np.argsort(tokens)).to(device)
    windows = Segments.of([length * area for length in lengths], device, dtype)
    angles = angles[order]
    return Geometry(angles.cos(), angles.sin(), segments, windows, taps, weights, order, back)


@lru_cache(maxsize=256)
def position_taps(grid_h: int, grid_w: int, merge_size: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """How to stretch a learned side × side table over an image (bilinear, corners on corners): four rows and weights for each patch."""

    def along(index: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        at = (index * (side - 1)).astype(np.float32) / np.float32(max(size - 1, 1))
        low = np.floor(at).astype(np.int64)
        return low, np.minimum(low + 1, side - 1), at - low.astype(np.float32)

    rows, columns = patch_places(grid_h, grid_w, merge_size)
    (y0, y1, dy), (x0, x1, dx) = along(rows, grid_h), along(columns, grid_w)
    taps = np.stack([y0 * side + x0, y0 * side + x1, y1 * side + x0, y1 * side + x1], 1)
    weights = np.stack([(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx], 1)
    return taps, weights.astype(np.float32)


def window_order(grids: Sequence[tuple[int, int]], merge_size: int, window: int) -> tuple[np.ndarray, list[int]]:
    """Tokens window by window, and the tokens in each window (those at the edges are smaller)."""
    order, lengths, start = [], [], 0
    for grid_h, grid_w in grids:
        h, w = grid_h // merge_size, grid_w // merge_size
        index = np.arange(h * w).reshape(h, w) + start
        for top in range(0, h, window):
            for left in range(0, w, window):
                cell = index[top : top + window, left : left + window].reshape(-1)
                order.append(cell)
                lengths.append(len(cell))
        start += h * w
    return np.concatenate(order), lengths


def public_name(name: str) -> str:
    """Of a parameter of `Network`, as files know it."""
    return name.removeprefix("model.").replace(".base_layer.", ".")


def open_model(folder: str, dtype: torch.dtype) -> nn.Module:
    """A folder that lacks weights is refused: transformers would draw them at random."""
    from transformers import AutoModelForImageTextToText

    try:
        # Weights of another shape are refused below, in words.
        model, found = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True, ignore_mismatched_sizes=True
        )
    except Exception as problem:
        raise ConfigError(f"{folder}: transformers can't open it as an image-text model ({' '.join(str(problem).split())}).") from problem
    missing = sorted(set(found["missing_keys"]) & {name for name, _ in model.named_parameters()})
    if missing:
        raise ConfigError(f"{folder}: its weights lack {', '.join(missing[:3])}{f' and {len(missing) - 3} more' if len(missing) > 3 else ''}. Download the folder anew.")
    for name, *shapes in sorted(found["mismatched_keys"]):
        there, wanted = ("×".join(map(str, shape)) for shape in shapes)
        raise ConfigError(f"{folder}: {name} has {there} numbers, and config.json asks for {wanted}. They must come from the same model.")
    return model.eval()


def read_kind(folder: str) -> str:
    try:
        kind = json.loads((Path(folder) / "config.json").read_text()).get("model_type")
    except (OSError, ValueError) as problem:
        raise ConfigError(f"Can't read {folder}/config.json ({problem}). Name a Hugging Face model folder.") from None
    return str(kind)


def patch_format(folder: Path, vision: object) -> PatchFormat:
    """transformers 5 saves the image processor inside processor_config.json."""
    found: dict = {}
    for name in ("preprocessor_config.json", "processor_config.json"):
        file = folder / name
        if file.exists():
            read = json.loads(file.read_text())
            found = read.get("image_processor", found) if name.startswith("processor") else read
    return PatchFormat(
        patch=vision.patch_size,  # type: ignore[attr-defined]
        temporal=vision.temporal_patch_size,  # type: ignore[attr-defined]
        merge=vision.spatial_merge_size,  # type: ignore[attr-defined]
        scale=found.get("rescale_factor", 1 / 255),
        mean=tuple(found.get("image_mean", (0.5, 0.5, 0.5))),
        deviation=tuple(found.get("image_std", (0.5, 0.5, 0.5))),
    )


def banned_ids(folder: Path, config: object) -> list[int]:
    """Ids that can't be sampled: images are put into a sequence by us alone. `<|vision_pad|>` has no place in config.json."""
    banned = vision_token_ids(config)
    file = folder / "tokenizer.json"
    if file.exists():
        added = json.loads(file.read_text()).get("added_tokens", [])
        banned |= {token["id"] for token in added if token.get("content") == "<|vision_pad|>"}
    return sorted(int(id) for id in banned)


def vision_token_ids(config: object) -> set[int]:
    """Those that config.json has a place for."""
    kinds = ("image", "video", "vision", "audio")
    names = [*(f"{kind}{part}_token_id" for kind in kinds for part in ("", "_start", "_end")), "boi_token_id", "eoi_token_id", "boa_token_id", "eoa_token_id"]
    return {int(id) for name in names if isinstance(id := getattr(config, name, None), int)}
