"""Other families: transformers' own modules, packed, equal transformers one sequence at a time; learning, adapters and files work as for ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_families import MAKERS, PICTURES, make_family
from transformers import AutoModelForImageTextToText

from saccade_torch.adapters import LoraSpec
from saccade_torch.draw import SamplingParams
from saccade_torch.errors import ConfigError, DataError
from saccade_torch.families import FamilyNetwork
from saccade_torch.frames import Frame
from saccade_torch.learner import Datum, Learner, Settings, open_frozen, open_network
from saccade_torch.network import Span, Tokens
from saccade_torch.sampler import Request, Sample, Sampler

CPU = torch.device("cpu")
SETTINGS = Settings(CPU)
NEEDS = {"smolvlm": "num2words", "mistral3": "torchvision"}
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


def tokens(network: FamilyNetwork, seed: int, pictures: int) -> Tokens:
    """Words, and pictures as the family's processor writes them."""
    random = np.random.default_rng(seed)
    ids = list(random.integers(0, 200, random.integers(2, 9)))
    spans = []
    for _ in range(pictures):
        frame = PICTURES[random.integers(0, len(PICTURES))]
        written = network.format.tokenizer(network.format.of(frame).text, add_special_tokens=False)["input_ids"]
        places = [i for i, id in enumerate(written) if id == network.image]
        spans.append(Span(len(ids) + places[0], places[-1] - places[0] + 1, frame))
        ids += written + list(random.integers(0, 200, random.integers(1, 6)))
    return Tokens(np.array(ids, dtype=np.int32), tuple(spans))


def theirs(model, network: FamilyNetwork, row: Tokens) -> torch.Tensor:
    """Plain transformers: its own masks, positions and placing of pictures."""
    ids = torch.from_numpy(row.ids.astype(np.int64))[None]
    inputs = {}
    if row.spans:
        processor = network.format.processor
        images = [span.frame.pixels.numpy() for span in row.spans]
        nested = [images] if network.config.model_type in ("smolvlm", "idefics3") else images
        inputs = dict(processor.image_processor(nested, return_tensors="pt"))
        inputs = {name: value for name, value in inputs.items() if name in ("pixel_values", "image_sizes", "pixel_attention_mask")}
    if network.config.model_type == "gemma3":
        inputs["token_type_ids"] = (ids == network.image).int()
    return model(input_ids=ids, attention_mask=torch.ones_like(ids), **inputs).logits[0]


def ours(network: FamilyNetwork, rows: list[Tokens]) -> torch.Tensor:
    for row in rows:
        network.check(row)
    pack = network.pack(rows)
    features = network.encode(pack.frames) if pack.frames else None
    return network.hidden(pack, features) @ network.output_weight().T


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_equal_transformers_with_zero_to_four_pictures_in_one_pack(made, kind):
    model = AutoModelForImageTextToText.from_pretrained(made(kind), dtype=torch.float32).eval()
    network = FamilyNetwork(made(kind), kind, "lm", torch.float32, CPU, trained=True)
    rows = [tokens(network, seed, pictures) for seed, pictures in enumerate((0, 1, 2, 4, 0, 3))]
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
def test_a_document_never_sees_its_neighbour_and_sees_its_pictures(made, kind):
    network = FamilyNetwork(made(kind), kind, "lm", torch.float32, CPU, trained=False)
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


def datum(network: FamilyNetwork, seed: int, pictures: int) -> Datum:
    row = tokens(network, seed, pictures)
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
    data = [datum(learner.network, seed, pictures) for seed, pictures in enumerate((1, 0, 2))]
    before = learner.forward(data)
    # One pack or several: the same.
    apart = Learner(made(kind), Settings(CPU, pack_tokens=1), lora=lora, freeze="vision" if lora else None).forward(data)
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
    # An observation with a picture is appended to what was said; only that is computed.
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


def test_only_sight_is_frozen_and_layers_computed_again_give_the_same_gradients(made):
    grads = []
    for checkpointing in (False, True):
        learner = Learner(made("internvl"), Settings(CPU, checkpointing=checkpointing), freeze="vision")
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


def test_a_family_that_nobody_described_runs_whole_and_says_so(made, monkeypatch, capfd):
    from saccade_torch import families

    described = Learner(made("internvl"), SETTINGS)
    data = [datum(described.network, 1, 1), datum(described.network, 2, 0)]
    monkeypatch.delitem(families.FAMILIES, "internvl")
    plain = Learner(made("internvl"), SETTINGS)
    assert "internvl runs one sequence at a time" in capfd.readouterr().err
    for (a, b), (c, d) in zip(described.forward(data), plain.forward(data)):
        assert np.abs(a - c).max() < 1e-4 and np.abs(b - d).max() < 1e-4
    for learner in (described, plain):
        learner.forward_backward(data, dict(name="cross-entropy"))
    for name, wanted in described.trained.items():
        if wanted.grad is not None and not (described.network.sees(name) and name.endswith("k_proj.bias")):
            assert (plain.trained[name].grad - wanted.grad).norm() <= 1e-3 * wanted.grad.norm(), name
    with pytest.raises(ConfigError, match="critic"):
        open_network(made("internvl"), "value", SETTINGS, trained=True)
