"""Other families: transformers' own modules, packed, equal transformers one sequence at a time; learning, adapters and files work as for ours. A family that
nobody described gives the same in padded batches."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_families import MAKERS, IMAGES, UNDESCRIBED, make_family
from transformers import AutoModelForImageTextToText

from saccade_torch import attention
from saccade_torch.adapters import LoraSpec
from saccade_torch.draw import SamplingParams
from saccade_torch.errors import ConfigError, DataError
from saccade_torch.families import FamilyNetwork
from saccade_torch.frames import Frame, PatchFormat
from saccade_torch.learner import Datum, Learner, Settings, compile_borrowed, open_frozen, open_network
from saccade_torch.network import Span, Tokens, read_kind
from saccade_torch.sampler import Request, Sample, Sampler
from saccade_torch.scores import capped
from saccade_torch.sight import sight_of
from saccade_torch.whole import WholeNetwork
from saccade_torch.whole_sampler import sampler_of

CPU = torch.device("cpu")
SETTINGS = Settings(CPU, borrow=True)
NEEDS = {"smolvlm": "num2words", "mistral3": "torchvision", "pixtral": "torchvision"}
"""What the processors of transformers ask for."""
KINDS = [
    pytest.param(kind, marks=pytest.mark.skipif(importlib.util.find_spec(NEEDS.get(kind, "torch")) is None, reason=f"needs {NEEDS.get(kind)}"))
    for kind in MAKERS
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("families")
    known: dict[str, str] = {}

    def of(kind: str) -> str:
        if kind not in known:
            known[kind] = make_family(root / kind, kind, seed=len(known))
        return known[kind]

    return of


def opened(folder: str, trained: bool = True) -> FamilyNetwork:
    return FamilyNetwork(folder, read_kind(folder), "lm", torch.float32, CPU, trained=trained)


def as_written(network: FamilyNetwork, frame: Frame) -> list[int]:
    if isinstance(network.format, PatchFormat):
        return [network.config.vision_start_token_id, *[network.image] * network.format.tokens(frame), network.config.vision_end_token_id]
    return network.format.tokenizer(network.format.of(frame).text, add_special_tokens=False)["input_ids"]


def tokens(network: FamilyNetwork, seed: int, images: int) -> Tokens:
    """Words, and images as the family's processor writes them."""
    random = np.random.default_rng(seed)
    ids = list(random.integers(0, 200, random.integers(2, 9)))
    spans = []
    for _ in range(images):
        frame = IMAGES[random.integers(0, len(IMAGES))]
        written = as_written(network, frame)
        places = [i for i, id in enumerate(written) if id == network.image]
        spans.append(Span(len(ids) + places[0], places[-1] - places[0] + 1, frame))
        ids += written + list(random.integers(0, 200, random.integers(1, 6)))
    return Tokens(np.array(ids, dtype=np.int32), tuple(spans))


PIXELS = ("pixel_values", "image_sizes", "pixel_attention_mask", "image_grid_thw", "image_position_ids")


def theirs(model, network: FamilyNetwork, row: Tokens) -> torch.Tensor:
    """Plain transformers: its own masks, positions and placing of images."""
    ids = torch.from_numpy(row.ids.astype(np.int64))[None]
    inputs = {}
    if row.spans:
        processor = sight_of(network.folder, network.image).processor
        images = [span.frame.pixels.numpy() for span in row.spans]
        nested = [images] if network.config.model_type in ("smolvlm", "idefics3") else images
        inputs = dict(processor.image_processor(nested, return_tensors="pt"))
        inputs = {name: value for name, value in inputs.items() if name in PIXELS}
    takes = inspect.signature(model.forward).parameters
    inputs |= {name: (ids == network.image).int() for name in ("token_type_ids", "mm_token_type_ids") if name in takes}
    inputs = {name: value for name, value in inputs.items() if name in takes or name in PIXELS}
    return model(input_ids=ids, attention_mask=torch.ones_like(ids), **inputs).logits[0]


def ours(network: FamilyNetwork, rows: list[Tokens]) -> torch.Tensor:
    for row in rows:
        network.check(row)
    pack = network.pack(rows)
    features = network.encode(pack.frames) if pack.frames else None
    return capped(network.hidden(pack, features) @ network.output_weight().T, network.cap)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_equal_transformers_with_zero_to_four_images_in_one_pack(made, kind):
    model = AutoModelForImageTextToText.from_pretrained(made(kind), dtype=torch.float32).eval()
    network = opened(made(kind))
    rows = [tokens(network, seed, images) for seed, images in enumerate((0, 1, 2, 4, 0, 3))]
    want = torch.cat([theirs(model, network, row) for row in rows])
    got = ours(network, rows)
    assert (want - got).abs().max() < 1e-4

    direction = torch.randn(want.shape, generator=torch.Generator().manual_seed(1))
    (want * direction).sum().backward()
    (got * direction).sum().backward()
    expected = dict(model.named_parameters())
    assert set(network.named()) == set(expected)
    for name, parameter in network.named().items():
        wanted = expected[name].grad
        if wanted is None:
            # Layers of a tower that nothing reads.
            assert parameter.grad is None, name
            continue
        if network.sees(name) and name.endswith("k_proj.bias"):
            # Without rotary positions it moves all scores of a query alike: its gradient is 0 but for rounding.
            assert max(parameter.grad.norm(), wanted.norm()) < 1e-3, name
            continue
        assert (parameter.grad - wanted).norm() <= 1e-3 * wanted.norm(), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_never_sees_its_neighbour_and_sees_its_images(made, kind):
    network = opened(made(kind), trained=False)
    mine = tokens(network, 1, 2)
    with torch.no_grad():
        alone = ours(network, [mine])
        before, after = tokens(network, 11, 1), tokens(network, 21, 0)
        packed = ours(network, [before, mine, after])
        at = len(before.ids)
        assert (packed[at : at + len(mine.ids)] - alone).abs().max() < 2e-5
        first = mine.spans[0]
        other = Span(first.start, first.length, Frame("other", 255 - first.frame.pixels))
        assert (ours(network, [Tokens(mine.ids, (other, *mine.spans[1:]))]) - alone).abs().max() > 1e-3
        with pytest.raises(DataError):
            network.check(Tokens(mine.ids, mine.spans[1:]))
        with pytest.raises(DataError):
            network.check(Tokens(np.delete(mine.ids, first.start), mine.spans))


def datum(network: FamilyNetwork, seed: int, images: int) -> Datum:
    row = tokens(network, seed, images)
    random = np.random.default_rng(seed)
    targets = np.full(len(row.ids), -1, dtype=np.int32)
    targets[:-1] = np.where((row.ids[1:] < 200) & (random.random(len(row.ids) - 1) < 0.7), row.ids[1:], -1)
    weights = np.where(targets >= 0, random.normal(size=len(targets)) / 4, 0).astype(np.float32)
    near = lambda centre: (centre + 0.3 * random.normal(size=len(targets))).astype(np.float32)  # noqa: E731
    return Datum(row, targets, weights, 0.7, dict(advantages=near(0), oldLogprobs=near(-6), referenceLogprobs=near(-6), returns=near(0), oldValues=near(0)))


ADAM = dict(name="adamw", learningRate=1e-2, beta1=0.9, beta2=0.99, epsilon=1e-8, weightDecay=0.0)


@pytest.mark.parametrize("lora", [None, LoraSpec(2, 4)], ids=["whole", "lora"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_and_what_is_saved_goes_on_and_opens_in_transformers(made, kind, lora, tmp_path: Path):
    learner = Learner(made(kind), SETTINGS, lora=lora, freeze="vision" if lora else None)
    data = [datum(learner.network, seed, images) for seed, images in enumerate((1, 0, 2))]
    before = learner.forward(data)
    # One pack or several: the same.
    apart = Learner(made(kind), replace(SETTINGS, pack_tokens=1), lora=lora, freeze="vision" if lora else None).forward(data)
    for (a, _), (b, _) in zip(before, apart):
        assert np.abs(a - b).max() < 1e-4
    report = learner.forward_backward(data, dict(name="cross-entropy"))
    assert report.finite and learner.step(ADAM)["applied"]
    after = learner.forward(data)
    assert max(np.abs(a - b).max() for (a, _), (b, _) in zip(before, after)) > 1e-4
    learner.checkpoint(str(tmp_path / "policy"))
    fresh = Learner(made(kind), SETTINGS, lora=lora, freeze="vision" if lora else None)
    fresh.restore(str(tmp_path / "policy"))
    for learned in (learner, fresh):
        learned.forward_backward(data, dict(name="cross-entropy"))
        learned.step(ADAM)
    for (a, _), (b, _) in zip(learner.forward(data), fresh.forward(data)):
        assert np.array_equal(a, b)
    learner.export(str(tmp_path / "out"))
    opened = open_frozen(str(tmp_path / "out"), SETTINGS)
    with torch.no_grad():
        want = ours(learner.network, [data[0].input])
        assert (ours(opened, [data[0].input]) - want).abs().max() < 1e-5
        if lora is None:
            from safetensors import safe_open

            names = [set(safe_open(f"{folder}/model.safetensors", "pt").keys()) for folder in (made(kind), tmp_path / "out")]
            assert names[0] == names[1]
            model = AutoModelForImageTextToText.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
            assert (theirs(model, learner.network, data[0].input) - want).abs().max() < 1e-4


def ask(sampler: Sampler, sequence: str, row: Tokens, **params) -> list:
    box: list = []
    sampler.submit(Request(sequence, row, SamplingParams(**(dict(max_tokens=5, temperature=0.9, seed=3) | params)), box.append))
    return box


def run(sampler: Sampler) -> None:
    while sampler.busy:
        sampler.tick()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sampled_is_what_the_learner_scores_over_turns_and_beside_others(made, kind):
    learner = Learner(made(kind), SETTINGS)
    network, version = learner.publish()
    sampler = Sampler(network, SETTINGS, version)
    first = tokens(learner.network, 5, 2)
    alone = ask(sampler, "alone", first)
    run(sampler)
    sampler.release("alone")
    boxes = [ask(sampler, f"beside {seed}", tokens(learner.network, seed, seed), seed=seed) for seed in range(3)]
    again = ask(sampler, "a", first)
    run(sampler)
    (sample,) = again
    assert sample.ids == alone[0].ids and all(isinstance(box[0], Sample) for box in boxes)
    assert not set(sample.ids) & network.banned
    # An observation with an image is appended to what was said; only that is computed.
    more = tokens(learner.network, 9, 1)
    start = len(first.ids) + len(sample.ids)
    ids = np.concatenate([first.ids, np.array(sample.ids, dtype=np.int32), more.ids])
    second = Tokens(ids, (*first.spans, *(Span(span.start + start, span.length, span.frame) for span in more.spans)))
    box = ask(sampler, "a", second, max_tokens=4)
    run(sampler)
    turn = box[0]
    assert turn.cached >= start - 1
    for row, drawn in ((first, sample), (second, turn)):
        whole = np.concatenate([row.ids, np.array(drawn.ids, dtype=np.int32)])
        targets = np.full(len(whole), -1, dtype=np.int32)
        targets[len(row.ids) - 1 : -1] = drawn.ids
        ((scored, _),) = learner.forward([Datum(Tokens(whole, row.spans), targets, np.zeros(len(whole), dtype=np.float32), 0.9, {})])
        assert np.abs(scored[targets >= 0] - np.array(drawn.logprobs)).max() < 1e-4


def each_alone(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bounds: torch.Tensor, scale: float | None) -> torch.Tensor:
    parts = zip(*(x.split(bounds.diff().tolist()) for x in (q, k, v)))
    return torch.cat([attention.dense(*(x.transpose(0, 1)[None] for x in part), causal=True, scale=scale)[0].transpose(0, 1) for part in parts])


@torch.library.custom_op("saccade_tests::each_alone", mutates_args=())
def each_alone_unseen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bounds: torch.Tensor, scale: float | None) -> torch.Tensor:
    return each_alone(q, k, v, bounds, scale)


each_alone_unseen.register_fake(lambda q, k, v, bounds, scale: torch.empty_like(q))


def pack_as_on_cuda(monkeypatch, kernel) -> None:
    """One kernel for all sequences of a pack, in half precision only."""
    monkeypatch.setattr(attention, "uses_varlen", lambda device, dtype: dtype == torch.bfloat16)
    monkeypatch.setattr(attention, "varlen_attn", kernel)
    monkeypatch.setattr(attention, "VARLEN_ARGUMENTS", frozenset(("is_causal",)))


@pytest.mark.parametrize("kind", ["qwen3_vl_moe", "gemma3", "internvl"])
def test_in_half_precision_attention_and_experts_compute_in_it_as_the_kernels_of_cuda_need(made, kind, monkeypatch):
    """Norms with 32-bit weights leave 32 bits, and autocast does not know products of groups. The kernel is stood in for by what it computes."""
    half = torch.bfloat16
    seen: list[tuple[torch.dtype, ...]] = []

    def kernel(q, k, v, bounds, _, longest, __, scale=None, is_causal=False):
        seen.append((q.dtype, k.dtype, v.dtype))
        assert bounds.diff().max() <= longest and is_causal
        return each_alone(q, k, v, bounds, scale)

    def learned(settings: Settings) -> tuple[list, dict[str, torch.Tensor], FamilyNetwork]:
        learner = Learner(made(kind), settings)
        # Of a two-way family those without images go to the kernel.
        data = [datum(learner.network, seed, 0 if kind == "gemma3" else seed % 3) for seed in range(4)]
        found = learner.forward(data)
        learner.forward_backward(data, dict(name="cross-entropy"))
        return found, {name: p.grad for name, p in learner.trained.items() if p.grad is not None}, learner.network

    wanted, slopes, _ = learned(SETTINGS)
    pack_as_on_cuda(monkeypatch, kernel)
    found, halves, network = learned(replace(SETTINGS, compute=half))
    assert seen and set(seen) == {(half, half, half)}
    for (a, _), (b, _) in zip(wanted, found):
        assert np.abs(a - b).mean() < 0.03
    for name, slope in slopes.items():
        if "language_model" in name and slope.dim() > 1:
            assert halves[name].dtype == torch.float32
            assert torch.cosine_similarity(slope.flatten(), halves[name].flatten(), 0) > 0.9, name
    if kind == "qwen3_vl_moe":
        experts = network.body.layers[0].mlp.experts
        assert experts.gate_up_proj.dtype == torch.float32
        with network.narrow():
            assert experts.gate_up_proj.dtype == experts.down_proj.dtype == half


def test_compiled_layers_are_compiled_once_for_all_layers_and_packs_and_give_the_same(made, monkeypatch):
    pack_as_on_cuda(monkeypatch, lambda q, k, v, bounds, _, __, ___, scale=None, is_causal=False: each_alone_unseen(q, k, v, bounds, scale))
    learner = Learner(made("qwen3_vl_moe"), replace(SETTINGS, compute=torch.bfloat16))
    packs = [[datum(learner.network, 10 * pack + seed, seed % 3) for seed in range(2 + pack)] for pack in range(5)]
    wanted = [learner.forward(pack) for pack in packs]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    # What is captured is looked at here; how fast it is, on a GPU.
    compile_borrowed(learner.network, backend="eager")
    graphs = []
    for pack, plain in zip(packs, wanted):
        for (a, _), (b, _) in zip(learner.forward(pack), plain):
            assert np.array_equal(a, b)
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert 0 < graphs[2] == graphs[-1] <= 3, graphs
    torch._dynamo.reset()


def test_only_sight_is_frozen_and_layers_computed_again_give_the_same_gradients(made):
    grads = []
    for checkpointing in (False, True):
        learner = Learner(made("internvl"), replace(SETTINGS, checkpointing=checkpointing), freeze="vision")
        learner.forward_backward([datum(learner.network, 1, 2)], dict(name="cross-entropy"))
        assert not any(name.startswith(("model.vision_tower", "model.multi_modal_projector")) for name in learner.trained)
        assert len(learner.trained) == len([name for name in learner.network.named() if "language_model" in name or name == "lm_head.weight"])
        grads.append({name: p.grad for name, p in learner.trained.items()})
    for name, wanted in grads[0].items():
        assert torch.allclose(grads[1][name], wanted, atol=1e-6), name


def test_a_critic_values_each_position(made):
    learner = Learner(made("llava_onevision"), SETTINGS, head="value")
    item = datum(learner.network, 3, 1)
    (values, none), *_ = learner.forward([item])
    assert none is None and np.all(values[item.targets >= 0] != 0)
    assert learner.forward_backward([item], dict(name="value")).finite


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen3_vl"])
def test_families_that_network_py_computes_give_the_same_through_the_modules_of_transformers(made, kind):
    ours, borrowed = Learner(made(kind), Settings(CPU)), Learner(made(kind), SETTINGS)
    assert ours.network.own and not borrowed.network.own
    data = [datum(borrowed.network, seed, images) for seed, images in enumerate((0, 2, 4))]
    for (a, b), (c, d) in zip(ours.forward(data), borrowed.forward(data)):
        assert np.abs(a - c).max() < 1e-4 and np.abs(b - d).max() < 1e-4
    for learner in (ours, borrowed):
        learner.forward_backward(data, dict(name="cross-entropy"))
    for name, wanted in ours.trained.items():
        if wanted.grad is not None and wanted.grad.norm() > 1e-6:
            assert (borrowed.trained[name].grad - wanted.grad).norm() <= 1e-3 * wanted.grad.norm(), name


@pytest.mark.parametrize("kind", ["internvl", *UNDESCRIBED])
def test_a_family_that_nobody_described_runs_whole_and_says_so(made, kind, monkeypatch, capfd, tmp_path: Path):
    from saccade_torch import kinds, whole

    monkeypatch.delitem(kinds.FAMILIES, kind, raising=False)
    monkeypatch.setattr(whole, "_told", set())
    learner = Learner(made(kind), SETTINGS)
    network = learner.network
    assert f"nobody has described {kind} yet" in capfd.readouterr().err
    data = [datum(network, seed, images) for seed, images in enumerate((1, 0, 0, 3, 0))]
    found = learner.forward(data)
    assert network.fits == {(False, True): True, (False, False): True}, "batches are made, and give what sequences give alone"
    model = AutoModelForImageTextToText.from_pretrained(made(kind), dtype=torch.float32).eval()
    for item, (logprobs, _) in zip(data, found):
        assert item.targets.max() >= 0
        with torch.no_grad():
            logits = theirs(model, network, item.input) / 0.7 + network.bias.clamp(min=-1e30)
        want = torch.log_softmax(logits, -1).gather(1, torch.from_numpy(item.targets).long().clamp(min=0)[:, None])[:, 0]
        assert np.abs(np.where(item.targets >= 0, want.numpy() - logprobs, 0)).max() < 1e-4
    apart = Learner(made(kind), replace(SETTINGS, pack_tokens=1))
    for one in (learner, apart):
        one.forward_backward(data, dict(name="cross-entropy"))
    for name, wanted in apart.trained.items():
        if wanted.grad is not None and wanted.grad.norm() > 1e-4:
            assert (learner.trained[name].grad - wanted.grad).norm() <= 1e-3 * wanted.grad.norm(), name
    assert learner.step(ADAM)["applied"]
    sampler = sampler_of(*learner.publish()[:1], SETTINGS)
    assert isinstance(sampler.network, WholeNetwork)
    rows = [tokens(network, seed, images) for seed, images in ((5, 2), (6, 0), (7, 1), (8, 0))]
    alone = ask(sampler, "alone", rows[1], seed=1)
    run(sampler)
    boxes = [ask(sampler, str(i), row, seed=i, max_tokens=3 + i) for i, row in enumerate(rows)]
    senseless = ask(sampler, "senseless", rows[1], seed=-1)
    run(sampler)
    assert isinstance(senseless[0], ValueError)
    assert boxes[1][0].ids[:4] == alone[0].ids[:4]
    assert sampler.network.fits[True, False], "padded before, too"
    for i, (row, (sample,)) in enumerate(zip(rows, boxes)):
        assert len(sample.ids) == 3 + i and not set(sample.ids) & network.banned
        ids = np.concatenate([row.ids, np.array(sample.ids, dtype=np.int32)])
        targets = np.full(len(ids), -1, dtype=np.int32)
        targets[len(row.ids) - 1 : -1] = sample.ids
        ((scored, _),) = learner.forward([Datum(Tokens(ids, row.spans), targets, np.zeros(len(ids), dtype=np.float32), 0.9, {})])
        assert np.abs(scored[targets >= 0] - np.array(sample.logprobs)).max() < 1e-4
    learner.export(str(tmp_path / "out"))
    assert open_frozen(str(tmp_path / "out"), SETTINGS).config.model_type == kind
    with pytest.raises(ConfigError, match="critic"):
        open_network(made(kind), "value", SETTINGS, trained=True)


def test_where_neighbours_of_a_batch_disturb_each_other_sequences_go_alone_in_learning_and_in_sampling(made, monkeypatch, capfd):
    from saccade_torch import kinds

    monkeypatch.delitem(kinds.FAMILIES, "internvl")
    learner = Learner(made("internvl"), SETTINGS)
    kind = type(learner.network.model)
    forward = kind.forward

    @functools.wraps(forward)
    def disturbed(self, *given, **named):
        out = forward(self, *given, **named)
        # Only where something is padded or beside: alone it is as it was.
        out.logits = out.logits + out.logits.flip(0).roll(1, -1) if len(out.logits) > 1 else out.logits
        return out

    monkeypatch.setattr(kind, "forward", disturbed)
    sampler = sampler_of(*learner.publish()[:1], SETTINGS)
    for images in (0, 1):
        rows = [tokens(learner.network, seed, images) for seed in (5, 6, 7)]
        boxes = [ask(sampler, f"{images} {i}", row, seed=i) for i, row in enumerate(rows)]
        run(sampler)
        for row, (sample,) in zip(rows, boxes):
            ids = np.concatenate([row.ids, np.array(sample.ids, dtype=np.int32)])
            targets = np.full(len(ids), -1, dtype=np.int32)
            targets[len(row.ids) - 1 : -1] = sample.ids
            item = Datum(Tokens(ids, row.spans), targets, np.zeros(len(ids), dtype=np.float32), 0.9, {})
            ((scored, _),) = learner.forward([item])
            assert np.abs(scored[targets >= 0] - np.array(sample.logprobs)).max() < 1e-4
    # What texts give says nothing about images.
    data = [[datum(learner.network, seed, images) for seed in (1, 2)] for images in (0, 1)]
    for two in data:
        found = [one for one, _ in learner.forward(two)]
        for item, together in zip(two, found):
            ((apart, _),) = learner.forward([item])
            assert np.abs(apart - together).max() < 1e-5
    assert "go one by one" in capfd.readouterr().err


@pytest.mark.parametrize("borrow", [True, False])
@pytest.mark.parametrize("kind", ["internvl", "qwen3_vl"])
def test_a_folder_that_lacks_weights_is_refused(made, kind, borrow, tmp_path: Path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(made(kind), tmp_path / "less")
    file = tmp_path / "less" / "model.safetensors"
    tensors = load_file(file)
    gone = next(name for name in tensors if name.endswith("q_proj.weight"))
    del tensors[gone]
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(ConfigError, match="weights lack .*q_proj.weight"):
        open_frozen(str(tmp_path / "less"), replace(SETTINGS, borrow=borrow))
    tensors[gone] = torch.zeros(3, 32)
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(ConfigError, match=r"q_proj.weight has 3×32 numbers, and config.json asks for 32×32"):
        open_frozen(str(tmp_path / "less"), replace(SETTINGS, borrow=borrow))
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ConfigError, match="can't open it"):
        open_frozen(str(tmp_path / "less"), replace(SETTINGS, borrow=borrow))
