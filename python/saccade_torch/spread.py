"""Samplers on every rank. Rank 0 deals requests out and passes answers on; a sequence stays on the rank that has its keys and values, and siblings, which begin
with one prompt, go together. Weights never travel here: each rank keeps the copy that it gathered when they were published. Images travel once.

What is said goes over a connection of its own, beside the collectives of learning, which other threads are in the middle of. When a rank is gone, rank 0 says so
and ends: what the others know of each other is not whole any more, and the run goes on from its last checkpoint.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import threading
import traceback
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from queue import SimpleQueue
from typing import Any, Callable, Sequence

import numpy as np

from .draw import SamplingParams
from .errors import LAST_WORDS, EngineError, MissingFrames
from .frames import FRAME_BYTES, Frame, FrameStore
from .learner import Settings, open_frozen
from .network import Network, Span, Tokens
from .passes import Request, Sample
from .sampler import Sampler
from .sampler_thread import SamplerThread
from .whole_sampler import sampler_of

Row = tuple[np.ndarray, list[tuple[int, int, str]]]
MOST_PROMPTS = 4096
"""First prompts whose rank is remembered; siblings come soon after each other."""
MOST_KNOWN = 100_000
"""Images that a rank is thought to have; past it all are sent again, and those that it still has it does not keep twice."""


@dataclass(frozen=True)
class Far:
    """A sampler on all ranks, by the number that they know it under; and of what folder, where no learner published it."""

    number: int
    folder: str | None = None
    base: str | None = None


@dataclass
class Mate:
    """Another rank, as rank 0 knows it."""

    connection: Connection
    outbox: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    known: set[str] = field(default_factory=set)
    """Images that it was sent."""


class Spread:
    """Rank 0's side. Called from the event loop's thread, but for `answer`."""

    def __init__(self, mates: Sequence[Mate]) -> None:
        self.mates = mates
        self.places: dict[int, dict[str, int]] = {}
        """By sampler and sequence: the rank."""
        self._prompts: dict[int, OrderedDict[bytes, int]] = {}
        """By sampler and first prompt: the rank that siblings go to."""
        self._open: dict[int, tuple[int, Callable[[Any], None], Callable[[int, float], None] | None, Request | None]] = {}
        self._ticket = 0
        self._lock = threading.Lock()
        for rank, mate in enumerate(mates, 1):
            threading.Thread(target=self._write, args=(mate,), name=f"to rank {rank}", daemon=True).start()
            threading.Thread(target=self._read, args=(mate, rank), name=f"from rank {rank}", daemon=True).start()

    def deal(self, far: Far, requests: Sequence[Request]) -> list[Request]:
        """Sends each where it belongs; those that belong here are given back."""
        places = self.places.setdefault(far.number, {})
        prompts = self._prompts.setdefault(far.number, OrderedDict())
        mine: list[Request] = []
        away: dict[int, list[Request]] = {}
        load = Counter(places.values())
        for request in requests:
            rank = places.get(request.sequence)
            if rank is None:
                start = _digest(request.input)
                least = min(range(len(self.mates) + 1), key=lambda one: load[one])
                rank = prompts.setdefault(start, least)
                # One prompt may be all that is asked.
                if load[rank] > 2 * (load[least] + 4):
                    rank = prompts[start] = least
                prompts.move_to_end(start)
                if len(prompts) > MOST_PROMPTS:
                    prompts.popitem(last=False)
                places[request.sequence] = rank
                load[rank] += 1
            (mine if rank == 0 else away.setdefault(rank, [])).append(request)
        for rank, some in away.items():
            self._send(rank, far, some)
        return mine

    def _send(self, rank: int, far: Far, requests: Sequence[Request]) -> None:
        mate = self.mates[rank - 1]
        frames: dict[str, Frame] = {}
        asked = []
        for request in requests:
            frames |= {span.frame.key: span.frame for span in request.input.spans if span.frame.key not in mate.known}
            ticket = self._expect(rank, request.done, request.on_token, request)
            row = (request.input.ids, [(span.start, span.length, span.frame.key) for span in request.input.spans])
            asked.append((ticket, request.sequence, row, request.params, request.on_token is not None))
        if len(mate.known) > MOST_KNOWN:
            mate.known.clear()
        mate.known |= set(frames)
        mate.outbox.put(("sample", far, asked, list(frames.values())))

    def abort(self, far: Far, sequences: Sequence[str]) -> None:
        for rank, mate in enumerate(self.mates, 1):
            mine = [name for name in sequences if self.places.get(far.number, {}).get(name) == rank]
            if mine:
                mate.outbox.put(("abort", far, mine))

    def release(self, far: Far, sequence: str) -> None:
        rank = self.places.get(far.number, {}).pop(sequence, 0)
        if rank:
            self.mates[rank - 1].outbox.put(("release", far, sequence))

    def ask(self, op: str, far: Far | None, done: Callable[[list[Any]], None]) -> None:
        """All other ranks; `done` gets what they answer, once, from a thread of its own."""
        found: list[Any] = []

        def one(answer: Any) -> None:
            with self._lock:
                found.append(answer)
                whole = len(found) == len(self.mates)
            if whole:
                done(found)

        for rank, mate in enumerate(self.mates, 1):
            mate.outbox.put((op, far, self._expect(rank, one)))
        if far is not None and op in ("close", "forget"):
            self.places.pop(far.number, None)
            self._prompts.pop(far.number, None)

    def _expect(self, rank: int, done: Callable[[Any], None], on_token: Callable[[int, float], None] | None = None, request: Request | None = None) -> int:
        with self._lock:
            self._ticket += 1
            self._open[self._ticket] = (rank, done, on_token, request)
            return self._ticket

    def _write(self, mate: Mate) -> None:
        try:
            while True:
                put(mate.connection, mate.outbox.get())
        except OSError:
            return  # Who reads says it.

    def _read(self, mate: Mate, rank: int) -> None:
        while True:
            try:
                kind, ticket, *answer = take(mate.connection)
            except (EOFError, OSError):
                # In words that the caller is told; nothing that was sampled is lost but this step.
                print(f"{LAST_WORDS}Rank {rank} of {len(self.mates) + 1} ended. The run goes on from its last checkpoint.", file=sys.stderr, flush=True)
                os._exit(1)
            if kind == "token":
                on_token = self._open[ticket][2]
                if on_token is not None:
                    on_token(*answer)
                continue
            with self._lock:
                _, done, _, request = self._open.pop(ticket)
            if kind == "missing" and request is not None:
                # That rank let images go: all of this request's go again.
                mate.known -= {span.frame.key for span in request.input.spans}
                self._send(rank, answer[0], [request])
                continue
            done(answer[0])


class Post:
    """Another rank's side: samplers of its own, on a thread of their own."""

    def __init__(self, connection: Connection, settings: Settings, cache_bytes: int | None, frame_bytes: int | None) -> None:
        self.connection, self.settings, self.cache_bytes = connection, settings, cache_bytes
        self.samplers: dict[int, Sampler] = {}
        self.frames = FrameStore(frame_bytes or FRAME_BYTES)
        self.sampling = SamplerThread(settings.device)
        self._speaks = threading.Lock()
        threading.Thread(target=self._listen, name="rank 0", daemon=True).start()

    def publish(self, far: Far, network: Network, version: int) -> None:
        """Weights were gathered: into the network of a sampler that is known, or into a new one."""
        known = self.samplers.get(far.number)
        if known is not None:
            known.renew(version)
            return
        self._admit(far, sampler_of(network, self.settings, version, self.cache_bytes))

    def _admit(self, far: Far, sampler: Sampler) -> Sampler:
        self.samplers[far.number] = sampler
        self.sampling.watch(sampler)
        return sampler

    def _listen(self) -> None:
        while True:
            try:
                message = take(self.connection)
            except (EOFError, OSError):
                # Rank 0 is gone, and nobody asks for anything any more.
                os._exit(1)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            self.sampling.do(lambda message=message: self._do(*message))

    def _say(self, *message: Any) -> None:
        with self._speaks:
            put(self.connection, message)

    def _do(self, op: str, far: Far, given: Any, frames: Sequence[Frame] = ()) -> None:
        sampler = None if far is None else self.samplers.get(far.number)
        if op == "sample":
            self.frames.put(frames)
            for one in given:
                self._sample(far, *one)
        elif op == "abort":
            for request in sampler.requests() if sampler else []:
                if request.sequence in given:
                    sampler.abort(request)  # type: ignore[union-attr]
                    request.done(EngineError("This sample was broken off."))
        elif op == "release":
            if sampler:
                sampler.release(given)
        elif op == "close":
            if sampler:
                sampler.close()
            self._say("done", given, None)
        elif op == "forget":
            if sampler:
                sampler.close()
                self.sampling.forget(sampler)
                del self.samplers[far.number]
            self._say("done", given, None)
        elif op == "stats":
            self._say("done", given, [(one.seen.encoded, dict(one.counts)) for one in list(self.samplers.values())])

    def _sample(self, far: Far, ticket: int, sequence: str, row: Row, params: SamplingParams, stream: bool) -> None:
        ids, spans = row
        try:
            sampler = self.samplers.get(far.number)
            if sampler is None:
                if far.folder is None:
                    raise EngineError("This sampler is not on this rank. Publish or open another.")
                # Only now: most models that are opened from a folder score, which rank 0 does alone.
                sampler = self._admit(far, sampler_of(open_frozen(far.folder, self.settings, far.base), self.settings, 0, self.cache_bytes))
            found = dict(zip((key for _, _, key in spans), self.frames.get([key for _, _, key in spans])))
        except MissingFrames:
            self._say("missing", ticket, far)
            return
        except Exception as problem:
            self._say("done", ticket, _plain(problem))
            return

        def done(result: Sample | BaseException) -> None:
            self._say("done", ticket, result if isinstance(result, Sample) else _plain(result))

        on_token = (lambda id, logprob: self._say("token", ticket, id, logprob)) if stream else None
        tokens = Tokens(ids, tuple(Span(start, length, found[key]) for start, length, key in spans))
        sampler.submit(Request(sequence, tokens, params, done, on_token))


def _digest(row: Tokens) -> bytes:
    found = hashlib.blake2b(row.ids.tobytes(), digest_size=16)
    for span in row.spans:
        found.update(span.frame.key.encode())
    return found.digest()


def put(connection: Connection, message: Any) -> None:
    # Not `send`: torch would hand tensors over as files that both processes open, which other machines can't.
    connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))


def take(connection: Connection) -> Any:
    return pickle.loads(connection.recv_bytes())


def _plain(problem: BaseException) -> BaseException:
    """What can travel: an error may hold tensors, or be of a class that takes other arguments."""
    from .errors import ConfigError, DataError

    kind = next((one for one in (ConfigError, DataError, EngineError) if isinstance(problem, one)), None)
    return kind(str(problem)) if kind else EngineError(f"The PyTorch worker failed: {type(problem).__name__}: {problem}")


def gather(ranks: int, key: str) -> Spread:
    """Rank 0 waits for the others."""
    import torch.distributed as dist

    here = os.environ.get("LOCAL_WORLD_SIZE", str(ranks)) == str(ranks)
    with Listener(("127.0.0.1" if here else "0.0.0.0", 0), backlog=ranks, authkey=key.encode()) as listener:
        host = "127.0.0.1" if here else os.environ["MASTER_ADDR"]
        dist.broadcast_object_list([(host, listener.address[1])], src=0)
        found = {}
        for _ in range(ranks - 1):
            connection = listener.accept()
            found[take(connection)] = Mate(connection)
    return Spread([found[rank] for rank in range(1, ranks)])


def report(settings: Settings, key: str, cache_bytes: int | None, frame_bytes: int | None) -> Post:
    """Another rank turns up at rank 0."""
    import torch.distributed as dist

    box: list[Any] = [None]
    dist.broadcast_object_list(box, src=0)
    connection = Client(box[0], authkey=key.encode())
    put(connection, dist.get_rank())
    return Post(connection, settings, cache_bytes, frame_bytes)

