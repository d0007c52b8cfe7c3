"""One environment in its own process: rendering libraries are rarely thread-safe, a hanging environment can be ended, and sessions use several cores."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from .actions import Unreadable, describe, instruction, parse_action
from .observations import as_image, encode_png, in_words, plain
from .settings import Answer, Json, Lost, Refused, Settings

CLOSE_SECONDS = 5

# A process with threads must not fork itself.
CONTEXT = multiprocessing.get_context("forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn")


class Playing:
    """One environment, played by replies."""

    def __init__(self, name: str, options: Json, settings: Settings) -> None:
        self.settings = settings
        given = dict(options)
        spec = gym.spec(name)
        if settings.observe != "text":
            given.setdefault("render_mode", "rgb_array")
        self.env: gym.Env[Any, Any] = gym.make(spec, **given)
        self.space = self.env.action_space
        self.names = [action.lower() for action in settings.actions]
        if self.names and not (isinstance(self.space, spaces.Discrete) and len(self.names) == int(self.space.n)):
            raise Refused(400, f"--actions has {len(self.names)} names; {name} has {describe(self.space)}.")
        self.task = settings.task or f"You play {spec.name}."
        self.threshold = spec.reward_threshold
        self.observation: Any = None
        self.total = 0.0
        self.turns = 0
        self.under_way = False

    def system_prompt(self, _: None) -> Answer:
        return {"obs": instruction(self.space, self.settings, self.task)}, []

    def reset(self, seed: int) -> Answer:
        self.observation, info = self.env.reset(seed=seed)
        self.total, self.turns, self.under_way = 0.0, 0, True
        said, images = self.look()
        return {"obs": said, "info": plain(info)}, images

    def step(self, reply: str) -> Answer:
        if not self.under_way:
            raise Refused(409, "The session has no running episode: call reset before step.")
        self.turns += 1
        reward, terminated, truncated, info = 0.0, False, False, {}
        told: Json = {"parsed": True, "wellFormed": True, "valid": True, "actions": []}
        try:
            action, words = parse_action(self.space, self.names, reply)
            told["played"] = [words]
            self.observation, paid, ended, cut, info = self.env.step(action)
            reward, terminated, truncated = float(paid), bool(ended), bool(cut)
        except Unreadable as why:
            told.update(parsed=False, wellFormed=False, valid=False, feedback=f"No action could be read: {why}.")
        self.total += reward
        truncated = not terminated and (truncated or self.turns >= self.settings.max_turns)
        self.under_way = not (terminated or truncated)
        said, images = self.look()
        if "feedback" in told:
            said = f"{told['feedback']} {said}"
        success = self.success(info, terminated)
        data = {"obs": said, "reward": reward, "done": not self.under_way, "terminated": terminated, "truncated": truncated}
        return {**data, "success": success, "info": {**plain(info), **told}}, images

    def success(self, info: Json, terminated: bool) -> bool:
        for name in ("is_success", "success"):
            if name in info:
                return bool(info[name])
        return self.total >= self.threshold if self.threshold is not None else terminated and self.total > 0

    def look(self) -> tuple[str, list[bytes]]:
        if self.settings.observe != "text":
            image = as_image(self.observation)
            if image is None:
                image = as_image(self.env.render())
            if image is None:
                raise Refused(400, "This environment renders no image: start the server with --observe text.")
            words = f" {in_words(self.observation)}" if self.settings.observe == "both" else ""
            return f"<image>{words}", [encode_png(image)]
        return in_words(self.observation), []


def work(pipe: Connection, name: str, options: Json, settings: Settings) -> None:
    """Runs in a session's process: answers calls from the pipe until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Never open a window.
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    playing: Playing | None = None
    asked: tuple[str, Any] = ("system_prompt", None)
    while True:
        try:
            playing = playing or Playing(name, options, settings)
            method, argument = asked
            pipe.send((200, getattr(playing, method)(argument)))
        except Refused as error:
            pipe.send((error.status, str(error)))
        except Exception as error:  # an environment may throw anything
            pipe.send((500, f"{type(error).__name__}: {error}"))
        try:
            asked = pipe.recv()
        except (EOFError, OSError):
            break
    if playing is not None:
        playing.env.close()


class Worker:
    def __init__(self, name: str, options: Json, settings: Settings) -> None:
        self.seconds = settings.call_seconds
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=work, args=(theirs, name, options, settings), daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.prompt = self.receive()
        except Refused:
            self.end()
            raise

    def ask(self, method: str, argument: Any) -> Answer:
        try:
            self.pipe.send((method, argument))
        except OSError:
            raise Lost("The environment's process died.") from None
        return self.receive()

    def receive(self) -> Answer:
        try:
            if not self.pipe.poll(self.seconds):
                raise Lost(f"The environment did not answer within {self.seconds:g} s.")
            status, answer = self.pipe.recv()
        except (EOFError, OSError):
            raise Lost("The environment's process died.") from None
        if status != 200:
            raise Refused(status, answer)
        done: Answer = answer
        return done

    def end(self) -> None:
        """Gives the process time to close, then kills it. Nobody waits for it."""
        self.pipe.close()
        threading.Thread(target=self.bury, daemon=True).start()

    def bury(self) -> None:
        self.process.join(CLOSE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()
