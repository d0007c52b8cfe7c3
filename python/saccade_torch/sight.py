"""What the processor of a model's own folder makes of images: the numbers that its tower takes, and the text that stands for an image in a prompt.
Each image is processed alone, so that neither depends on what else a sequence shows: ids that were written once never change.
"""

from __future__ import annotations

import copy
import inspect
import json
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor

from .errors import ConfigError, DataError
from .frames import Frame

MOST_BYTES = 512 * 1024**2
SIDE = 64
"""Of the image that is shown to a processor to see which tokens it writes, in pixels."""
TILE = re.compile(r"<row_\d+_col_\d+>")


@dataclass(frozen=True)
class Processed:
    """`text` is what the processor writes for this image, with `tokens` placeholders among it."""

    inputs: dict[str, Tensor]
    text: str
    tokens: int


@lru_cache(maxsize=8)
def sight_of(folder: str, image: int) -> Sight:
    """One for a folder, whatever learners, samplers and renderers it has."""
    return Sight(folder, image)


class Sight:
    def __init__(self, folder: str, image: int) -> None:
        try:
            self.processor: Any = load_processor(folder)
        except Exception as problem:
            said = " ".join(str(problem).split())
            raise ConfigError(f"{folder}: transformers can't load its processor ({said}). Install what it asks for, or complete the folder's processor files.") from None
        self.tokenizer: Any = self.processor.tokenizer
        self.image = image
        self.added = {str(text): int(id) for text, id in self.tokenizer.get_added_vocab().items()}
        self._kept: OrderedDict[str, Processed] = OrderedDict()
        self._bytes = 0
        self.lock = threading.RLock()
        """Of the tokenizer."""
        self.marker = self._marker()

    def __deepcopy__(self, _: Any) -> Sight:
        """Snapshots of a network see as it does."""
        return self

    def _marker(self) -> str:
        """What a template writes for an image. Gemma 3 asks for one with another token than its placeholder."""
        named = [text for name in ("boi_token", "image_token") if isinstance(text := getattr(self.processor, name, None), str)]
        template = str(getattr(self.processor, "chat_template", None) or self.tokenizer.chat_template or "")
        written = [text for text in named if text in template]
        problem: Any = "it names no token for an image"
        for self.marker in written or named:
            try:
                self._process(np.zeros((SIDE, SIDE, 3), dtype=np.uint8))
                return self.marker
            except Exception as found:
                problem = found
        raise ConfigError(f"{type(self.processor).__name__} can't process an image ({problem}). Its files are not complete, or another model's.")

    def of(self, frame: Frame) -> Processed:
        """Learners, samplers and renderers ask from threads of their own."""
        with self.lock:
            found = self._kept.get(frame.key)
            if found is None:
                found = self._kept[frame.key] = self._process(frame.pixels.numpy())
                self._bytes += size(found)
                while self._bytes > MOST_BYTES and len(self._kept) > 1:
                    self._bytes -= size(self._kept.popitem(last=False)[1])
            else:
                self._kept.move_to_end(frame.key)
            return found

    def tokens(self, frame: Frame) -> int:
        return self.of(frame).tokens

    def grid(self, frame: Frame) -> tuple[int, int]:
        """In patches, where the processor cuts some; else how much work an image is, as the rest of the worker counts it."""
        thw = self.of(frame).inputs.get("image_grid_thw")
        return (self.tokens(frame), 1) if thw is None else (int(thw[0, 1]), int(thw[0, 2]))

    def together(self, frames: Sequence[Frame]) -> Any:
        """Of one sequence."""
        with self.lock:
            return self.processor(text=[self.marker * len(frames)], images=[[frame.pixels.numpy() for frame in frames]], return_tensors="pt")

    def vision_ids(self) -> set[int]:
        """Tokens that only an image brings along. Blank ones, such as the lines that Gemma 3 sets around an image, are words too."""
        with self.lock:
            text = self._process(np.zeros((SIDE, SIDE, 3), dtype=np.uint8)).text
        return {id for token, id in self.added.items() if token.strip() and (token in text or TILE.fullmatch(token))} | {self.image}

    def _process(self, pixels: np.ndarray) -> Processed:
        # Its own text is seen on its way to the tokenizer: every processor goes there.
        processor = copy.copy(self.processor)
        overheard = Overheard(self.tokenizer)
        processor.tokenizer = overheard
        given = processor(text=[self.marker], images=[[pixels]], return_tensors="pt")
        text = overheard.text
        if not isinstance(text, str):
            raise ConfigError(f"{type(self.processor).__name__} writes no text for an image that Saccade can read.")
        inputs = {name: value for name, value in given.items() if isinstance(value, Tensor) and name not in TEXT_FIELDS}
        count = int((given["input_ids"] == self.image).sum())
        if count == 0:
            raise DataError(f"{type(self.processor).__name__} writes no placeholder of id {self.image} for an image: its processor is another model's.")
        return Processed(inputs, text, count)


def load_processor(folder: str) -> Any:
    """Nothing in a model folder is run: only what transformers has. Processors that take films too need torchvision for those alone; without it they are
    made without that part."""
    import transformers
    from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer
    from transformers.utils import is_torchvision_available

    found: dict[str, Any] = {}
    for name in ("tokenizer_config.json", "preprocessor_config.json", "processor_config.json"):
        file = Path(folder) / name
        found |= json.loads(file.read_text()) if file.exists() else {}
    kind = getattr(transformers, str(found.get("processor_class")), None)
    takes = inspect.signature(kind.__init__).parameters if kind is not None else {}
    if is_torchvision_available() or "video_processor" not in takes:
        return AutoProcessor.from_pretrained(folder, trust_remote_code=False)

    class Still(kind):  # type: ignore[valid-type, misc]
        def check_argument_for_proper_class(self, name: str, given: Any) -> Any:
            return type(given) if name in needs else super().check_argument_for_proper_class(name, given)

    Still.__name__ = kind.__name__
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    images = AutoImageProcessor.from_pretrained(folder, trust_remote_code=False)
    needs = {name: None for name in ("video_processor", "feature_extractor") if name in takes}
    template = Path(folder) / "chat_template.jinja"
    chat = template.read_text() if template.exists() else tokenizer.chat_template
    parts = ("self", "image_processor", "tokenizer", "chat_template", "kwargs", *needs)
    rest = {name: value for name, value in found.items() if name in takes and name not in parts}
    return Still(image_processor=images, tokenizer=tokenizer, chat_template=chat, **needs, **rest)


TEXT_FIELDS = frozenset(("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"))


class Overheard:
    """A tokenizer that remembers the last text it was given."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.text: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, text: Any = None, *rest: Any, **options: Any) -> Any:
        self.text = text[0] if isinstance(text, (list, tuple)) and len(text) == 1 else text
        return self._tokenizer(text, *rest, **options)


def size(one: Processed) -> int:
    return sum(tensor.nbytes for tensor in one.inputs.values())


def alike(images: Sequence[Processed]) -> list[list[int]]:
    """Places of images that fit into one batch, in order of first appearance."""
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(images):
        groups.setdefault(tuple(sorted((name, tuple(tensor.shape[1:]), tensor.dtype) for name, tensor in one.inputs.items())), []).append(place)
    return list(groups.values())


def stacked(images: Sequence[Processed], device: torch.device) -> dict[str, Tensor]:
    return {name: torch.cat([one.inputs[name] for one in images]).to(device) for name in images[0].inputs}
