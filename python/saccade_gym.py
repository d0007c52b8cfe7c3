"""Gymnasium environments over HTTP, as `saccade`'s environment `remote` asks for them.

    python saccade_gym.py FrozenLake-v1 --actions left,down,right,up --option is_slippery=false
    npx saccade play remote --set url=http://127.0.0.1:8100

Needs gymnasium and numpy, nothing else. A model sees the environment's picture (its observation where that is one, else what `render` draws) or its
observation in words, and answers with an action in <action> tags. A reply without a readable action costs a turn and changes nothing.

POST /connect {env_config: {env?, options?}, seed?, key?} → {session_id}; POST /call {session_id, method, params, call?} with method system_prompt, reset,
step or close; GET /sessions; GET /health. Bodies are multipart: a part `data` of JSON, pictures as PNG in parts `images`. A call that carries a number is
done once: the same number gives the same answer again. Each session has a process of its own: libraries that draw are seldom safe among threads, one that
hangs can be ended, and there is more than one core.
"""

from __future__ import annotations

import argparse
import hmac
import ipaddress
import json
import math
import multiprocessing
import os
import re
import secrets
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

MOST_BODY = 4 * 1024**2
MOST_DRAINED = 64 * 1024**2
LEAST_KEY = 16
ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
WORDS_OF_OBSERVATION = 2000

CLOSE_SECONDS = 5

Json = dict[str, Any]
Answer = tuple[Json, list[bytes]]

# A server that has threads must not fork itself.
CONTEXT = multiprocessing.get_context("forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn")


class Refused(Exception):
    """What is wrong with a request, and the status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Lost(Refused):
    """The environment is gone, and its session with it."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)


class Unreadable(Exception):
    """Why no action could be read from a reply."""


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


# How a space speaks


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
        raise Unreadable(f"{said[:100]!r} is no action")
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
        raise Unreadable(f"{said[:100]!r} is no list of numbers") from None
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


# How a state looks


def as_picture(value: Any) -> np.ndarray[Any, Any] | None:
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        return None
    if value.ndim == 2:
        value = np.repeat(value[:, :, None], 3, axis=2)
    if value.ndim != 3 or value.shape[2] not in (1, 3, 4) or min(value.shape[:2]) < 8:
        return None
    return np.repeat(value, 3, axis=2) if value.shape[2] == 1 else value[:, :, :3]


def encode_png(pixels: np.ndarray[Any, Any]) -> bytes:
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + width * 3), dtype=np.uint8)
    rows[:, 1:] = pixels.reshape(height, width * 3)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)) + chunk(b"IEND", b"")


def in_words(observation: Any) -> str:
    if isinstance(observation, str):
        return observation
    with np.printoptions(precision=4, suppress=True, threshold=200):
        return str(observation)[:WORDS_OF_OBSERVATION]


def plain(info: Json) -> Json:
    """What of an `info` can be said in JSON; arrays are left out."""
    kept: Json = {}
    for key, value in info.items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            continue
        if isinstance(value, (str, bool, int, float)) or value is None:
            kept[str(key)] = value
    return kept


# One environment


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
            raise Refused(409, "There is no episode under way: call reset before step.")
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
            picture = as_picture(self.observation)
            if picture is None:
                picture = as_picture(self.env.render())
            if picture is None:
                raise Refused(400, "This environment draws no picture: start the server with --observe text.")
            words = f" {in_words(self.observation)}" if self.settings.observe == "both" else ""
            return f"<image>{words}", [encode_png(picture)]
        return in_words(self.observation), []


# A process for it


def work(pipe: Connection, name: str, options: Json, settings: Settings) -> None:
    """What runs in a session's process: calls come in by the pipe and answers go out, until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # No window, whatever the renderer is.
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
                raise Lost(f"The environment gave no answer within {self.seconds:g} s.")
            status, answer = self.pipe.recv()
        except (EOFError, OSError):
            raise Lost("The environment's process died.") from None
        if status != 200:
            raise Refused(status, answer)
        done: Answer = answer
        return done

    def end(self) -> None:
        """It may close by itself; one that hangs is killed. Nobody waits for either."""
        self.pipe.close()
        threading.Thread(target=self.bury, daemon=True).start()

    def bury(self) -> None:
        self.process.join(CLOSE_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


# Sessions


@dataclass
class Session:
    id: str
    worker: Worker
    created: float = field(default_factory=time.time)
    used: float = field(default_factory=time.time)
    lock: threading.Lock = field(default_factory=threading.Lock)
    call: int = -1
    asked: str = ""
    answer: Answer | Exception | None = None


class Sessions:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lock = threading.Lock()
        self.open: dict[str, Session] = {}
        self.keys: dict[str, tuple[float, Future[Answer]]] = {}
        self.opening = 0
        threading.Thread(target=self.sweep, daemon=True).start()

    def connect(self, data: Json) -> Answer:
        config, seed, key = data.get("env_config") or {}, data.get("seed"), data.get("key")
        if not isinstance(config, dict) or not (key is None or isinstance(key, str)):
            raise Refused(400, "env_config is an object, and key a text.")
        if seed is not None:
            check_seed(seed)
        with self.lock:
            known = self.keys.get(key) if key is not None else None
            made: Future[Answer] = known[1] if known is not None else Future()
            if known is None and key is not None:
                self.keys[key] = (time.time(), made)
        if known is not None:
            return made.result(self.settings.call_seconds)
        try:
            made.set_result(self.begin(config, seed))
        except Exception as error:
            made.set_exception(error)
            with self.lock:
                if key is not None:
                    del self.keys[key]
        return made.result()

    def begin(self, config: Json, seed: int | None) -> Answer:
        name = config.get("env", self.settings.envs[0] if len(self.settings.envs) == 1 else None)
        options = config.get("options", {})
        unknown = sorted(set(config) - {"env", "options"})
        if name not in self.settings.envs or unknown:
            raise Refused(400, f"env_config has env, one of {', '.join(self.settings.envs)}, and options; got {json.dumps(config)[:200]}.")
        shut = sorted(set(options) - set(self.settings.client_options)) if isinstance(options, dict) else ["options"]
        if shut:
            raise Refused(403, f"Options {', '.join(shut)} are set where the server is started (--option), or let in there (--client-option).")
        with self.lock:
            if len(self.open) + self.opening >= self.settings.sessions:
                raise Refused(503, f"All {self.settings.sessions} sessions are taken; close some, or wait.")
            self.opening += 1
        try:
            session = Session(secrets.token_hex(16), Worker(name, {**self.settings.options, **options}, self.settings))
            with self.lock:
                self.open[session.id] = session
        finally:
            with self.lock:
                self.opening -= 1
        first: Answer = ({}, [])
        if seed is not None:
            try:
                first = session.worker.ask("reset", seed)
            except Refused:
                self.end(session)
                raise
        return {"session_id": session.id, **first[0]}, first[1]

    def call(self, data: Json) -> Answer:
        method, params, number = data.get("method"), data.get("params") or {}, data.get("call")
        with self.lock:
            session = self.open.get(str(data.get("session_id")))
        if session is None:
            raise Refused(404, "There is no such session: it was closed, or never opened.")
        if not isinstance(params, dict) or not (number is None or type(number) is int):
            raise Refused(400, "params is an object, and call a whole number.")
        session.used = time.time()
        asked = json.dumps([method, params], sort_keys=True)
        with session.lock:
            if number is not None:
                if number == session.call and asked == session.asked and session.answer is not None:
                    return given(session.answer)
                if number != session.call + 1:
                    raise Refused(409, f"Call {number} was answered before or comes too early: {session.call + 1} is next.")
                session.call, session.asked = number, asked
            try:
                session.answer = self.perform(session, method, params)
            except Refused as error:
                session.answer = error
                if isinstance(error, Lost):
                    self.end(session)
            session.used = time.time()
            return given(session.answer)

    def perform(self, session: Session, method: Any, params: Json) -> Answer:
        if method == "system_prompt":
            return session.worker.prompt
        if method == "reset":
            return session.worker.ask("reset", check_seed(params.get("seed")))
        if method == "step":
            reply = params.get("action_str")
            if not isinstance(reply, str):
                raise Refused(400, "params.action_str is the reply, a text.")
            return session.worker.ask("step", reply)
        if method == "close":
            self.end(session)
            return {"closed": True}, []
        raise Refused(400, "method is system_prompt, reset, step or close.")

    def end(self, session: Session) -> None:
        with self.lock:
            if self.open.pop(session.id, None) is None:
                return
        session.worker.end()

    def list(self) -> Json:
        now, idle = time.time(), self.settings.idle_seconds
        with self.lock:
            listed = [
                {
                    **{"session_id": one.id, "created_at": one.created, "last_access": one.used},
                    **{"idle_seconds": now - one.used, "will_timeout_in": max(0.0, idle - (now - one.used))},
                }
                for one in self.open.values()
            ]
        return {"num_sessions": len(listed), "max_sessions": self.settings.sessions, "session_timeout": idle, "sessions": listed}

    def sweep(self) -> None:
        while True:
            time.sleep(min(self.settings.idle_seconds / 4, 60))
            then = time.time() - self.settings.idle_seconds
            with self.lock:
                idle = [one for one in self.open.values() if one.used < then and not one.lock.locked()]
                for key in [key for key, (at, _) in self.keys.items() if at < then]:
                    del self.keys[key]
            for session in idle:
                self.end(session)


def given(answer: Answer | Exception) -> Answer:
    if isinstance(answer, Exception):
        raise answer
    return answer


def check_seed(seed: Any) -> int:
    if type(seed) is not int or not 0 <= seed < 2**53:
        raise Refused(400, "A seed is a whole number, 0 or more.")
    return seed


# The wire


def pack(data: Json, images: list[bytes]) -> tuple[str, bytes]:
    boundary = f"saccade_{secrets.token_hex(16)}"

    def part(name: str, kind: str, content: bytes, file: str = "") -> bytes:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\nContent-Type: {kind}\r\n\r\n'
        return head.encode() + content + b"\r\n"

    parts = [part("data", "application/json", json.dumps(data, allow_nan=False).encode())]
    parts += [part("images", "image/png", png, f'; filename="image_{i}.png"') for i, png in enumerate(images)]
    return f"multipart/mixed; boundary={boundary}", b"".join(parts) + f"--{boundary}--\r\n".encode()


def unpack(body: bytes, kind: str) -> Json:
    found = re.search(r'^multipart/(?:form-data|mixed)\b.*;\s*boundary="?([^";\s]{1,200})"?', kind, re.IGNORECASE)
    if found is None:
        raise Refused(400, "Send multipart/form-data with a part named data, which holds JSON.")
    for part in (b"\r\n" + body).split(f"\r\n--{found[1]}".encode())[1:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        if blank and re.search(rb'\bname="?data"?', head):
            try:
                data = json.loads(content)
            except (ValueError, RecursionError):
                raise Refused(400, "The part data is not JSON.") from None
            if not isinstance(data, dict):
                raise Refused(400, "The part data must be a JSON object.")
            return data
    raise Refused(400, "The multipart body has no part named data, or is cut off.")


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, settings: Settings, key: str | None) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), Handler)
        self.host = host
        self.key = key
        self.sessions = Sessions(settings)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 120
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.path == "/health":
            self.say(200, {"ok": True, "service": "saccade-gym", "max_inflight": 0})
        elif self.path == "/sessions":
            self.answer(lambda: (self.server.sessions.list(), []), plain_json=True)
        else:
            self.say(404, {"error": "There is no such page."})

    def do_POST(self) -> None:
        routes = {"/connect": self.server.sessions.connect, "/call": self.server.sessions.call}
        route = routes.get(self.path)
        if route is None:
            self.close_connection = True
            self.say(404, {"error": "There is no such page."})
        else:
            self.answer(lambda: route(self.read()))

    def answer(self, work: Any, plain_json: bool = False) -> None:
        try:
            self.check()
            data, images = work()
            if plain_json:
                self.say(200, data)
            else:
                kind, body = pack(data, images)
                self.send(200, kind, body)
        except Refused as error:
            self.say(error.status, {"error": str(error)})
        except Exception as error:  # an environment may throw anything
            self.say(500, {"error": f"{type(error).__name__}: {error}"})

    def check(self) -> None:
        host = self.headers.get("Host", "")
        name = re.sub(r":\d+$", "", host).strip("[]").lower()
        ours = is_loopback(name) or (not is_loopback(self.server.host) and (is_address(name) or name in (self.server.host, socket.gethostname().lower())))
        origin = self.headers.get("Origin")
        if not ours or (origin is not None and origin not in (f"http://{host}", f"https://{host}")):
            self.close_connection = True
            raise Refused(403, "Requests from other sites, or under another name, are refused.")
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        given = self.headers.get("X-API-Key") or bearer
        if self.server.key is not None and not hmac.compare_digest(given.encode(), self.server.key.encode()):
            self.close_connection = True
            raise Refused(401, "This server needs its key, in the header X-API-Key.")

    def read(self) -> Json:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MOST_BODY:
            self.close_connection = True
            # Who is still writing would not hear the answer; who writes on and on need not.
            if length.isdigit():
                self.drain(min(int(length), MOST_DRAINED))
            raise Refused(413 if length.isdigit() else 411, f"A request says its length, at most {MOST_BODY} bytes.")
        return unpack(self.rfile.read(int(length)), self.headers.get("Content-Type", ""))

    def drain(self, left: int) -> None:
        while left > 0 and (got := self.rfile.read(min(left, 2**16))):
            left -= len(got)

    def say(self, status: int, data: Json) -> None:
        self.send(status, "application/json", json.dumps(data).encode())

    def send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 503:
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return False


def parse_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"an option is name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main() -> None:
    parser = argparse.ArgumentParser(description="Gymnasium environments over HTTP, for Saccade's environment `remote`.")
    parser.add_argument("envs", nargs="+", help="ids as gymnasium.make takes them, such as FrozenLake-v1 or my_module:MyEnv-v0")
    parser.add_argument("--host", default="127.0.0.1", help="beyond this machine SACCADE_API_KEY must hold a key")
    parser.add_argument("--port", type=int, default=8100, help="0 for any free one")
    parser.add_argument("--option", action="append", default=[], type=parse_option, metavar="NAME=VALUE", help="for gymnasium.make; repeat")
    parser.add_argument("--client-option", action="append", default=[], metavar="NAME", help="an option that clients may set; repeat")
    parser.add_argument("--actions", default="", help="names of discrete actions, in order, with commas between")
    parser.add_argument("--task", default="", help="what the model is told to do")
    parser.add_argument("--observe", choices=["image", "text", "both"], default="image")
    parser.add_argument("--max-turns", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=64, help="most at a time; each is a process")
    parser.add_argument("--idle-seconds", type=float, default=1800, help="after which an unused session is closed")
    parser.add_argument("--call-seconds", type=float, default=600, help="after which a call that hangs ends its session")
    given = parser.parse_args()
    key = os.environ.get("SACCADE_API_KEY") or None
    if not is_loopback(given.host) and (key is None or len(key) < LEAST_KEY):
        parser.error(f"others can reach {given.host}: put a key of at least {LEAST_KEY} characters into SACCADE_API_KEY")
    for name in given.envs:
        try:
            gym.spec(name)
        except Exception as error:
            parser.error(f"{name}: {error}")
    if CONTEXT.get_start_method() == "forkserver":
        CONTEXT.set_forkserver_preload(["gymnasium", "numpy"])
    settings = Settings(
        envs=given.envs,
        options=dict(given.option),
        client_options=given.client_option,
        actions=[name.strip() for name in given.actions.split(",") if name.strip()],
        **{name: getattr(given, name) for name in ("task", "observe", "max_turns", "sessions", "idle_seconds", "call_seconds")},
    )
    server = Server(given.host, given.port, settings, key)
    host = f"[{given.host}]" if ":" in given.host else given.host
    print(f"http://{host}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
