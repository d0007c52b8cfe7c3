"""A base in 4 or 8 bits: what it stands for, what learns over it, what it takes. Moments in 8 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from test_learner import ADAMW, LORA, MUON, PPO, batch, close, gradients, weights
from test_sampler import as_datum, ask, extend, run
from tiny import DEVICE, tokens

from saccade_torch.adapters import LoraSpec
from saccade_torch.errors import ConfigError
from saccade_torch.learner import Learner, Settings, open_frozen
from saccade_torch.modules import LoraLinear
from saccade_torch.moments import BLOCK as MOMENTS_BLOCK
from saccade_torch.moments import SmallMoments
from saccade_torch.quantized import BLOCK, BYTES, NF4, QuantizedLinear, dequantize, quantize
from saccade_torch.sampler import Sampler

KINDS = ["nf4", "int8"]
CRITIC = {"head": "value", "lora": LORA}


def settings(base: str | None = None, **more) -> Settings:
    return Settings(DEVICE, base=base, **more)


@pytest.mark.parametrize("shape", [(3, 64), (7, 40), (1, 1), (5, 129)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_becomes_the_nearest_level_of_its_block(kind, shape):
    weight = torch.from_numpy(np.random.default_rng(1).normal(0, 0.3, shape).astype(np.float32))
    found = dequantize(*quantize(weight, kind), *shape, torch.float32).flatten().numpy()
    flat = weight.flatten().double().numpy()
    levels = np.array(NF4) if kind == "nf4" else np.arange(-127, 128) / 127
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        scale = np.abs(block).max()
        nearest = levels[np.abs(block[:, None] / scale - levels).argmin(1)] * scale
        np.testing.assert_allclose(found[start : start + BLOCK], nearest, atol=1e-6 * scale)
    # The largest of a block is exact, and what is quantised again stays what it is.
    again = dequantize(*quantize(torch.from_numpy(found).view(shape), kind), *shape, torch.float32)
    np.testing.assert_array_equal(again.flatten().numpy(), found)


def test_a_block_of_zeros_stays_zeros():
    for kind in KINDS:
        assert not dequantize(*quantize(torch.zeros(2, 64), kind), 2, 64, torch.float32).any()


def dense_twin(folder: str, kind: str, **options) -> tuple[Learner, Learner]:
    """A learner over a quantised base, and one whose base holds what the first one computes with, in 32 bits."""
    small, wide = Learner(folder, settings(kind), **options), Learner(folder, settings(), **options)
    held = {name: module for name, module in small.network.named_modules() if isinstance(module, QuantizedLinear)}
    assert len(held) == 3 * 7
    for name, module in held.items():
        wide.network.get_submodule(name).weight.data.copy_(module.weight(torch.float32))
    return small, wide


@pytest.mark.parametrize("folder", ["qwen3", "qwen25-untied"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [dict(lora=LORA), dict(lora=LORA, freeze="vision"), CRITIC], ids=str)
def test_an_adapter_learns_as_over_a_base_of_the_dequantised_weights(folders, folder, kind, options):
    loss = {"name": "value"} if "head" in options else PPO
    small, wide = dense_twin(folders[folder], kind, **options)
    for _ in range(2):
        a, b = small.forward_backward(batch(), loss), wide.forward_backward(batch(), loss)
        assert a.loss == pytest.approx(b.loss, rel=1e-5)
        # The second time B is not 0 any more, so that A has a gradient too.
        close(gradients(small), gradients(wide), 1e-5)
        for learner in (small, wide):
            learner.step(ADAMW)
    close(weights(small), weights(wide), 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_activations_that_are_computed_again_give_the_same_gradients(folders, kind):
    kept, again = (Learner(folders["qwen3"], settings(kind, checkpointing=on), lora=LORA) for on in (False, True))
    for learner in (kept, again):
        learner.forward_backward(batch(), PPO)
    close(gradients(again), gradients(kept), 1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_sampler_has_the_learners_own_base_and_draws_what_the_learner_scores(folders, kind):
    learner = Learner(folders["qwen3"], settings(kind), lora=LORA)
    for _ in range(2):
        learner.forward_backward(batch(), PPO)
        learner.step(ADAMW)
    network, version = learner.publish()
    mine, theirs = (dict(one.named_parameters()) for one in (learner.network, network))
    shared = [name for name in mine if mine[name].data_ptr() == theirs[name].data_ptr()]
    assert {name for name in mine if name.endswith(".codes") or name.endswith(".scales")} <= set(shared)
    sampler = Sampler(network, learner.settings, version)
    row = tokens(1, 2)
    for turn in range(3):
        box = ask(sampler, "one", row, max_tokens=5)
        run(sampler)
        scored, _ = learner.forward([as_datum(row, box[0], 0.9)])[0]
        np.testing.assert_allclose(scored[len(row.ids) - 1 : len(row.ids) + 4], box[0].logprobs, atol=1e-4)
        row = extend(row, box[0].ids, turn % 2, turn)


@pytest.mark.parametrize("optimizer", [ADAMW, MUON], ids=lambda one: one["name"])
@pytest.mark.parametrize("given", [settings("nf4", small_moments=True), settings("int8"), settings(small_moments=True)], ids=["nf4, 8-bit moments", "int8", "8-bit moments"])
def test_a_restored_learner_goes_on_with_the_same_bits(folders, tmp_path, given, optimizer):
    options = dict(lora=LORA, freeze="vision") if given.base else {}
    straight = Learner(folders["qwen3"], given, **options)
    for _ in range(2):
        straight.forward_backward(batch(), PPO)
        straight.step(optimizer)
    straight.checkpoint(str(tmp_path / "policy"))
    resumed = Learner(folders["qwen3"], given, seed=5, **options)
    resumed.restore(str(tmp_path / "policy"))
    resumed.checkpoint(str(tmp_path / "again"))
    one, other = (load_file(str(tmp_path / f"{name}.state.safetensors")) for name in ("policy", "again"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    for learner in (straight, resumed):
        learner.forward_backward(batch(3), PPO)
        learner.step(optimizer)
    # A frozen tower saw the images in other company: the last bit of their features may differ.
    close(weights(resumed), weights(straight), 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_opens_over_the_small_base_as_it_learned_and_over_the_16_bit_one_nearby(folders, tmp_path, kind):
    learner = Learner(folders["qwen3"], settings(kind), lora=LORA)
    for _ in range(2):
        learner.forward_backward(batch(), PPO)
        learner.step(ADAMW)
    learner.export(str(tmp_path / "adapter"))
    files = {file.name for file in (tmp_path / "adapter").iterdir()}
    assert files == {"adapter_config.json", "adapter_model.safetensors"}
    small, wide = (Sampler(open_frozen(str(tmp_path / "adapter"), settings(base)), settings(base)) for base in (kind, None))
    wanted = [found for found, _ in learner.forward(batch())]
    for a, b, c in zip(small.score(batch()), wide.score(batch()), wanted):
        np.testing.assert_allclose(a, c, atol=1e-5)
        far = np.abs(b - c).max()
        assert 0 < far < (2 if kind == "nf4" else 0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_a_base_are_counted_by_hand(folders, kind):
    learner = Learner(folders["qwen3"], settings(kind), lora=LORA)
    small = [module for module in learner.network.modules() if isinstance(module, QuantizedLinear)]
    count = sum(module.in_features * module.out_features for module in small)
    found = sum(p.nbytes for module in small for name, p in module.named_parameters() if name != "bias")
    # Short last blocks are rounded up.
    assert BYTES[kind] * count <= found <= BYTES[kind] * (count + BLOCK * len(small))
    whole = Learner(folders["qwen3"], settings(), lora=LORA)
    total = lambda one: sum(p.nbytes for p in one.network.parameters())  # noqa: E731
    assert total(whole) - total(learner) == 4 * count - found
    # Tower, embedding and norms stay as they are.
    assert all("language_model" in name for name, module in learner.network.named_modules() if isinstance(module, QuantizedLinear))
    assert not isinstance(learner.network.get_submodule("model.lm_head"), (LoraLinear, QuantizedLinear))


@pytest.mark.parametrize("case", [dict(), dict(freeze="vision"), dict(head="value")], ids=str)
def test_all_weights_never_learn_over_a_small_base(folders, case):
    with pytest.raises(ConfigError, match="set lora"):
        Learner(folders["qwen3"], settings("nf4"), **case)
    with pytest.raises(ConfigError, match="offload"):
        Learner(folders["qwen3"], settings("nf4", offload=True), lora=LORA)


def test_8_bit_moments_take_a_quarter_and_learn_as_32_bit_ones_do(folders):
    losses = {}
    for small in (False, True):
        learner = Learner(folders["qwen3"], settings(small_moments=small))
        for _ in range(12):
            report = learner.forward_backward(batch(), {"name": "cross-entropy"})
            learner.step({**ADAMW, "learningRate": 3e-3, "weightDecay": 0})
        losses[small] = report.loss
        numbers = sum(-(-p.numel() // MOMENTS_BLOCK) * MOMENTS_BLOCK for p in learner.trained.values())
        bytes = learner.optimizer.first.bytes + learner.optimizer.second.bytes
        assert bytes == (2 * (numbers + numbers // MOMENTS_BLOCK * 4) if small else 8 * sum(p.numel() for p in learner.trained.values()))
    start = Learner(folders["qwen3"], settings()).forward_backward(batch(), {"name": "cross-entropy"}).loss
    assert losses[False] < 0.5 * start
    assert losses[True] == pytest.approx(losses[False], rel=0.05)


def test_rounding_of_moments_is_right_on_average_and_never_to_zero():
    parameter = torch.nn.Parameter(torch.zeros(2048, device=DEVICE))
    for kind in ("first", "second"):
        kept = SmallMoments({"p": parameter}, kind)
        value = torch.from_numpy(np.exp(np.random.default_rng(0).normal(-6, 2, 2048)).astype(np.float32)).to(DEVICE)
        mean = torch.zeros_like(value)
        for step in range(200):
            kept.put("p", value, step)
            mean += kept["p"] / 200
        # A level is 10 % from the next; the mean of 200 draws is nearer by far.
        inside = value > 2e-5 * value.view(-1, MOMENTS_BLOCK).amax(1).repeat_interleave(MOMENTS_BLOCK)
        assert ((mean - value).abs() / value)[inside].max() < 0.02
        if kind == "second":
            assert (kept["p"] > 0).all()


def test_a_moment_that_decays_a_thousandth_a_step_decays():
    parameter = torch.nn.Parameter(torch.zeros(256, device=DEVICE))
    kept = SmallMoments({"p": parameter}, "second")
    kept.put("p", torch.linspace(0.2, 1, 256, device=DEVICE), None)
    before = kept["p"].clone()
    for step in range(1000):
        # The largest stays: it must be the others' codes that move.
        value = kept["p"] * 0.999
        value[-1] = 1
        kept.put("p", value, step)
    ratio = kept["p"][:-1] / before[:-1]
    assert abs(float(ratio.mean()) - 0.999**1000) < 0.03


def test_an_adapter_with_few_targets_leaves_the_other_layers_small(folders):
    learner = Learner(folders["qwen3"], settings("nf4"), lora=LoraSpec(2, 4, ("q_proj",)))
    assert sum(isinstance(module, QuantizedLinear) for module in learner.network.modules()) == 21
    assert set(learner.trained) and all("q_proj" in name for name in learner.trained)
