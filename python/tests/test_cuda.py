"""What only CUDA has: one kernel over a pack, attention over slots, decoding from graphs, compiled layers. Skipped elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_sampler import as_datum, ask, extend, run
from tiny import datum, tokens

from saccade_torch.attention import Segments, cached_attention, dense, packed_attention
from saccade_torch.learner import Learner, Settings
from saccade_torch.rotary import rotate
from saccade_torch.sampler import Sampler

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
CUDA = torch.device("cuda")
HALF = Settings(CUDA, torch.bfloat16, 1024)
LOSS = {"name": "cross-entropy"}


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=CUDA, dtype=torch.bfloat16)


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.detach().double() - wanted.detach().double()).norm() / wanted.detach().double().norm())


def blocks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: list[int], causal: bool) -> torch.Tensor:
    """With a block-diagonal mask, in 32 bits."""
    owner = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(CUDA)
    mask = owner[:, None] == owner[None]
    if causal:
        mask = mask.tril()
    return dense(*(x.float().transpose(0, 1)[None] for x in (q, k, v)), mask=mask)[0].transpose(0, 1)


@pytest.mark.parametrize("heads, shared, width", [(16, 8, 128), (16, 16, 64), (4, 2, 16), (3, 3, 8)])
@pytest.mark.parametrize("causal", [True, False])
def test_one_kernel_over_a_pack_is_a_block_diagonal_mask(heads, shared, width, causal):
    torch.manual_seed(0)
    lengths = [1, 130, 77, 512, 3]
    total = sum(lengths)
    inputs = [random(total, count, width).requires_grad_() for count in (heads, shared, shared)]
    wide = [x.detach().float().requires_grad_() for x in inputs]
    found = packed_attention(*inputs, Segments.of(lengths, CUDA, torch.bfloat16), causal)
    wanted = blocks(*wide, lengths, causal)
    assert apart(found, wanted) < 1e-2
    slope = random(*found.shape)
    found.backward(slope)
    wanted.backward(slope.float())
    for mine, theirs in zip(inputs, wide):
        assert apart(mine.grad, theirs.grad) < 2e-2


@pytest.mark.parametrize("counts", [[1] * 3, [1] * 70, [5, 1, 200, 1], [64, 64]])
def test_attention_over_slots_sees_the_slots_own_rows(counts):
    torch.manual_seed(1)
    slots, length, heads, shared, width = 80, 768, 16, 8, 128
    keys, values = random(slots, length, shared, width), random(slots, length, shared, width)
    order = np.random.default_rng(0).permutation(slots)[: len(counts)]
    ends = [count + int(extra) for count, extra in zip(counts, np.random.default_rng(1).integers(0, length - max(counts), len(counts)))]
    q = random(sum(counts), heads, width)
    as_ints = lambda values: torch.tensor(values, dtype=torch.int32, device=CUDA)  # noqa: E731
    bounds = as_ints([0, *np.cumsum(counts)])
    found = cached_attention(q, keys, values, bounds, as_ints([*(order * length), 0]), max(counts), as_ints(ends))
    at = 0
    for slot, count, end in zip(order, counts, ends):
        k, v = (x[int(slot), :end].float().transpose(0, 1)[None] for x in (keys, values))
        mask = torch.ones(count, end, dtype=torch.bool, device=CUDA).tril(end - count)
        wanted = dense(q[at : at + count].float().transpose(0, 1)[None], k, v, mask=mask)[0].transpose(0, 1)
        assert apart(found[at : at + count], wanted) < 1e-2
        at += count


@pytest.mark.parametrize("heads, shared, width, length", [(16, 8, 128, 4096), (16, 8, 128, 512), (6, 3, 64, 1024), (4, 2, 16, 256)])
def test_decoding_reads_a_slot_in_chunks_and_company_changes_no_bit(heads, shared, width, length):
    from saccade_torch.decode import attend

    torch.manual_seed(2)
    slots, rows = 40, 33
    keys, values = random(slots, length, shared, width), random(slots, length, shared, width)
    q = random(rows, heads, width)
    order = torch.randperm(slots, device=CUDA)[:rows]
    places = torch.randint(0, length, (rows,), device=CUDA)
    places[0], places[1] = length - 1, 0
    found = attend(q, keys, values, order, (places + 1).int(), length)
    for i in range(rows):
        row = (x[order[i], : places[i] + 1].float().transpose(0, 1)[None] for x in (keys, values))
        wanted = dense(q[i].float()[None, :, None], *row)[0, :, 0]
        assert apart(found[i], wanted) < 1e-2
    alone = attend(q[5:6].contiguous(), keys, values, order[5:6], (places[5:6] + 1).int(), length)
    assert torch.equal(alone[0], found[5])


@pytest.mark.parametrize("heads, shared, width", [(16, 8, 128), (6, 3, 64), (4, 2, 16)])
@pytest.mark.parametrize("scaled", [True, False])
def test_the_kernels_between_products_compute_what_the_learners_layers_do(heads, shared, width, scaled):
    from saccade_torch.kernels import gate, normed, turned

    torch.manual_seed(3)
    rows, slots, length = 37, 40, 64
    x, weight = torch.randn(rows, 48 * heads, device=CUDA), random(48 * heads)
    wanted = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight.float()
    assert apart(normed(x, weight, 1e-6, torch.bfloat16), wanted) < 4e-3
    qkv = random(rows, (heads + 2 * shared) * width)
    scales = (random(width), random(width)) if scaled else None
    half = torch.randn(2, rows, 1, width // 2, device=CUDA)
    cos, sin = torch.cat([half, half], -1).unbind(0)
    keys, values = torch.zeros(2, slots, length, shared, width, dtype=torch.bfloat16, device=CUDA).unbind(0)
    order, places = torch.randperm(slots, device=CUDA)[:rows], torch.randint(0, length, (rows,), device=CUDA)
    found = turned(qkv, scales, 1e-6, cos, sin, order, places, keys, values, heads)
    q, k, v = (part.unflatten(-1, (-1, width)).float() for part in qkv.split([heads * width, shared * width, shared * width], -1))
    if scales is not None:
        q, k = (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6) * scale.float() for y, scale in zip((q, k), scales))
    assert apart(found, rotate(q, cos, sin)) < 4e-3
    assert apart(keys[order, places], rotate(k, cos, sin)) < 4e-3
    assert torch.equal(values[order, places].float(), v)
    both = random(rows, 2 * 1100)
    assert apart(gate(both), torch.nn.functional.silu(both[:, :1100].float()) * both[:, 1100:].float()) < 4e-3


def test_many_images_of_one_size_see_what_each_alone_sees():
    torch.manual_seed(4)
    lengths = [256] * 37
    inputs = [random(sum(lengths), 4, 64).requires_grad_() for _ in range(3)]
    segments = Segments.of(lengths, CUDA, torch.bfloat16, images=True)
    assert segments.alike == 256
    slope = random(sum(lengths), 4, 64)
    found, wanted = (packed_attention(*inputs, given, False) for given in (segments, segments._replace(alike=0)))
    assert apart(found, wanted) < 1e-2
    for mine, theirs in zip(torch.autograd.grad(found, inputs, slope), torch.autograd.grad(wanted, inputs, slope)):
        assert apart(mine, theirs) < 1e-2


def gradients(learner: Learner) -> torch.Tensor:
    return torch.cat([p.grad.flatten().double() for p in learner.trained.values() if p.grad is not None])


@pytest.mark.parametrize("kind", ["qwen3", "qwen25-untied"])
def test_half_precision_and_compiled_layers_give_the_gradient_of_32_bits(folders, kind):
    data = [datum(seed, seed % 4) for seed in range(12)]
    exact = Learner(folders[kind], Settings(CUDA, torch.float32, 1024))
    half = Learner(folders[kind], HALF)
    compiled = Learner(folders[kind], Settings(CUDA, torch.bfloat16, 1024, compile=True))
    reports = [learner.forward_backward(data, LOSS) for learner in (exact, half, compiled)]
    assert [report.loss for report in reports] == pytest.approx([reports[0].loss] * 3, rel=2e-2)
    wanted = gradients(exact)
    for learner in (half, compiled):
        found = gradients(learner)
        assert float((found - wanted).norm() / wanted.norm()) < 0.05
    # Other lengths and numbers of images, in the same compiled layers.
    for count in (3, 7, 11):
        more = [datum(100 + seed, seed % 3) for seed in range(count)]
        assert compiled.forward_backward(more, LOSS).loss == pytest.approx(half.forward_backward(more, LOSS).loss, rel=2e-2)


@pytest.mark.parametrize("kind", ["qwen3", "qwen25-untied"])
def test_graphs_decode_what_the_learner_scores_however_many_decode_beside_it(folders, kind):
    learner = Learner(folders[kind], HALF)
    network, version = learner.publish()
    sampler = Sampler(network, HALF, version)
    rows = {i: tokens(i, i % 4) for i in range(11)}
    for turn in range(3):
        boxes = {i: ask(sampler, f"sequence {i}", row, max_tokens=4 + i, seed=i, temperature=1.0) for i, row in rows.items()}
        run(sampler)
        assert sampler.graphs.made
        for i, (reply,) in boxes.items():
            (scored, _), = learner.forward([as_datum(rows[i], reply, 1.0)])
            assert np.abs(np.array(reply.logprobs) - scored[len(rows[i].ids) - 1 : -1]).mean() < 0.05
            rows[i] = extend(rows[i], reply.ids, turn % 2, 70 + turn)


def test_offloaded_weights_learn_what_weights_on_the_device_learn(folders):
    data = [datum(seed, seed % 4) for seed in range(6)]
    learners = [Learner(folders["qwen3"], Settings(CUDA, torch.bfloat16, 1024, compile=compile, offload=offload)) for compile, offload in ((False, False), (False, True), (True, True))]
    found = []
    for learner in learners:
        losses = []
        for _ in range(3):
            losses.append(learner.forward_backward(data, LOSS).loss)
            learner.step({"name": "adamw", "learningRate": 1e-3, "maxGradNorm": 1})
        assert all(p.device.type == ("cpu" if learner.settings.offload else "cuda") for p in learner.trained.values())
        found.append(losses)
    for losses in found[1:]:
        assert losses == pytest.approx(found[0], rel=2e-2)
    assert found[0][2] < found[0][0]
