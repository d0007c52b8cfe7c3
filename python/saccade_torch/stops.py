"""Stop strings: the text of the last ids, as the model's tokenizer reads them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Sequence


def ends_text(folder: str, ids: Sequence[int], stops: Sequence[str]) -> bool:
    # A stop string may begin in earlier ids; an id is at least a byte.
    reach = max(len(stop.encode()) for stop in stops)
    text = text_of(folder, tuple(ids[-reach:]))
    return any(stop in text for stop in stops)


@lru_cache(maxsize=2**16)
def text_of(folder: str, ids: tuple[int, ...]) -> str:
    """Replies resemble each other, and reading the same ids again costs more than a step."""
    return str(tokenizer_of(folder).decode(list(ids), skip_special_tokens=False))


@lru_cache(maxsize=8)
def tokenizer_of(folder: str) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
