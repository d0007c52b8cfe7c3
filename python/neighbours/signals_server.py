"""An OpenEnv server whose screenshots are nested lists, as BrowserGym's are: `signals_server.py PORT`.

It shows a field of one colour; the word that belongs to it is right. A wrong word earns a share for each letter that the right one has, so that
a model that knows nothing yet has something to learn from.
"""

import random
import sys
from typing import Any, List, Optional
from uuid import uuid4

import numpy as np
import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

COLOURS = {"go": (40, 200, 60), "halt": (210, 40, 40), "turn": (40, 60, 210), "wait": (220, 200, 40)}
SIDE = 32


class Word(Action):
    word: str = Field(..., description="one word")


class Seen(Observation):
    goal: str = Field(default="", description="What to do")
    screenshot: Optional[List[List[List[int]]]] = Field(default=None, description="Rows, pixels, channels")


class Signals(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        self._state = State(episode_id=str(uuid4()), step_count=0)
        self._word = "go"

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **_: Any) -> Seen:
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        self._word = random.Random(seed).choice(list(COLOURS))
        return self._seen(None, False)

    def step(self, action: Word, **_: Any) -> Seen:
        self._state.step_count += 1
        said = action.word.strip()
        letters = set(self._word)
        reward = 1.0 if said == self._word else 0.5 * len(letters & set(said)) / len(letters)
        return self._seen(reward, True)

    @property
    def state(self) -> State:
        return self._state

    def _seen(self, reward: Optional[float], done: bool) -> Seen:
        pixels = np.full((SIDE, SIDE, 3), COLOURS[self._word], dtype=np.uint8)
        return Seen(goal="Signal?", screenshot=pixels.tolist(), reward=reward, done=done)


uvicorn.run(
    create_app(Signals, Word, Seen, env_name="signals", max_concurrent_envs=8),
    host="127.0.0.1",
    port=int(sys.argv[1]),
    log_level="warning",
)
