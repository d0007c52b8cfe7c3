"""Actions in words: what a model is told about an action space, and how its reply is read."""

from __future__ import annotations

import json
import re
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .settings import Settings

ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)


class Unreadable(Exception):
    """Why no action could be read from a reply."""


def parse_action(space: gym.Space[Any], names: list[str], reply: str) -> tuple[Any, str]:
    """The action of a reply, and the words for it."""
    tagged = ACTION.findall(reply)
    if not tagged:
        raise Unreadable("there are no <action> tags in it")
    said = tagged[-1].strip()
    if isinstance(space, spaces.Discrete):
        return parse_discrete(space, names, said)
    if isinstance(space, spaces.Text):
        value: Any = said
    else:
        value = parse_numbers(space, said)
    if not space.contains(value):
        raise Unreadable(f"{said[:100]!r} is not in {describe(space)}")
    return value, said


def parse_discrete(space: spaces.Discrete, names: list[str], said: str) -> tuple[np.int64, str]:
    start, count = int(space.start), int(space.n)
    if said.lower() in names:
        return np.int64(start + names.index(said.lower())), said.lower()
    if not re.fullmatch(r"-?\d{1,9}", said) or not start <= int(said) < start + count:
        raise Unreadable(f"{said[:100]!r} is not an action")
    index = int(said) - start
    return np.int64(start + index), names[index] if index < len(names) else said


def parse_numbers(space: gym.Space[Any], said: str) -> Any:
    shape, dtype = space.shape, space.dtype
    if shape is None or dtype is None:
        # Spaces of their own: a tuple of numbers and words, as JSON.
        try:
            value = json.loads(said)
        except ValueError:
            return said
        return tuple(value) if isinstance(value, list) else value
    try:
        value = np.array(json.loads(said), dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        raise Unreadable(f"{said[:100]!r} is not a list of numbers") from None
    if value.shape != shape:
        raise Unreadable(f"it needs the shape {list(shape)}")
    return value


def describe(space: gym.Space[Any]) -> str:
    if isinstance(space, spaces.Box):
        low, high = np.unique(space.low), np.unique(space.high)
        ends = f"from {low[0]:g} to {high[0]:g}" if len(low) == len(high) == 1 else f"from {space.low.tolist()} to {space.high.tolist()}"
        return f"numbers of shape {list(space.shape)}, {ends}, as JSON"
    return str(space)


def instruction(space: gym.Space[Any], settings: Settings, task: str) -> str:
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        listed = settings.actions or [str(start + i) for i in range(int(space.n))]
        what = f"The actions are {', '.join(listed)}."
    else:
        what = f"An action is {describe(space)}."
    return f"{task} {what} Answer with one action in tags, such as <action>{example(space, settings.actions)}</action>."


def example(space: gym.Space[Any], names: list[str]) -> str:
    if isinstance(space, spaces.Discrete):
        return names[0] if names else str(int(space.start))
    if isinstance(space, spaces.Box):
        return json.dumps(np.clip(np.zeros(space.shape), space.low, space.high).tolist())
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        return json.dumps(np.zeros(space.shape, dtype=int).tolist())
    return "…"
