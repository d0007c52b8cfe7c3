"""The worker's HTTP door. Bodies are msgpack; every request carries the key. Routes:

POST /call     {op, …} → what the operation gives, or {error: {name, message}}; `frames` come along with it
POST /frames   {frames: […]}: images ahead of the call that shows them, where they are many
PUT, GET /files/<bundle>/<path>, GET and DELETE /files/<bundle>: folders that travel, for callers that share no disk
GET /health    who this is: an `instance` that changes when the process does

A worker that a parent started ends with it: its standard input is a pipe, and closes when the parent dies.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import shutil
import sys
import tempfile
import threading
import traceback
import uuid
from pathlib import Path
from typing import Any, Awaitable, Callable, Sequence

import torch
from aiohttp import web

from . import __version__, wire
from .errors import ConfigError, DataError, SaccadeError
from .worker import Worker

LEAST_KEY = 16
"""Characters."""
CHAT_OPS = ("chat", "render", "reply")
FOLDER_OPS = ("open_learner", "open_sampler", "export", "checkpoint", "restore", *CHAT_OPS)
SAMPLER_OPS = ("abort", "score", "offer", "give", "release", "close_sampler")
MOST_BODY = 2 * 1024**3
BUNDLE = "bundle:"
"""A folder that begins with this lies among the files that travelled."""


class Server:
    def __init__(self, worker: Worker, key: str) -> None:
        self.worker = worker
        self.key = key
        self.instance = uuid.uuid4().hex
        self.scratch = Path(tempfile.mkdtemp(prefix="saccade-torch-"))
        self.stopping = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BODY, middlewares=[self._guard])
        app.router.add_get("/health", self._health)
        app.router.add_post("/frames", self._frames)
        app.router.add_post("/call", self._call)
        app.router.add_put("/files/{bundle}/{path:.+}", self._put)
        app.router.add_get("/files/{bundle}/{path:.+}", self._get)
        app.router.add_get("/files/{bundle}", self._list)
        app.router.add_delete("/files/{bundle}", self._delete)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        # Bytes that are no UTF-8 arrive as lone surrogates.
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.key.encode("utf-8", "surrogateescape")):
            return reply({"error": {"name": "ConfigError", "message": "The key is wrong. Set SACCADE_TORCH_KEY to the worker's key."}}, 401)
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except Exception as problem:
            if not isinstance(problem, SaccadeError):
                traceback.print_exception(problem)
            return reply(wire.error_body(problem), 400)

    async def _health(self, _: web.Request) -> web.StreamResponse:
        settings = self.worker.settings
        return reply(
            {
                "instance": self.instance,
                "version": __version__,
                "torch": torch.__version__,
                "device": str(settings.device) if settings.device.type == "cpu" else torch.cuda.get_device_name(settings.device),
                "dtype": str(settings.compute).removeprefix("torch."),
                "frameBytes": self.worker.frames.most_bytes,
                "stats": await self.worker.stats(),
            }
        )

    async def _frames(self, request: web.Request) -> web.StreamResponse:
        _, frames = wire.read_request(await whole(request))
        self.worker.frames.put(frames)
        return reply({})

    async def _call(self, request: web.Request) -> web.StreamResponse:
        given, frames = wire.read_request(await whole(request))
        self.worker.frames.put(frames)
        op = given.get("op")
        if not isinstance(op, str):
            raise DataError("A call names its op.")
        if given.get("instance") not in (None, self.instance):
            # Numbers of learners and samplers begin anew with each process.
            return reply({"error": {"name": "OtherInstance", "message": "This worker was started anew."}}, 409)
        if op in FOLDER_OPS:
            given |= {name: self._place(given[name], name) for name in ("folder", "base") if given.get(name)}
        if op == "sample":
            return await self._sample(request, given)
        if op in CHAT_OPS:
            return reply(await self.worker.chat_call(op, given))
        if op in SAMPLER_OPS:
            return reply(await self.worker.sampler_call(op, given))
        if op == "open_learner":
            work = self.worker.open_learner(given)
        elif op == "open_sampler":
            work = self.worker.open_sampler(given)
        else:
            work = self.worker.learner_call(op, given)
        # A caller that hangs up does not stop what changes weights: it may ask again for the answer.
        return reply(await asyncio.shield(asyncio.ensure_future(work)))

    async def _sample(self, request: web.Request, given: dict[str, Any]) -> web.StreamResponse:
        """Many at once: messages behind their length in four bytes, each as soon as it is known; `of` says which of the asked it answers."""
        said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        asked = self.worker.sample(given, said.put_nowait)
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        try:
            await response.prepare(request)
            left = len(asked)
            while left:
                messages = [await said.get()]
                while not said.empty():
                    messages.append(said.get_nowait())
                left -= sum("id" not in message for message in messages)
                await send(response, messages)
        except BaseException:
            # The caller hung up.
            self.worker.abort(given["sampler"], asked)
            raise
        await response.write_eof()
        return response

    async def _put(self, request: web.Request) -> web.StreamResponse:
        file = self._file(request)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as out:
            async for part in request.content.iter_chunked(1024**2):
                out.write(part)
        return reply({})

    async def _get(self, request: web.Request) -> web.StreamResponse:
        file = self._file(request)
        return web.FileResponse(file) if file.is_file() else reply({"error": {"name": "DataError", "message": f"There is no {file.name}."}}, 404)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        root = self._bundle(request.match_info["bundle"])
        return reply({"files": sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())})

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        shutil.rmtree(self._bundle(request.match_info["bundle"]), ignore_errors=True)
        return reply({})

    def _bundle(self, name: str) -> Path:
        return self._inside(self.scratch / name)

    def _file(self, request: web.Request) -> Path:
        return self._inside(self.scratch / request.match_info["bundle"] / request.match_info["path"])

    def _place(self, folder: object, name: str) -> str:
        if not isinstance(folder, str):
            raise DataError(f"{name} is a path, not {type(folder).__name__}.")
        return str(self._inside(self.scratch / folder.removeprefix(BUNDLE))) if folder.startswith(BUNDLE) else folder

    def _inside(self, path: Path) -> Path:
        resolved = path.resolve()
        if not resolved.is_relative_to(self.scratch.resolve()) or resolved == self.scratch.resolve():
            raise ConfigError("A file that travels must have a place inside its bundle.")
        return resolved

    async def serve(self, host: str, port: int, announce: Callable[[int], None]) -> None:
        runner = web.AppRunner(self.app(), handler_cancellation=True, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        await site.start()
        announce(site._server.sockets[0].getsockname()[1])  # type: ignore[union-attr]
        try:
            await self.stopping.wait()
        finally:
            # What is being written is given a moment; a half-written folder is never in place.
            await asyncio.wait({asyncio.ensure_future(runner.cleanup())}, timeout=5)
            shutil.rmtree(self.scratch, ignore_errors=True)


def end_with_parent(stop: Callable[[], None]) -> None:
    """Calls `stop` when standard input closes, and ends the process if that does not."""

    def watch() -> None:
        try:
            while os.read(sys.stdin.fileno(), 4096):
                pass
        except OSError:
            pass
        stop()
        threading.Timer(15, lambda: os._exit(0)).start()

    threading.Thread(target=watch, name="parent", daemon=True).start()


def reply(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=wire.pack(body), status=status, content_type="application/msgpack")


async def whole(request: web.Request) -> bytearray:
    """The body, in a place of its own: aiohttp's `read` copies it twice, and images are most of it."""
    size = request.content_length
    if size is None or size > MOST_BODY:
        raise web.HTTPRequestEntityTooLarge(MOST_BODY, size or MOST_BODY + 1)
    data = bytearray(size)
    at = 0
    async for part in request.content.iter_any():
        data[at : at + len(part)] = part
        at += len(part)
    return data


async def send(response: web.StreamResponse, messages: Sequence[Any]) -> None:
    parts = [wire.pack(message) for message in messages]
    await response.write(b"".join(piece for part in parts for piece in (len(part).to_bytes(4, "little"), part)))
