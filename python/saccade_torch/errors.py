"""Failures with the names that the TypeScript side knows, so that they cross the wire as themselves."""

from __future__ import annotations

import os
import sys

import torch


class SaccadeError(Exception):
    """Base of everything this package raises on purpose; the message says what to do."""


class ConfigError(SaccadeError):
    """A setting is wrong."""


class DataError(SaccadeError):
    """Ids, images, arrays or files do not have the shape they must have."""


class EngineError(SaccadeError):
    """The engine can't do what it was asked for."""


class MissingFrames(SaccadeError):
    """Images were named that this worker does not have; the caller sends them and asks again."""

    def __init__(self, keys: list[str]) -> None:
        super().__init__(f"{len(keys)} images are not here; send them first.")
        self.keys = keys


LAST_WORDS = "saccade_torch: "
"""Begins the line in which a process says why it ends."""


def out_of_memory(problem: BaseException) -> bool:
    """On a device, or in host memory, of which PyTorch says so in words alone."""
    return isinstance(problem, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(problem)


def no_memory(message: str, ranks: int) -> EngineError:
    """What to raise when memory ran out. Of several ranks, the others wait for this one for ever: then all must end, and the caller is told why."""
    if ranks > 1:
        print(LAST_WORDS + message, file=sys.stderr, flush=True)
        os._exit(1)
    return EngineError(message)
