"""What the server does its work with: learners on one thread, in the order they were asked, samplers on another, ticking while anything is asked of
them. Each learner remembers its last answer, so that a call that was sent again after a lost connection is not done twice.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Mapping

from . import wire
from .adapters import LoraSpec
from .draw import SamplingParams
from .errors import EngineError, SaccadeError
from .frames import FRAME_BYTES, FrameStore
from .learner import Learner, Settings, open_frozen
from .network import Tokens
from .ranks import Leader, tell
from .rendering import renderer_of
from .sampler import Request, Sample, Sampler
from .transfer import Offer

Body = Mapping[str, Any]


NO_SAMPLER = "This sampler is not here: it was closed, or the worker was started anew. Publish or open another."


class SamplerThread(threading.Thread):
    """Owns every sampler; others hand it things to do."""

    def __init__(self) -> None:
        super().__init__(name="samplers", daemon=True)
        self._jobs: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._samplers: set[Sampler] = set()
        self.start()

    def do(self, job: Callable[[], None]) -> None:
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def watch(self, sampler: Sampler) -> None:
        self.do(lambda: self._samplers.add(sampler))

    def forget(self, sampler: Sampler) -> None:
        self.do(lambda: self._samplers.discard(sampler))

    def run(self) -> None:
        while True:
            with self._wake:
                while not self._jobs and not any(sampler.busy for sampler in self._samplers):
                    self._wake.wait()
                jobs = list(self._jobs)
                self._jobs.clear()
            for job in jobs:
                job()
            for sampler in list(self._samplers):
                if sampler.busy:
                    sampler.tick()


@dataclass
class LearnerEntry:
    learner: Learner | Leader
    spares: list[Sampler] = field(default_factory=list)
    """Samplers that nothing uses any more: the next version is written over their weights."""
    last_call: int = -1
    last_answer: dict[str, Any] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class SamplerEntry:
    sampler: Sampler
    owner: LearnerEntry | None = None


class Worker:
    def __init__(self, settings: Settings, cache_bytes: int | None = None, ranks: int = 1, frame_bytes: int | None = None) -> None:
        self.settings = settings
        self.ranks = ranks
        self.cache_bytes = cache_bytes
        self.frames = FrameStore(frame_bytes or FRAME_BYTES)
        self.learners: dict[int, LearnerEntry] = {}
        self.samplers: dict[int, SamplerEntry] = {}
        self.offers: dict[int, Offer] = {}
        self._next = 0
        self._learning = ThreadPoolExecutor(1, "learners")
        self.sampling = SamplerThread()

    def number(self) -> int:
        self._next += 1
        return self._next

    async def learn(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._learning, work)

    async def on_sampler(self, work: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def job() -> None:
            try:
                result = work()
            except BaseException as problem:
                loop.call_soon_threadsafe(_settle, future, None, problem)
            else:
                loop.call_soon_threadsafe(_settle, future, result, None)

        self.sampling.do(job)
        return await future

    async def open_learner(self, given: Body) -> dict[str, Any]:
        lora = given.get("lora")
        spec = None if lora is None else LoraSpec.read(lora)
        kind = Leader if self.ranks > 1 else Learner
        make = lambda: kind(given["folder"], self.settings, given.get("head") or "lm", spec, given.get("freeze"), given["seed"])  # noqa: E731
        learner = await self.learn(make)
        id = self.number()
        self.learners[id] = LearnerEntry(learner)
        return {"learner": id}

    async def open_sampler(self, given: Body) -> dict[str, Any]:
        network = await self.learn(lambda: open_frozen(given["folder"], self.settings, given.get("base")))
        return self._admit(Sampler(network, self.settings, 0, self.cache_bytes), None)

    def _admit(self, sampler: Sampler, owner: LearnerEntry | None) -> dict[str, Any]:
        id = self.number()
        self.samplers[id] = SamplerEntry(sampler, owner)
        self.sampling.watch(sampler)
        return {"sampler": id, "version": sampler.version}

    async def learner_call(self, op: str, given: Body) -> dict[str, Any]:
        """One call of a learner, done once however often it is asked."""
        entry = self.learners.get(given["learner"])
        if entry is None:
            raise EngineError("This learner is not here: it was closed, or the worker was started anew. Open it again and restore a checkpoint.")
        call = given.get("call", -1)
        async with entry.lock:
            if call >= 0 and call == entry.last_call:
                return entry.last_answer
            answer = await self._learner_op(entry, op, given)
            entry.last_call, entry.last_answer = call, answer
            return answer

    async def _learner_op(self, entry: LearnerEntry, op: str, given: Body) -> dict[str, Any]:
        learner = entry.learner
        if op == "forward":
            data = wire.read_data(given["data"], self.frames)
            found = await self.learn(lambda: learner.forward(data))
            name = "values" if learner.head == "value" else "logprobs"
            return {"forwards": [{name: wire.raw(a), **({} if b is None else {"entropy": wire.raw(b)})} for a, b in found]}
        if op == "forward_backward":
            data = wire.read_data(given["data"], self.frames)
            report = await self.learn(lambda: learner.forward_backward(data, given["loss"]))
            metrics = {"tokens": report.tokens, **report.metrics}
            # Of the pictures that stood behind the placeholders in this very pass.
            pictures = [[span.frame.key for span in datum.input.spans] for datum in data]
            outputs = [wire.raw(a) for a in report.outputs]
            return {"loss": report.loss, "finite": report.finite, "metrics": metrics, "outputs": outputs, "pictures": pictures}
        if op == "step":
            if given.get("spoiled"):
                await self.learn(learner.spoil)
            return dict(await self.learn(lambda: learner.step(given["optimizer"])))
        if op == "publish":
            spare = entry.spares.pop() if entry.spares else None
            network, version = await self.learn(lambda: learner.publish(spare and spare.network))
            if spare is None:
                assert network is not None
                spare = Sampler(network, self.settings, version, self.cache_bytes)
            else:
                spare.renew(version)
            return self._admit(spare, entry)
        plain: dict[str, Callable[[], None]] = {
            "discard": learner.discard,
            "fresh_optimizer": learner.fresh_optimizer,
            "export": lambda: learner.export(given["folder"]),
            "checkpoint": lambda: learner.checkpoint(given["folder"]),
            "restore": lambda: learner.restore(given["folder"]),
        }
        if op == "close":
            del self.learners[given["learner"]]
            if isinstance(learner, Leader):
                await self.learn(lambda: tell(("close", learner.id, None)))
            return {}
        if op not in plain:
            raise EngineError(f"A learner has no {op}. Use the same version of saccade on both sides.")
        await self.learn(plain[op])
        return {}

    async def chat_call(self, op: str, given: Body) -> dict[str, Any]:
        """Messages to ids, on threads of their own: nothing that learns or samples waits for it."""

        def work() -> dict[str, Any]:
            renderer = renderer_of(given["folder"])
            if op == "chat":
                return renderer.about()
            if op == "reply":
                return {"ids": wire.raw(renderer.reply(given["text"]))}
            frames = self.frames.get(given["images"])
            if given["kind"] == "prompt":
                ids, spans = renderer.prompt(given["messages"], frames, given.get("variables") or {})
            else:
                ids, spans = renderer.delta(given["messages"], frames, given["kind"] == "ended")
            return {"ids": wire.raw(ids), "spans": spans}

        return await asyncio.to_thread(work)

    async def sampler_call(self, op: str, given: Body) -> dict[str, Any]:
        entry = self.samplers.get(given["sampler"])
        if entry is None:
            if op in ("abort", "release", "close_sampler"):
                return {}
            raise EngineError(NO_SAMPLER)
        sampler = entry.sampler
        if op == "abort":
            self.abort(given["sampler"], [given["sequence"]])
            return {}
        if op == "score":
            data = wire.read_data(given["data"], self.frames)
            return {"scores": [wire.raw(a) for a in await self.on_sampler(lambda: sampler.score(data))]}
        if op == "offer":
            offer = Offer.of(sampler.network.named(), given["takers"])
            id = self.number()
            self.offers[id] = offer
            return {"offer": id, **offer.body()}
        if op == "give":
            # It waits for others, so neither learning nor sampling may wait for it.
            await asyncio.to_thread(self.offers.pop(given["offer"]).give)
            return {}
        if op == "release":
            self.sampling.do(lambda: sampler.release(given["sequence"]))
            return {}
        if op == "close_sampler":
            del self.samplers[given["sampler"]]
            await self.on_sampler(sampler.close)
            self.sampling.forget(sampler)
            # Two are enough: one that samples and one to write the next version over.
            if entry.owner is not None and len(entry.owner.spares) < 2:
                entry.owner.spares.append(sampler)
            return {}
        raise EngineError(f"A sampler has no {op}. Use the same version of saccade on both sides.")

    def sample(self, given: Body, say: Callable[[dict[str, Any]], None]) -> list[str]:
        """Asks for samples, and gives the names of their sequences. What becomes of each is said as it is known, on the loop that asked."""
        entry = self.samplers.get(given["sampler"])
        if entry is None:
            raise EngineError(NO_SAMPLER)
        asked, sampler = given["asked"], entry.sampler
        loop = asyncio.get_running_loop()
        tell = lambda message: loop.call_soon_threadsafe(say, message)  # noqa: E731

        def request(of: int, one: Body, row: Tokens) -> Request:
            def done(result: Sample | BaseException) -> None:
                if isinstance(result, Sample):
                    counts = {"cached": result.cached, "prefilled": len(row.ids) - result.cached}
                    tell({"of": of, **wire.sample_body(result, sampler.version), **counts})
                else:
                    if not isinstance(result, SaccadeError):
                        traceback.print_exception(result)
                    tell({"of": of, **wire.error_body(result)})

            on_token = (lambda id, logprob: tell({"of": of, "id": id, "logprob": logprob})) if one["stream"] else None
            return Request(one["sequence"], row, SamplingParams.read(one["params"]), done, on_token)

        rows = wire.read_tokens([one["input"] for one in asked], self.frames)
        requests = [request(of, one, row) for of, (one, row) in enumerate(zip(asked, rows))]

        def submit() -> None:
            for one in requests:
                sampler.submit(one)

        self.sampling.do(submit)
        return [one.sequence for one in requests]

    def abort(self, id: int, sequences: Collection[str]) -> None:
        """Nobody waits for these any more."""
        entry = self.samplers.get(id)
        if entry is None:
            return

        def job() -> None:
            for request in entry.sampler.requests():
                if request.sequence in sequences:
                    entry.sampler.abort(request)
                    request.done(EngineError("This sample was broken off."))

        self.sampling.do(job)

    def stats(self) -> dict[str, Any]:
        sums: dict[str, int] = {"encoded": 0}
        for entry in self.samplers.values():
            sums["encoded"] += entry.sampler.seen.encoded
            for name, value in entry.sampler.counts.items():
                sums[name] = sums.get(name, 0) + value
        return sums


def _settle(future: asyncio.Future[Any], result: Any, problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(result)
    else:
        if not isinstance(problem, SaccadeError):
            traceback.print_exception(problem)
        future.set_exception(problem)
