"""The network equals transformers, and a pack equals its sequences one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny import IMAGE, IMAGES, datum, tokens
from transformers import AutoModelForImageTextToText

from saccade_torch.adapters import LoraSpec
from saccade_torch.errors import DataError
from saccade_torch.frames import Frame, feature_frame
from saccade_torch.learner import Asked, Learner, Settings, plan
from saccade_torch.network import Network, Span, Tokens

CPU = torch.device("cpu")
KINDS = ["qwen3", "qwen3-untied", "qwen25", "qwen25-untied"]


def theirs(model, network: Network, row: Tokens) -> torch.Tensor:
    ids = torch.from_numpy(row.ids.astype(np.int64))[None]
    inputs = dict(input_ids=ids, mm_token_type_ids=(ids == IMAGE).int())
    if row.spans:
        inputs["pixel_values"] = network.format.patches([span.frame for span in row.spans], CPU)
        inputs["image_grid_thw"] = torch.tensor([[1, *network.format.grid(span.frame)] for span in row.spans])
    return model(**inputs).logits[0]


def ours(network: Network, rows: list[Tokens]) -> torch.Tensor:
    pack = network.pack(rows)
    features = network.encode(pack.frames) if pack.frames else None
    from saccade_torch.modules import norm

    return norm(network.language.norm, network.hidden(pack, features), torch.float32) @ network.output_weight().T


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_equal_transformers_with_zero_to_six_images_in_one_pack(folders, kind):
    model = AutoModelForImageTextToText.from_pretrained(folders[kind], dtype=torch.float32).eval()
    network = Network(folders[kind], "lm", torch.float32, CPU, trained=True)
    rows = [tokens(seed, images) for seed, images in enumerate((0, 1, 2, 6, 0, 3))]
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
        assert wanted.norm() > 0
        # The padding id's embedding has no gradient in transformers.
        assert (parameter.grad - wanted).norm() <= 1e-3 * wanted.norm(), name


@pytest.mark.parametrize("kind", ["qwen3", "qwen25"])
def test_a_document_never_sees_its_neighbour(folders, kind):
    network = Network(folders[kind], "lm", torch.float32, CPU, trained=False)
    mine = tokens(1, 2)
    with torch.no_grad():
        alone = ours(network, [mine])
        for seed in range(3):
            packed = ours(network, [tokens(seed + 10, seed), mine, tokens(seed + 20, 1)])
            at = len(tokens(seed + 10, seed).ids)
            assert (packed[at : at + len(mine.ids)] - alone).abs().max() < 2e-5
        changed = Tokens(mine.ids, (Span(mine.spans[0].start, mine.spans[0].length, other_of(mine.spans[0])), *mine.spans[1:]))
        assert (ours(network, [changed]) - alone).abs().max() > 1e-3


def other_of(span: Span):
    """Another image of the same size."""
    return Frame("other", 255 - span.frame.pixels)


def test_patches_equal_the_processor_of_transformers(folders):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    network = Network(folders["qwen3"], "lm", torch.float32, CPU, trained=False)
    processor = Qwen2VLImageProcessorPil(patch_size=8, merge_size=2, temporal_patch_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3,
                                         size={"shortest_edge": 256, "longest_edge": 256 * 256})  # fmt: skip
    for frame in IMAGES:
        want = processor(frame.pixels.numpy(), return_tensors="pt")["pixel_values"]
        assert torch.equal(network.format.patches([frame], CPU), want)
        grid = (1, *network.format.grid(frame))
        # The same image as a renderer hands it over: normalised numbers, or bytes in the order of patches.
        ready = feature_frame("ready", grid, "float32", want.flatten().view(torch.uint8))
        raw = feature_frame("raw", grid, "uint8", ((want * 0.5 + 0.5) * 255).round().byte().flatten())
        for processed in (ready, raw):
            assert network.format.tokens(processed) == network.format.tokens(frame)
            assert torch.equal(network.format.patches([processed], CPU), want)


@pytest.mark.parametrize("kind", ["qwen3", "qwen25-untied"])
def test_log_probabilities_and_entropy_are_those_of_the_tempered_distribution_without_vision_ids(folders, kind):
    learner = Learner(folders[kind], Settings(CPU, pack_tokens=64))
    data = [datum(seed, images, temperature) for seed, (images, temperature) in enumerate([(0, 1.0), (3, 0.7), (1, 1.4)])]
    found = learner.forward(data)
    for item, (logprobs, entropy) in zip(data, found):
        with torch.no_grad():
            logits = ours(learner.network, [item.input]) / item.temperature
        logits[:, 90:94] = float("-inf")
        wanted = torch.log_softmax(logits.double(), -1)
        entropies = -(wanted.exp() * wanted.masked_fill(wanted == float("-inf"), 0)).sum(-1)
        for at, target in enumerate(item.targets):
            assert logprobs[at] == pytest.approx(0 if target < 0 else float(wanted[at, target]), abs=1e-4)
            assert entropy[at] == pytest.approx(0 if target < 0 else float(entropies[at]), abs=1e-4)


def test_chunked_gradients_equal_autograd_and_no_chunking_shows(folders, monkeypatch):
    from saccade_torch import scores

    generator = torch.Generator().manual_seed(0)
    random = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    hidden, weight = random(23, 8).requires_grad_(), random(31, 8).requires_grad_()
    targets = torch.randint(0, 28, (23,), generator=generator)
    inverse, banned = torch.rand(23, generator=generator) + 0.5, torch.tensor([28, 30])
    slopes = random(23), random(23)
    z = (hidden @ weight.T) * inverse[:, None]
    z = z.index_fill(1, banned, float("-inf"))
    logp = torch.log_softmax(z, -1)
    plain = logp.gather(1, targets[:, None])[:, 0], -(logp.exp() * logp.index_fill(1, banned, 0)).sum(-1)
    wanted = torch.autograd.grad(plain, (hidden, weight), slopes)
    for size in (4 * 31 * 5, 10**6):
        monkeypatch.setitem(scores.CHUNK_BYTES, "cpu", size)
        bias = torch.zeros(31).index_fill(0, banned, float("-inf"))
        found = scores.token_scores(hidden, weight, targets, inverse, bias)
        for a, b in zip(found, plain):
            assert torch.allclose(a, b, atol=1e-5)
        for a, b in zip(torch.autograd.grad(found, (hidden, weight), slopes), wanted):
            assert torch.allclose(a, b, atol=1e-4)


def test_packs_hold_every_sequence_once_within_the_budget():
    data = [datum(seed, seed % 5) for seed in range(20)]
    packs = plan(data, 60)
    assert sorted(i for pack in packs for i in pack) == list(range(20))
    for pack in packs:
        assert len(pack) == 1 or sum(len(data[i].input.ids) for i in pack) <= 60


def test_ids_and_images_that_disagree_are_refused(folders):
    network = Network(folders["qwen3"], "lm", torch.float32, CPU, trained=False)
    good = tokens(3, 1)
    span = good.spans[0]
    network.check(good)
    for bad in (
        Tokens(good.ids, ()),
        Tokens(good.ids, (Span(span.start, span.length, IMAGES[3] if span.length != 12 else IMAGES[0]),)),
        Tokens(good.ids, (Span(span.start + 1, span.length, span.frame),)),
        Tokens(np.array([VOCAB_END], dtype=np.int32)),
        Tokens(np.zeros(0, dtype=np.int32)),
    ):
        with pytest.raises(DataError):
            network.check(bad)


VOCAB_END = 97


def test_only_rows_with_targets_are_asked(folders):
    network = Network(folders["qwen3"], "lm", torch.float32, CPU, trained=False)
    asked = Asked.of([datum(1, 1), datum(2, 0)], network)
    assert asked.count == sum((d.targets >= 0).sum() for d in (datum(1, 1), datum(2, 0)))


@pytest.mark.parametrize("lora", [None, LoraSpec(2, 4)], ids=["plain", "lora"])
@pytest.mark.parametrize("kind", ["qwen3", "qwen25"])
def test_layers_compile_as_one_graph_each_and_share_it(folders, kind, lora):
    learner = Learner(folders[kind], Settings(CPU), lora=lora)
    row = tokens(1, 2)
    with torch.no_grad():
        wanted = ours(learner.network, [row])
        graphs = []

        def backend(graph, _):
            graphs.append(graph)
            return graph.forward

        torch._dynamo.reset()
        for layer in (*learner.network.language.layers, *learner.network.visual.blocks):
            layer.compile(fullgraph=True, backend=backend)
        assert torch.allclose(ours(learner.network, [row]), wanted, atol=1e-5)
    layers = len(learner.network.language.layers) + len(learner.network.visual.blocks)
    # Qwen2.5-VL's tower has windows of several lengths, and blocks with and without them.
    assert 2 <= len(graphs) < layers
