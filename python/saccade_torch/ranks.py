"""Several processes as one learner: rank 0 speaks to the outside, the others follow. Every call of a learner is told to all ranks and done by all; the packs
of a batch are dealt out, and a rank that runs out of packs takes part with one that weighs nothing. Started by torchrun.
"""

from __future__ import annotations

import os
import traceback
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.distributed as dist

from .errors import SaccadeError
from .learner import Datum, Learner, LossReport, Sums, plan, sum_up, unplan
from .network import Network
from .spread import Far, Post


PATIENCE = timedelta(days=30)
"""Ranks wait for each other while the first one samples, evaluates or is asked nothing. One that ends is noticed at once all the same."""


def join() -> int:
    """How many ranks there are; more than one where torchrun started us."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count > 1:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return count


def tell(message: Any) -> None:
    dist.broadcast_object_list([message], src=0)


def follow(device: torch.device, post: Post | None = None) -> None:
    """What ranks other than the first do, until they are told to stop. `post`: where they sample, too."""
    learners: dict[int, Learner] = {}
    while True:
        box: list[Any] = [None]
        dist.broadcast_object_list(box, src=0)
        op, id, given = box[0]
        if op == "stop":
            return
        try:
            if op == "open":
                folder, settings, *rest = given
                # Each rank has a device of its own.
                learners[id] = Learner(folder, replace(settings, device=device), *rest, ranks=dist.get_world_size())
            elif op == "close":
                learners.pop(id, None)
            elif op == "forward":
                collect(learners[id].forward_packs(dealt(None)))
            elif op == "learn":
                outputs, sums = learners[id].learn_packs(dealt(None), given)
                _settle_all(learners[id], collect((outputs, sums)))
            elif op == "publish":
                far = given if post is not None else None
                known = None if far is None or post is None else post.samplers.get(far.number)
                try:
                    network, version = learners[id].publish(known and known.network, far is not None)
                    if post is not None and far is not None and network is not None:
                        post.publish(far, network, version)
                finally:
                    collect(None)
            else:
                getattr(learners[id], op)(*given)
        except (SaccadeError, OSError):
            # The first rank finds the same and answers.
            continue


@contextmanager
def together() -> Iterator[None]:
    """What all ranks do at once. A bad setting or file is found by all of them; after anything else, such as the end of another rank, they are out of step for
    good, and all must end."""
    try:
        yield
    except (SaccadeError, OSError):
        raise
    except BaseException:
        traceback.print_exc()
        os._exit(1)


class Leader:
    """A learner over all ranks, with the face of `Learner`."""

    _next = 0

    def __init__(self, *given: Any) -> None:
        Leader._next += 1
        self.id = Leader._next
        self.ranks = dist.get_world_size()
        with together():
            tell(("open", self.id, given))
            self.own = Learner(*given, ranks=self.ranks)
        self.head = self.own.head

    def forward(self, data: Sequence[Datum]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        self.own.check(data)
        members, shares = self._deal(data)
        with together():
            tell(("forward", self.id, None))
            found = collect(self.own.forward_packs(dealt(shares)))
        return unplan(members, _undeal(found, len(members)), len(data))

    def forward_backward(self, data: Sequence[Datum], loss: Mapping[str, Any]) -> LossReport:
        self.own.check(data)
        self.own.check_loss(loss)
        members, shares = self._deal(data)
        with together():
            tell(("learn", self.id, dict(loss)))
            found = collect(self.own.learn_packs(dealt(shares), loss))
        outputs = _undeal([outputs for outputs, _ in found], len(members))
        report = sum_up(_sums(found), unplan(members, outputs, len(data)))
        return _settle_all(self.own, found, report)

    def step(self, options: Mapping[str, Any]) -> dict[str, Any]:
        with together():
            tell(("step", self.id, (dict(options),)))
            return self.own.step(options)

    def publish(self, spare: Network | None = None, far: Far | None = None) -> tuple[Network | None, int]:
        """`far`: the sampler that other ranks keep these weights for; none: they keep no copy."""
        with together():
            tell(("publish", self.id, far))
            try:
                return self.own.publish(spare)
            finally:
                # Nobody samples before all have the weights.
                collect(None)

    def discard(self) -> None:
        self._all("discard")

    def fresh_optimizer(self) -> None:
        self._all("fresh_optimizer")

    def export(self, folder: str) -> None:
        self._all("export", folder)

    def checkpoint(self, folder: str) -> None:
        self._all("checkpoint", folder)

    def restore(self, folder: str) -> None:
        self._all("restore", folder)

    def spoil(self) -> None:
        self._all("spoil")

    def _all(self, op: str, *given: Any) -> None:
        with together():
            tell((op, self.id, given))
            getattr(self.own, op)(*given)

    def _deal(self, data: Sequence[Datum]) -> tuple[list[list[int]], list[list[list[Datum]]]]:
        """Packs in turn to the ranks, as many to each; who has none left gets an empty one."""
        members = plan(data, self.own.settings.pack_tokens)
        packs = [[data[i] for i in pack] for pack in members]
        packs += [[] for _ in range(-len(packs) % self.ranks)]
        return members, [packs[rank :: self.ranks] for rank in range(self.ranks)]


def dealt(shares: list[list[list[Datum]]] | None) -> list[list[Datum]]:
    """This rank's packs; the first rank has everybody's."""
    box: list[Any] = [None]
    dist.scatter_object_list(box, shares, src=0)
    return box[0]  # type: ignore[no-any-return]


def collect(mine: Any) -> list[Any]:
    """Everybody's, on every rank."""
    box: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(box, mine)
    return box


def _undeal(found: Sequence[Sequence[Any]], count: int) -> list[Any]:
    ranks = len(found)
    return [found[i % ranks][i // ranks] for i in range(count)]


def _sums(found: Sequence[tuple[Any, Sequence[Sums]]]) -> list[Sums]:
    return [one for _, sums in found for one in sums]


def _settle_all(learner: Learner, found: list[Any], report: LossReport | None = None) -> LossReport:
    """All ranks come to the same verdict on a loss."""
    return learner.settle(report or sum_up(_sums(found), []))
