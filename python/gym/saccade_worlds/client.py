"""A client of `saccade serve --envs`. It starts the server when none is named, once per process, and ends it with the process.

The wire is that of Saccade's remote environments: multipart bodies with one part `data` of JSON and images as PNG. Only the standard library is used.
"""

from __future__ import annotations

import atexit
import json
import os
import shlex
import subprocess
import threading
import urllib.error
import urllib.request
from email.parser import BytesParser

_lock = threading.Lock()
_servers: dict[str, Server] = {}


class ServerError(RuntimeError):
    """The server refused a request, or could not be started."""


class Server:
    """A process of `saccade serve --envs`. SACCADE_COMMAND names the command; default `npx saccade`."""

    def __init__(self, names: list[str]):
        command = shlex.split(os.environ.get("SACCADE_COMMAND", "npx saccade"))
        arguments = [*command, "serve", "--port", "0", "--envs", *names]
        try:
            self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        except OSError as error:
            raise ServerError(f"{command[0]} can't be started ({error}): install Node and Saccade, or set SACCADE_COMMAND.") from error
        line = (self.process.stdout.readline() if self.process.stdout else "").strip()
        if not line.startswith("http"):
            self.close()
            raise ServerError(f"{' '.join(arguments)} did not start: {line or 'its errors are above.'}")
        self.url = line
        atexit.register(self.close)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if self.process.stdout:
            self.process.stdout.close()


def shared_server(world: str) -> Server:
    """One server for all built-in worlds, and one for each file."""
    is_file = world.startswith((".", "/")) or world.split("#")[0].endswith((".ts", ".js", ".mts", ".mjs"))
    name = world if is_file else "all"
    with _lock:
        server = _servers.get(name)
        if server is None or server.process.poll() is not None:
            server = _servers[name] = Server([name])
        return server


class World:
    """One environment in Saccade's own terms: messages in OpenAI's form in, reply text out. Images are PNG files, as bytes."""

    def __init__(self, world: str, options: dict | None = None, url: str | None = None, key: str | None = None, timeout: float = 600):
        self.timeout = timeout
        self._key = key or os.environ.get("SACCADE_API_KEY")
        self._url = (url or shared_server(world).url).rstrip("/")
        self._call = 0
        opened, _ = self._post("/connect", {"env_config": {**(options or {}), "env": world}})
        self._session = opened["session_id"]

    def reset(self, seed: int) -> tuple[dict, list[bytes]]:
        return self._ask("reset", {"seed": int(seed)})

    def step(self, reply: str) -> tuple[dict, list[bytes]]:
        return self._ask("step", {"action_str": reply})

    def builtin(self, agent: str, seed: int = 0) -> str | None:
        """What a built-in agent (`oracle`, `random`) replies now; None where it has nothing to say."""
        data, _ = self._ask("builtin", {"agent": agent, "seed": seed})
        return data.get("reply")

    def close(self) -> None:
        if self._session is None:
            return
        try:
            self._ask("close", {})
        except ServerError:
            pass  # It is gone already.
        self._session = None

    def _ask(self, method: str, params: dict) -> tuple[dict, list[bytes]]:
        call, self._call = self._call, self._call + 1
        return self._post("/call", {"session_id": self._session, "method": method, "params": params, "call": call})

    def _post(self, path: str, data: dict) -> tuple[dict, list[bytes]]:
        mark = f"saccade_{os.urandom(16).hex()}"
        part = f'--{mark}\r\nContent-Disposition: form-data; name="data"\r\nContent-Type: application/json\r\n\r\n'
        body = part.encode() + json.dumps(data).encode() + f"\r\n--{mark}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={mark}"}
        if self._key:
            headers["X-API-Key"] = self._key
        request = urllib.request.Request(self._url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return _unpack(answer.read(), answer.headers["Content-Type"])
        except urllib.error.HTTPError as error:
            said = error.read().decode("utf-8", "replace")
            try:
                said = json.loads(said)["error"]["message"]
            except (ValueError, KeyError, TypeError):
                pass
            raise ServerError(f"{self._url}{path} answered {error.code}: {said}") from None
        except OSError as error:
            raise ServerError(f"{self._url} can't be reached: {error}") from error


def _unpack(body: bytes, kind: str) -> tuple[dict, list[bytes]]:
    parsed = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    data: dict = {}
    images: list[bytes] = []
    for part in parsed.get_payload():
        content = part.get_payload(decode=True)
        if part.get_param("name", header="content-disposition") == "data":
            data = json.loads(content)
        else:
            images.append(content)
    return data, images
