"""The HTTP side: multipart bodies, checks of host, origin and key, and the routes."""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import secrets
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .sessions import Sessions
from .settings import Json, Refused, Settings

MAX_BODY_BYTES = 4 * 1024**2
MAX_DRAINED_BYTES = 64 * 1024**2


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
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            # A client that is still writing would miss the answer, so read on, up to a limit.
            if length.isdigit():
                self.drain(min(int(length), MAX_DRAINED_BYTES))
            raise Refused(413 if length.isdigit() else 411, f"A request must say its length, at most {MAX_BODY_BYTES} bytes.")
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
