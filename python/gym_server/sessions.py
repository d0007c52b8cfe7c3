"""Sessions: one environment each. A numbered call acts once: the same number gets the same answer again."""

from __future__ import annotations

import json
import secrets
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from .environment import Worker
from .settings import Answer, Json, Lost, Refused, Settings

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
            raise Refused(400, "env_config must be an object, and key a string.")
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
            raise Refused(403, f"Options {', '.join(shut)} can only be set when the server is started (--option), unless it lets clients set them (--client-option).")
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
            raise Refused(400, "params must be an object, and call a whole number.")
        session.used = time.time()
        asked = json.dumps([method, params], sort_keys=True)
        with session.lock:
            if number is not None:
                if number == session.call and asked == session.asked and session.answer is not None:
                    return given(session.answer)
                if number != session.call + 1:
                    raise Refused(409, f"Call {number} was already answered or comes too early: the next is {session.call + 1}.")
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
                raise Refused(400, "params.action_str must be the reply, a string.")
            return session.worker.ask("step", reply)
        if method == "close":
            self.end(session)
            return {"closed": True}, []
        raise Refused(400, "method must be system_prompt, reset, step or close.")

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
        raise Refused(400, "A seed must be a whole number, 0 or more.")
    return seed
