"""Failures with the names that the TypeScript side knows, so that they cross the wire as themselves."""

from __future__ import annotations


class SaccadeError(Exception):
    """Base of everything this package raises on purpose; the message says what to do."""


class ConfigError(SaccadeError):
    """A setting is wrong."""


class DataError(SaccadeError):
    """Ids, pictures, arrays or files do not have the shape they must have."""


class EngineError(SaccadeError):
    """The engine can't do what it was asked for."""


class MissingFrames(SaccadeError):
    """Pictures were named that this worker does not have; the caller sends them and asks again."""

    def __init__(self, keys: list[str]) -> None:
        super().__init__(f"{len(keys)} pictures are not here; send them first.")
        self.keys = keys
