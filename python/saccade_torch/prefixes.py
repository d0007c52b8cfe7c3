"""What prompts have in common. Placeholder ids look alike whatever the image, so a prompt is compared by its signature: its ids, with a number of the
image in place of each placeholder."""

from __future__ import annotations

from typing import Generic, Protocol, Sequence, TypeVar

import numpy as np

from .network import Tokens

BLOCK = 8
"""Ids that are looked up at once: a shorter prefix is not worth a copy."""


def signature(row: Tokens) -> np.ndarray:
    found = row.ids.astype(np.int64)
    for span in row.spans:
        # Below every id; two images share one of 2^61 numbers as good as never.
        found[span.start : span.start + span.length] = -1 - (hash(span.frame.key) & (2**61 - 1))
    return found


def shared(a: np.ndarray, b: np.ndarray) -> int:
    """How many of the first numbers are equal."""
    end = min(len(a), len(b))
    differs = a[:end] != b[:end]
    first = int(differs.argmax()) if end else 0
    return first if end and differs[first] else end


class Signed(Protocol):
    signature: np.ndarray
    filled: int


T = TypeVar("T", bound=Signed)


class Prefixes(Generic[T]):
    """Who holds which beginning of a sequence, looked up block by block."""

    def __init__(self) -> None:
        self._holders: dict[int, dict[T, None]] = {}
        self._chains: dict[T, list[int]] = {}

    def add(self, holder: T, same: int = 0) -> None:
        """Or tell that its signature is another, but for the first `same`."""
        known = self._chains.get(holder, [])
        kept = known[: same // BLOCK]
        self._forget(holder, known[len(kept) :])
        chain = _chain(holder.signature, kept)
        for number in chain[len(kept) :]:
            self._holders.setdefault(number, {})[holder] = None
        self._chains[holder] = chain

    def remove(self, holder: T) -> None:
        self._forget(holder, self._chains.pop(holder, []))

    def best(self, wanted: np.ndarray) -> T | None:
        """Who has most blocks of it, and of those who has computed most."""
        found: dict[T, None] = {}
        for number in _chain(wanted):
            if number not in self._holders:
                break
            found = self._holders[number]
        return max(found, key=lambda holder: holder.filled, default=None)

    def _forget(self, holder: T, chain: list[int]) -> None:
        for number in chain:
            holders = self._holders[number]
            del holders[holder]
            if not holders:
                del self._holders[number]


def _chain(numbers: np.ndarray, known: Sequence[int] = ()) -> list[int]:
    """A number for each whole block, which depends on all before it; those of the first blocks may be known."""
    chain = list(known)
    at = chain[-1] if chain else 0
    size = BLOCK * numbers.itemsize
    data = numbers.tobytes()
    for start in range(len(chain) * size, len(data) - size + 1, size):
        at = hash((at, data[start : start + size]))
        chain.append(at)
    return chain
