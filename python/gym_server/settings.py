"""What the server was started with, and the errors that it answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Answer = tuple[Json, list[bytes]]


@dataclass(frozen=True)
class Settings:
    envs: list[str]
    options: Json
    client_options: list[str]
    actions: list[str]
    task: str
    observe: str
    max_turns: int
    sessions: int
    idle_seconds: float
    call_seconds: float


class Refused(Exception):
    """What is wrong with a request, and its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Lost(Refused):
    """The environment is gone, and its session with it."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)
