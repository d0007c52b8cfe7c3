"""What the server does its work with: learners on one thread, in the order they were asked, samplers on another, ticking while anything is asked of
them. Each learner remembers its last answer, so that a call that was sent again after a lost connection is not done twice.
"""

from __future__ import annotations

import asyncio
import traceback
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
from .sampler_thread import SamplerThread
from .spread import Far, Spread
from .transfer import Offer
from .whole_sampler import sampler_of

Body = Mapping[str, Any]


NO_SAMPLER = "This sampler is not here: it was closed, or the worker was started anew. Publish or open another."


@dataclass
class LearnerEntry:
    learner: Learner | Leader
    spares: list[tuple[Sampler, Far]] = field(default_factory=list)
    """Samplers that nothing uses any more: the next version is written over their weights."""
    last_call: int = -1
    last_answer: dict[str, Any] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class SamplerEntry:
    sampler: Sampler
    far: Far
    """The same on other ranks."""
    owner: LearnerEntry | None = None


class Worker:
    def __init__(self, settings: Settings, cache_bytes: int | None = None, ranks: int = 1, frame_bytes: int | None = None, spread: Spread | None = None) -> None:
        """`spread`: other ranks, where they sample too."""
        self.settings = settings
        self.spread = spread
        self.ranks = ranks
        self.cache_bytes = cache_bytes
        self.frames = FrameStore(frame_bytes or FRAME_BYTES)
        self.learners: dict[int, LearnerEntry] = {}
        self.samplers: dict[int, SamplerEntry] = {}
        self.offers: dict[int, Offer] = {}
        self._next = 0
        self._learning = ThreadPoolExecutor(1, "learners")
        self.sampling = SamplerThread(settings.device)

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
        far = Far(self.number(), given["folder"], given.get("base"))
        return self._admit(sampler_of(network, self.settings, 0, self.cache_bytes), far, None)

    def _admit(self, sampler: Sampler, far: Far, owner: LearnerEntry | None) -> dict[str, Any]:
        id = self.number()
        self.samplers[id] = SamplerEntry(sampler, far, owner)
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
            # Of the images that stood behind the placeholders in this very pass.
            images = [[span.frame.key for span in datum.input.spans] for datum in data]
            outputs = [wire.raw(a) for a in report.outputs]
            return {"loss": report.loss, "finite": report.finite, "metrics": metrics, "outputs": outputs, "images": images}
        if op == "step":
            if given.get("spoiled"):
                await self.learn(learner.spoil)
            return dict(await self.learn(lambda: learner.step(given["optimizer"])))
        if op == "publish":
            spare, far = entry.spares.pop() if entry.spares else (None, Far(self.number()))
            into = spare and spare.network
            if isinstance(learner, Leader):
                network, version = await self.learn(lambda: learner.publish(into, far if self.spread else None))
            else:
                network, version = await self.learn(lambda: learner.publish(into))
            if spare is None:
                assert network is not None
                spare = sampler_of(network, self.settings, version, self.cache_bytes)
            else:
                spare.renew(version)
            return self._admit(spare, far, entry)
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
            while entry.spares:
                await self.elsewhere("forget", entry.spares.pop()[1])
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
            if self.spread is not None:
                self.spread.release(entry.far, given["sequence"])
            self.sampling.do(lambda: sampler.release(given["sequence"]))
            return {}
        if op == "close_sampler":
            del self.samplers[given["sampler"]]
            await self.on_sampler(sampler.close)
            self.sampling.forget(sampler)
            # Two are enough: one that samples and one to write the next version over.
            owner = next((one for one in self.learners.values() if one is entry.owner), None)
            spare = owner is not None and len(owner.spares) < 2
            # The next version must not be written over what is still sampled from elsewhere.
            await self.elsewhere("close" if spare else "forget", entry.far)
            if owner is not None and spare:
                owner.spares.append((sampler, entry.far))
            return {}
        raise EngineError(f"A sampler has no {op}. Use the same version of saccade on both sides.")

    async def elsewhere(self, op: str, far: Far | None = None) -> list[Any]:
        """What other ranks answer."""
        if self.spread is None:
            return []
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self.spread.ask(op, far, lambda found: loop.call_soon_threadsafe(_settle, future, found, None))
        return list(await future)

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
        mine = requests if self.spread is None else self.spread.deal(entry.far, requests)

        def submit() -> None:
            for one in mine:
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
        if self.spread is not None:
            self.spread.abort(entry.far, list(sequences))

    async def stats(self) -> dict[str, Any]:
        """Of all ranks; `decodedBy` says how much each of them decoded."""
        here = [(entry.sampler.seen.encoded, entry.sampler.counts) for entry in self.samplers.values()]
        sums: dict[str, Any] = {"encoded": 0, "decodedBy": []}
        for rank in [here, *await self.elsewhere("stats")]:
            for encoded, counts in rank:
                sums["encoded"] += encoded
                for name, value in counts.items():
                    sums[name] = sums.get(name, 0) + value
            sums["decodedBy"].append(sum(counts["decodedTokens"] for _, counts in rank))
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
