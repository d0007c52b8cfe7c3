"""A model that learns: packed forward and backward passes, gradients that add up until `step` or `discard`, snapshots to sample from, checkpoints.
Called from one thread, one call after the other.
"""

from __future__ import annotations

import copy
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from . import files
from .adapters import ADAPTER_PREFIX, CONFIG, WEIGHTS, LoraSpec, add_adapter, config_json, linear_modules, read_adapter
from .attention import uses_varlen
from .errors import ConfigError, DataError, EngineError, no_memory, out_of_memory
from .features import FeatureCache
from .losses import LossInputs, LossTerms, policy_loss, value_loss
from .families import FamilyNetwork
from .kinds import FAMILIES
from .network import ARCHITECTURES, VALUE_HEAD, Freeze, Head, Network, Tokens, read_kind
from .optimizer import Optimizer, clip_scale
from .quantized import Base, quantize_layers
from .seeds import value_head
from .sharding import like, shard, whole, writes
from .whole import WholeNetwork

T = TypeVar("T")
ARRAYS = ("advantages", "oldLogprobs", "referenceLogprobs", "returns", "oldValues")


@dataclass(frozen=True)
class Datum:
    """One sequence; every array is as long as its ids, and position i predicts targets[i] (−1: nothing)."""

    input: Tokens
    targets: np.ndarray
    weights: np.ndarray
    temperature: float
    arrays: Mapping[str, np.ndarray]


NOTHING = Datum(Tokens(np.zeros(1, dtype=np.int32)), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.float32), 1.0, {
    name: np.zeros(1, dtype=np.float32) for name in ARRAYS
})  # fmt: skip
"""A sequence that weighs nothing: ranks without work take part in the others' collectives with it."""


@dataclass(frozen=True)
class Settings:
    """Of the device and the arithmetic. `pack_tokens`: tokens in one pass; the number to lower when memory runs out. `base`: how frozen layers of the language
    part are kept, of learners and samplers alike; none: as they are computed with. `small_moments`: 8 bits for each of the optimizer's."""

    device: torch.device
    compute: torch.dtype = torch.float32
    pack_tokens: int = 4096
    compile: bool = False
    checkpointing: bool = False
    offload: bool = False
    borrow: bool = False
    """Families that `network.py` computes run through transformers' modules, too: to compare them."""
    compile_borrowed: bool = False
    """Layers of transformers' modules are compiled, too: to measure it."""
    base: Base | None = None
    small_moments: bool = False

    @staticmethod
    def default() -> Settings:
        if torch.cuda.is_available():
            return Settings(torch.device("cuda"), torch.bfloat16, 16384, compile=True)
        return Settings(torch.device("cpu"))


@dataclass(frozen=True)
class LossReport:
    loss: float
    tokens: int
    metrics: dict[str, float]
    outputs: list[np.ndarray]

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss)


def open_network(folder: str, head: Head, settings: Settings, trained: bool, lora: LoraSpec | None = None, freeze: Freeze | None = None, seed: int = 0, place: torch.device | None = None) -> Network:
    """`trained` without LoRA: 32-bit masters, and what `freeze` holds back stays as it is."""
    if (Path(folder) / CONFIG).exists():
        raise ConfigError(f"{folder} is an adapter. Name its base model as the folder, and load the adapter into the learner.")
    if settings.base is not None:
        if trained and lora is None:
            raise ConfigError(f"A base of {settings.base} is frozen and can't learn: set lora, or leave the engine's base out.")
        if settings.offload:
            raise ConfigError("A quantised base stays on its device: leave the engine's offload or its base out.")
    kind = read_kind(folder)
    # Of what is quantised, a small device never holds the whole.
    start = torch.device("cpu") if settings.base is not None else place
    if kind in ARCHITECTURES and not settings.borrow:
        network = Network(folder, head, settings.compute, settings.device, trained and lora is None, start)
    elif place is not None:
        raise ConfigError(f"{folder}: {kind} runs in one process without offload. Set processes to 1 and offload to false.")
    else:
        # With the same face.
        borrow = FamilyNetwork if kind in FAMILIES else WholeNetwork
        network = borrow(folder, kind, head, settings.compute, settings.device, trained and lora is None, start)  # type: ignore[assignment]
    if settings.base is not None:
        hidden = {name: layer for name, layer in linear_modules(network).items() if not network.sees(name)}
        quantize_layers(network.model, hidden, settings.base, settings.device, settings.compile and uses_varlen(settings.device, settings.compute))
        network.to(place or settings.device)
    if network.score is not None:
        kept = files.read_value_head(Path(folder))
        first = torch.from_numpy(value_head(network.score.in_features, seed))[None] if kept is None else kept
        with torch.no_grad():
            network.score.weight.copy_(first)
    if lora is not None:
        add_adapter(network, lora, freeze, seed)
    else:
        for name, parameter in network.named().items():
            sees = network.sees(name)
            held = sees if freeze == "vision" else not sees and name != VALUE_HEAD if freeze == "language" else False
            parameter.requires_grad_(trained and not held)
            if trained and held:
                parameter.data = parameter.data.to(settings.compute)
    return network


def open_frozen(folder: str, settings: Settings, base: str | None = None) -> Network:
    """A model that only samples and scores; an adapter is loaded over its base, which is `base` or the one it names."""
    path = Path(folder)
    if not (path / CONFIG).exists():
        return open_network(folder, "lm", settings, trained=False)
    spec, named, tensors = read_adapter(path)
    network = open_network(files.base_of(path, base or named), "lm", settings, trained=False, lora=spec)
    load_adapter(network, tensors, folder)
    return network.requires_grad_(False)


def adapter_parameters(network: Network) -> dict[str, nn.Parameter]:
    return {ADAPTER_PREFIX + name: p for name, p in network.named().items() if ".lora_" in name or name == VALUE_HEAD}


def load_adapter(network: Network, tensors: Mapping[str, Tensor], where: str) -> None:
    mine = adapter_parameters(network)
    if set(mine) != set(tensors):
        raise DataError(f"The adapter in {where} has other matrices than this model: check rank, targets and base model.")
    _copy_in(mine, tensors, where)


class Learner:
    def __init__(self, folder: str, settings: Settings, head: Head = "lm", lora: LoraSpec | None = None, freeze: Freeze | None = None, seed: int = 0, ranks: int = 1) -> None:
        self.settings = settings
        self.head: Head = head
        self.lora = lora
        self.freeze: Freeze | None = freeze
        apart = ranks > 1 or settings.offload
        # The whole model must fit into host memory, but never onto one device.
        self.network = open_network(folder, head, settings, True, lora, freeze, seed, torch.device("cpu") if apart else None)
        self.network.checkpointing = settings.checkpointing
        if settings.compile and uses_varlen(settings.device, settings.compute):
            if self.network.own:
                compile_layers(self.network)
            elif settings.compile_borrowed and isinstance(self.network, FamilyNetwork):
                compile_borrowed(self.network)
        if apart:
            shard(self.network, ranks, settings.offload)
        trained = {name: p for name, p in self.network.named().items() if p.requires_grad}
        self.trained = {ADAPTER_PREFIX + name: p for name, p in trained.items()} if lora else trained
        self.optimizer = Optimizer(self.trained, settings.compute, settings.small_moments)
        self.tower_frozen = not any(p.requires_grad for name, p in self.network.named().items() if self.network.sees(name))
        self.seen = FeatureCache(self.network)
        self.version = 0
        self.moved = True
        """The weights changed since that version was published."""
        self.spoiled = False
        """A loss was not finite, or a pass broke off: these gradients must not be applied."""

    def forward(self, data: Sequence[Datum]) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """(log-probabilities, entropy) or (values, None) of each datum; 0 where there is no target."""
        self.check(data)
        members = plan(data, self.settings.pack_tokens)
        found = self.forward_packs([[data[i] for i in pack] for pack in members])
        return unplan(members, found, len(data))

    def forward_backward(self, data: Sequence[Datum], loss: Mapping[str, Any]) -> LossReport:
        self.check(data)
        self.check_loss(loss)
        members = plan(data, self.settings.pack_tokens)
        outputs, terms = self.learn_packs([[data[i] for i in pack] for pack in members], loss)
        return self.settle(sum_up(terms, unplan(members, outputs, len(data))))

    def forward_packs(self, packs: Sequence[Sequence[Datum]]) -> list[list[tuple[np.ndarray, np.ndarray | None]]]:
        """Of each datum of each pack."""
        try:
            with torch.no_grad():
                return [run_pack(self.network, pack, self.seen if self.tower_frozen else None) for pack in packs]
        except BaseException as problem:
            raise self._explained(problem) from problem.__cause__

    def learn_packs(self, packs: Sequence[Sequence[Datum]], loss: Mapping[str, Any]) -> tuple[list[list[np.ndarray]], list[Sums]]:
        """Adds to the gradients; what each datum of each pack gave, and the sums of each pack. An empty pack takes part without adding anything."""
        outputs = [[np.zeros(len(datum.targets), dtype=np.float32) for datum in pack] for pack in packs]
        done: list[tuple[Asked, Tensor, LossTerms, list[np.ndarray]]] = []
        try:
            for pack, spread in zip(packs, outputs):
                asked = Asked.of(pack or [NOTHING], self.network)
                if asked.count == 0 and not self.network.sharded:
                    continue
                found, entropy = asked.run(self.network, self.seen if self.tower_frozen else None)
                inputs = asked.loss_inputs(self.network)
                with torch.no_grad():
                    term = value_loss(loss, inputs, found) if entropy is None else policy_loss(loss, inputs, found, entropy)
                self._backward(found, entropy, term)
                if pack:
                    done.append((asked, found.detach(), term, spread))
            # Numbers are read when every pack is on its way: the device never waits for this process.
            sums = []
            for asked, found, term, spread in done:
                sums.append(Sums.of(term))
                asked.spread(found, spread)
            return outputs, sums
        except BaseException as problem:
            # Some packs may have added their part.
            self.spoiled = True
            raise self._explained(problem) from problem.__cause__

    def settle(self, report: LossReport) -> LossReport:
        if not report.finite:
            self.spoiled = True
        return report

    def step(self, options: Mapping[str, Any]) -> dict[str, Any]:
        grad_norm = self.optimizer.grad_norm()
        applied = math.isfinite(grad_norm) and not self.spoiled
        if applied:
            try:
                self.optimizer.apply(options, clip_scale(grad_norm, options.get("maxGradNorm")))
            except BaseException as problem:
                if not out_of_memory(problem):
                    raise
                raise no_memory("Memory ran out in the middle of an update: go on from the last checkpoint, with a lower packTokens, checkpointing or offload.", self.network.ranks) from None
            self.moved = True
            if not self.tower_frozen:
                self.seen.clear()
        self.discard()
        return {"gradNorm": grad_norm, "applied": applied, "step": self.optimizer.step}

    def discard(self) -> None:
        for parameter in self.trained.values():
            parameter.grad = None
        self.spoiled = False

    def spoil(self) -> None:
        """A loss that was computed elsewhere was not finite: the next step must change nothing."""
        self.spoiled = True

    def fresh_optimizer(self) -> None:
        self.optimizer.fresh()

    def publish(self, spare: Network | None = None, here: bool | None = None) -> tuple[Network | None, int]:
        """The current weights as a network of their own, and their version; `spare` is one that nothing uses any more. `here`: whether this rank keeps
        a copy; the first always does."""
        if self.head == "value":
            raise EngineError("A critic can't sample; publish the policy's learner.")
        if self.moved:
            self.version += 1
        self.moved = False
        if not self.network.sharded:
            return snapshot(self.network, spare), self.version
        here = here or writes()
        if here and spare is None:
            spare = open_network(self.network.folder, "lm", self.settings, trained=False, lora=self.lora, freeze=self.freeze).requires_grad_(False)
        into = {} if spare is None else spare.named()
        with torch.no_grad():
            for name, parameter in self.network.named().items():
                full = whole(parameter.detach())
                if name not in into:
                    continue
                if full.dtype in (torch.uint8, torch.int8):
                    # A quantised base lies whole on every rank and never changes: one is enough.
                    into[name].data = full
                else:
                    into[name].copy_(full)
        return spare, self.version

    def export(self, folder: str) -> None:
        tensors = self._tensors()
        if writes():
            files.write_whole(Path(folder), lambda to, _: self._write(to, tensors))

    def checkpoint(self, folder: str) -> None:
        tensors = self._tensors()
        state: dict[str, Tensor] = {}
        for moments in (self.optimizer.first, self.optimizer.second):
            for name in moments.names():
                state |= _gathered({f"{moments.kind}.{name}": moments[name]})
        counters = {"step": self.optimizer.step, "version": self.version, "moved": 1 if self.moved else 0}
        state |= {name: files.scalar(value) for name, value in counters.items()}

        def write(to: Path, beside: Any) -> None:
            self._write(to, tensors)
            if self.head == "value" and self.lora is None:
                files.write_tensors(beside(files.VALUE_FILE), {VALUE_HEAD: tensors[VALUE_HEAD]})
            files.write_tensors(beside(files.STATE_FILE), state)

        if writes():
            files.write_whole(Path(folder), write)

    def restore(self, folder: str) -> None:
        """Everything is read and checked before anything is overwritten."""
        path = Path(folder)
        if self.lora is not None:
            spec, _, tensors = read_adapter(path)
            if (spec.rank, spec.scaling) != (self.lora.rank, self.lora.alpha / self.lora.rank):
                raise DataError(f"The adapter in {folder} has rank {spec.rank}, alpha {spec.alpha}; this learner has {self.lora.rank} and {self.lora.alpha}.")
            into = adapter_parameters(self.network)
            if set(into) != set(tensors):
                raise DataError(f"The adapter in {folder} has other matrices than this model: check rank, targets and base model.")
        else:
            into = dict(self.network.named())
            tensors = self.network.read(folder)
            if self.head == "value":
                head = files.read_value_head(path)
                if head is None:
                    raise DataError(f"There is no value head beside {folder}: it is not a critic's checkpoint.")
                tensors = {**tensors, VALUE_HEAD: head}
        state_file = files.beside(path, files.STATE_FILE)
        state = load_file(str(state_file)) if state_file.exists() else {}
        moments = {}
        if state:
            for kept in (self.optimizer.first, self.optimizer.second):
                for name in kept.names():
                    found = state.get(f"{kept.kind}.{name}")
                    if found is None or found.shape != self.trained[name].shape:
                        raise DataError(f"{state_file} does not fit this learner: {kept.kind}.{name}. Start without it, or restore with the settings it was saved with.")
                    moments[kept.kind, name] = found
        _copy_in(into, tensors, folder)
        self.optimizer.fresh()
        for (kind, name), found in moments.items():
            getattr(self.optimizer, kind).put(name, like(found, self.trained[name].detach()), None)
        counter = lambda name, otherwise: float(state[name][0]) if name in state else otherwise  # noqa: E731
        self.optimizer.step = int(counter("step", 0))
        self.version = int(counter("version", 0))
        self.moved = counter("moved", 1) == 1
        self.seen.clear()
        self.discard()

    def _tensors(self) -> dict[str, Tensor]:
        """What is written: the adapter, or all weights, in 32 bits."""
        if self.lora is not None:
            return _gathered(adapter_parameters(self.network))
        return _gathered(self.network.named())

    def _write(self, to: Path, tensors: dict[str, Tensor]) -> None:
        source = Path(self.network.folder)
        if self.lora is not None:
            files.write_tensors(to / WEIGHTS, tensors)
            (to / CONFIG).write_text(json.dumps(config_json(self.lora, list(tensors), self.network.folder), indent=2) + "\n")
            return
        weights = {name: tensor for name, tensor in tensors.items() if name != VALUE_HEAD}
        if self.head == "value" and not self.network.config.tie_word_embeddings:
            kept = self.network.read(str(source)).get("lm_head.weight")
            if kept is not None:
                weights["lm_head.weight"] = kept.float()
        files.write_model(to, source, self.network.as_files(weights))

    def _backward(self, found: Tensor, entropy: Tensor | None, term: LossTerms) -> None:
        roots, slopes = [found], [term.slopes.to(found.dtype)]
        if entropy is not None and term.entropy_slopes is not None:
            roots.append(entropy)
            slopes.append(term.entropy_slopes.to(entropy.dtype))
        # Ranks' gradients are averaged where they are summed elsewhere.
        torch.autograd.backward(roots, [slope * self.network.ranks for slope in slopes] if self.network.sharded else slopes)

    def check(self, data: Sequence[Datum]) -> None:
        for datum in data:
            check_datum(datum, self.network)

    def check_loss(self, loss: Mapping[str, Any]) -> None:
        if (loss["name"] == "value") != (self.head == "value"):
            raise ConfigError("A critic learns with the loss value, and nothing else does.")

    def _explained(self, problem: BaseException) -> BaseException:
        """When memory ran out, what to change; gradients, which are of part of a batch, make room."""
        if not out_of_memory(problem):
            return problem
        self.discard()
        self.spoiled = True
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return no_memory(
            f"Memory ran out with packs of {self.settings.pack_tokens} tokens; the weights are as they were. "
            "Lower the engine's packTokens, or set checkpointing or offload.",
            self.network.ranks,
        )


def check_datum(datum: Datum, network: Network) -> None:
    network.check(datum.input)
    length = len(datum.input.ids)
    for name, array in (("targets", datum.targets), ("weights", datum.weights), *datum.arrays.items()):
        if len(array) != length:
            raise DataError(f"A datum of {length} ids has {len(array)} {name}; every array must be as long as the ids.")
    if network.head == "lm" and length and datum.targets.max() >= network.vocabulary:
        raise DataError(f"Target {datum.targets.max()} is outside the vocabulary of {network.vocabulary}.")


@dataclass(frozen=True)
class Asked:
    """The positions of a pack that have targets; nothing else is asked of the network."""

    data: Sequence[Datum]
    places: list[np.ndarray]
    pack: Any
    rows: Tensor
    targets: Tensor
    inverse: Tensor

    @property
    def count(self) -> int:
        return len(self.rows)

    @staticmethod
    def of(data: Sequence[Datum], network: Network) -> Asked:
        places = [np.nonzero(datum.targets >= 0)[0] for datum in data]
        starts = np.cumsum([0, *(len(datum.input.ids) for datum in data[:-1])])
        rows = np.concatenate([place + start for place, start in zip(places, starts)])
        targets = np.concatenate([datum.targets[place] for datum, place in zip(data, places)]).astype(np.int64)
        inverse = np.concatenate([np.full(len(place), 1 / datum.temperature, dtype=np.float32) for datum, place in zip(data, places)])
        send = network.to_device
        return Asked(data, places, network.pack([datum.input for datum in data]), send(rows), send(targets), send(inverse))

    def run(self, network: Network, seen: FeatureCache | None) -> tuple[Tensor, Tensor | None]:
        features = None if seen is None else seen.joined(self.pack.frames)
        return network(self.pack, self.rows, self.targets, self.inverse, features)

    def loss_inputs(self, network: Network) -> LossInputs:
        def gather(read: Any) -> Tensor | None:
            parts = [read(datum) for datum in self.data]
            if any(part is None for part in parts):
                return None
            return network.to_device(np.concatenate([part[place] for part, place in zip(parts, self.places)])).double()

        sequence = np.repeat(np.arange(len(self.data)), [len(place) for place in self.places])
        weights = gather(lambda datum: datum.weights)
        assert weights is not None
        found = [gather(lambda datum, name=name: datum.arrays.get(name)) for name in ARRAYS]
        return LossInputs(weights, network.to_device(sequence), len(self.data), *found)

    def spread(self, values: Tensor, into: Sequence[np.ndarray]) -> None:
        """Puts what was found where it was asked for."""
        host = values.detach().float().cpu().numpy()
        at = 0
        for place, whole in zip(self.places, into):
            whole[place] = host[at : at + len(place)]
            at += len(place)


def run_pack(network: Network, data: Sequence[Datum], seen: FeatureCache | None) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """(log-probabilities, entropy) or (values, None) of each datum of one pack."""
    asked = Asked.of(data or [NOTHING], network)
    outputs = [np.zeros(len(datum.targets), dtype=np.float32) for datum in data]
    entropies = [np.zeros_like(output) for output in outputs]
    if asked.count or network.sharded:
        found, entropy = asked.run(network, seen)
        if data:
            asked.spread(found, outputs)
            if entropy is not None:
                asked.spread(entropy, entropies)
    if network.head == "value":
        return [(output, None) for output in outputs]
    return list(zip(outputs, entropies))


def run_forward(network: Network, data: Sequence[Datum], settings: Settings, seen: FeatureCache | None) -> list[tuple[np.ndarray, np.ndarray | None]]:
    members = plan(data, settings.pack_tokens)
    return unplan(members, [run_pack(network, [data[i] for i in pack], seen) for pack in members], len(data))


def plan(data: Sequence[Datum], pack_tokens: int) -> list[list[int]]:
    """Packs of indexes, longest first into the first pack with room; a longer sequence is a pack of its own."""
    packs: list[list[int]] = []
    rooms: list[int] = []
    for index in sorted(range(len(data)), key=lambda i: (-len(data[i].input.ids), i)):
        length = len(data[index].input.ids)
        place = next((i for i, room in enumerate(rooms) if room >= length), None)
        if place is None:
            packs.append([])
            rooms.append(pack_tokens)
            place = len(packs) - 1
        packs[place].append(index)
        rooms[place] -= length
    return packs


def unplan(members: Sequence[Sequence[int]], found: Sequence[Sequence[T]], count: int) -> list[T]:
    """What was found pack by pack, in the order of the data."""
    places = {i: value for pack, values in zip(members, found) for i, value in zip(pack, values)}
    return [places[i] for i in range(count)]


@dataclass(frozen=True)
class Sums:
    """What a loss says of a pack, as plain numbers."""

    loss: float
    tokens: int
    metrics: dict[str, tuple[float, float]]

    @staticmethod
    def of(terms: LossTerms) -> Sums:
        names = list(terms.metrics)
        flat = [terms.loss, terms.tokens, *(number for name in names for number in terms.metrics[name])]
        # All of them in one copy.
        loss, tokens, *rest = torch.stack([number.double() for number in flat]).tolist()
        return Sums(loss, int(tokens), {name: (rest[2 * i], rest[2 * i + 1]) for i, name in enumerate(names)})


def sum_up(sums: Sequence[Sums], outputs: list[np.ndarray]) -> LossReport:
    totals: dict[str, tuple[float, float]] = {}
    for one in sums:
        for name, (value, count) in one.metrics.items():
            known = totals.get(name, (0.0, 0.0))
            totals[name] = (known[0] + value, known[1] + count)
    metrics = {name: value / count for name, (value, count) in totals.items() if count > 0}
    return LossReport(sum(one.loss for one in sums), sum(one.tokens for one in sums), metrics, outputs)


def snapshot(network: Network, spare: Network | None = None) -> Network:
    """The weights as they are computed with. Frozen ones are shared, the others copied, over those of `spare` if there is one."""
    if spare is not None:
        with torch.no_grad():
            for mine, theirs in zip(spare.parameters(), network.parameters()):
                if mine.data_ptr() != theirs.data_ptr():
                    mine.copy_(theirs)
        return spare
    compute = network.compute
    memo: dict[int, Any] = {}
    for parameter in network.parameters():
        values = parameter.detach() if not parameter.requires_grad else parameter.detach().to(compute, copy=True)
        memo[id(parameter)] = nn.Parameter(values, requires_grad=False)
    return copy.deepcopy(network, memo)


def compile_layers(network: Network) -> None:
    """One by one: they share what is compiled, but for the buckets that they meet."""
    torch._dynamo.config.recompile_limit = 64
    network.compiled = True
    for layer in (*network.language.layers, *network.visual.blocks):
        layer.compile(fullgraph=True)


def compile_borrowed(network: FamilyNetwork, **how: Any) -> None:
    torch._dynamo.config.recompile_limit = 64
    for layer in network.body.layers:
        layer.compile(**how)


def _copy_in(into: Mapping[str, nn.Parameter], tensors: Mapping[str, Tensor], where: str) -> None:
    for name, parameter in into.items():
        found = tensors.get(name)
        if found is None or found.shape != parameter.shape:
            what = "lacks" if found is None else "has another shape of"
            raise DataError(f"{where} {what} {name}. Check that it belongs to this model.")
    with torch.no_grad():
        for name, parameter in into.items():
            parameter.copy_(like(tensors[name], parameter))


def _gathered(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole and on the host, where this rank writes them."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        full = whole(tensor.detach())
        if writes():
            found[name] = full.float().cpu()
    return found
