"""Learning: packed equals one by one, state survives, a bad gradient changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from tiny import DEVICE, datum
from transformers import AutoModelForImageTextToText

from saccade_torch.adapters import LoraSpec
from saccade_torch.errors import ConfigError, DataError
from saccade_torch.learner import Learner, Settings, adapter_parameters, open_frozen

SETTINGS = Settings(DEVICE)
PPO = {"name": "ppo", "clipLow": 0.8, "clipHigh": 1.28, "dualClip": 3, "entropy": 0.01, "kl": {"coefficient": 0.1, "estimator": "k3"}}
ADAMW = {"name": "adamw", "learningRate": 1e-2, "weightDecay": 0.1, "maxGradNorm": 1}
MUON = {"name": "muon", "learningRate": 2e-2, "adamLearningRate": 1e-2, "rates": {"vision": 1e-2, "embedding": 5e-3}}
LORA = LoraSpec(4, 8)


def batch(count: int = 5):
    return [datum(seed, seed % 4, 0.8 + 0.2 * (seed % 3)) for seed in range(count)]


def gradients(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in learner.trained.items() if p.grad is not None}


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in learner.trained.items()}


def close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], tolerance: float) -> None:
    assert set(a) == set(b)
    for name in a:
        assert (a[name] - b[name]).norm() <= tolerance * max(1e-6, float(b[name].norm())), name


@pytest.mark.parametrize("options", [dict(), dict(lora=LORA), dict(freeze="vision"), dict(head="value")], ids=str)
def test_packed_equals_one_by_one(folders, options):
    loss = {"name": "value", "clip": 0.2} if options.get("head") == "value" else PPO
    packed = Learner(folders["qwen3"], SETTINGS, **options)
    single = Learner(folders["qwen3"], Settings(DEVICE, pack_tokens=1), **options)
    together, apart = packed.forward_backward(batch(), loss), single.forward_backward(batch(), loss)
    assert together.loss == pytest.approx(apart.loss, rel=1e-5)
    assert together.metrics == pytest.approx(apart.metrics, rel=1e-4)
    for a, b in zip(together.outputs, apart.outputs):
        np.testing.assert_allclose(a, b, atol=1e-5)
    close(gradients(packed), gradients(single), 1e-4)


def test_gradients_add_up_until_step_and_discard_drops_them(folders):
    whole, parts = (Learner(folders["qwen3"], SETTINGS) for _ in range(2))
    whole.forward_backward(batch(), PPO)
    parts.forward_backward(batch(), PPO)
    parts.discard()
    parts.forward_backward(batch()[:2], PPO)
    parts.forward_backward(batch()[2:], PPO)
    close(gradients(parts), gradients(whole), 1e-4)
    a, b = whole.step(ADAMW), parts.step(ADAMW)
    assert a["applied"] and a["step"] == 1
    assert a["gradNorm"] == pytest.approx(b["gradNorm"], rel=1e-4)
    assert gradients(whole) == {}


def test_a_loss_that_is_not_finite_changes_nothing(folders):
    learner = Learner(folders["qwen3"], SETTINGS)
    before = weights(learner)
    bad = batch()
    bad[0].arrays["advantages"][:] = np.nan
    assert not learner.forward_backward(bad, PPO).finite
    assert learner.step(ADAMW)["applied"] is False
    close(weights(learner), before, 0)
    assert learner.optimizer.step == 0
    assert learner.forward_backward(batch(), PPO).finite
    assert learner.step(ADAMW)["applied"] is True


@pytest.mark.parametrize("optimizer", [ADAMW, MUON], ids=lambda o: o["name"])
@pytest.mark.parametrize("options", [dict(), dict(lora=LORA, freeze="vision"), dict(head="value"), dict(head="value", lora=LORA)], ids=str)
def test_a_restored_learner_goes_on_as_if_nothing_had_happened(folders, tmp_path, optimizer, options):
    loss = {"name": "value"} if options.get("head") == "value" else PPO
    straight = Learner(folders["qwen3-untied"], SETTINGS, **options)
    for _ in range(2):
        straight.forward_backward(batch(), loss)
        straight.step(optimizer)
    straight.checkpoint(str(tmp_path / "policy"))
    resumed = Learner(folders["qwen3-untied"], SETTINGS, seed=5, **options)
    resumed.restore(str(tmp_path / "policy"))
    for learner in (straight, resumed):
        learner.forward_backward(batch(3), loss)
        learner.step(optimizer)
    # A frozen tower saw the images in other company: the last bit of their features may differ.
    close(weights(resumed), weights(straight), 1e-6)
    assert resumed.optimizer.step == 3
    # Nothing but Hugging Face or PEFT files in the folder itself.
    names = {file.name for file in (tmp_path / "policy").iterdir()}
    assert {name for name in names if name.endswith(".safetensors")} == {"adapter_model.safetensors" if "lora" in options else "model.safetensors"}
    assert {file.name for file in tmp_path.iterdir()} - {"policy", "policy.state.safetensors", "policy.value_head.safetensors"} == set()


def test_a_checkpoint_of_another_learner_is_refused_and_changes_nothing(folders, tmp_path):
    Learner(folders["qwen3"], SETTINGS, lora=LoraSpec(2, 8)).checkpoint(str(tmp_path / "low"))
    Learner(folders["qwen3"], SETTINGS).checkpoint(str(tmp_path / "full"))
    learner = Learner(folders["qwen3"], SETTINGS, lora=LORA)
    before = weights(learner)
    for name in ("low", "full"):
        with pytest.raises(DataError):
            learner.restore(str(tmp_path / name))
    close(weights(learner), before, 0)


@pytest.mark.parametrize("kind", ["qwen3", "qwen25-untied"])
def test_transformers_loads_what_is_exported(folders, tmp_path, kind):
    learner = Learner(folders[kind], SETTINGS)
    learner.forward_backward(batch(), PPO)
    learner.step(ADAMW)
    learner.export(str(tmp_path / "model"))
    model, report = AutoModelForImageTextToText.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    close({name: p.detach().to(DEVICE) for name, p in model.named_parameters()}, weights(learner), 0)


@pytest.mark.parametrize("kind", ["qwen3", "qwen25-untied"])
@pytest.mark.parametrize("freeze", [None, "vision", "language"])
def test_an_adapter_opens_whatever_was_frozen_beside_it(folders, tmp_path, kind, freeze):
    """The tower of Qwen2.5-VL names its layers as the language part does."""
    learner = Learner(folders[kind], SETTINGS, lora=LoraSpec(2, 8), freeze=freeze)
    for _ in range(2):
        learner.forward_backward(batch(), PPO)
        learner.step(ADAMW)
    learner.export(str(tmp_path / "adapter"))
    opened = open_frozen(str(tmp_path / "adapter"), SETTINGS)
    close(*({name: p.detach() for name, p in adapter_parameters(one).items()} for one in (opened, learner.network)), 0)


def test_peft_and_we_read_an_adapter_the_same(folders, tmp_path):
    learner = Learner(folders["qwen3"], SETTINGS, lora=LORA)
    for _ in range(2):
        learner.forward_backward(batch(), PPO)
        learner.step(ADAMW)
    learner.export(str(tmp_path / "adapter"))
    base = AutoModelForImageTextToText.from_pretrained(folders["qwen3"], dtype=torch.float32)
    merged = PeftModel.from_pretrained(base, tmp_path / "adapter").merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    (tmp_path / "merged" / "preprocessor_config.json").write_text(Path(folders["qwen3"], "preprocessor_config.json").read_text())
    want = Learner(str(tmp_path / "merged"), SETTINGS).forward(batch())
    for network in (learner.network, open_frozen(str(tmp_path / "adapter"), SETTINGS)):
        from saccade_torch.learner import run_forward

        with torch.no_grad():
            got = run_forward(network, batch(), SETTINGS, None)
        for (a, _), (b, _) in zip(got, want):
            np.testing.assert_allclose(a, b, atol=1e-4)
    with pytest.raises(ConfigError, match="adapter"):
        Learner(str(tmp_path / "adapter"), SETTINGS)


def test_a_frozen_tower_sees_each_image_once_and_stays_as_it_is(folders):
    learner = Learner(folders["qwen3"], SETTINGS, freeze="vision")
    assert not any("visual" in name for name in learner.trained)
    for _ in range(3):
        learner.forward_backward(batch(), PPO)
        learner.step(ADAMW)
    distinct = {span.frame.key for item in batch() for span in item.input.spans}
    assert learner.seen.encoded == len(distinct)


def test_a_snapshot_keeps_its_weights_while_the_learner_goes_on(folders):
    for options in (dict(), dict(lora=LORA)):
        learner = Learner(folders["qwen3"], SETTINGS, **options)
        first, version = learner.publish()
        again, same = learner.publish()
        assert version == same == 1
        before = {name: p.clone() for name, p in first.named().items()}
        learner.forward_backward(batch(), PPO)
        learner.step(ADAMW)
        close({name: p for name, p in first.named().items()}, before, 0)
        spare, version = learner.publish(again)
        assert spare is again and version == 2
        close({name: p for name, p in spare.named().items()}, {name: p.detach() for name, p in learner.network.named().items()}, 0)
        shared = [p.data_ptr() == q.data_ptr() for p, q in zip(first.parameters(), learner.network.parameters()) if not q.requires_grad]
        assert all(shared)


def test_checkpointed_activations_give_the_same_gradients(folders):
    plain, frugal = Learner(folders["qwen3"], SETTINGS), Learner(folders["qwen3"], Settings(DEVICE, checkpointing=True))
    for learner in (plain, frugal):
        learner.forward_backward(batch(), PPO)
    close(gradients(frugal), gradients(plain), 1e-6)


def test_bfloat16_computes_near_the_masters_and_moves_all_32_bits(folders):
    exact, rounded = Learner(folders["qwen3"], SETTINGS), Learner(folders["qwen3"], Settings(DEVICE, torch.bfloat16))
    assert all(p.dtype == torch.float32 for p in rounded.trained.values())
    for (a, _), (b, _) in zip(rounded.forward(batch()), exact.forward(batch())):
        np.testing.assert_allclose(a, b, atol=0.15)
    rounded.forward_backward(batch(), PPO)
    assert rounded.step({**ADAMW, "learningRate": 1e-6})["applied"]
    moved = [(p - q).detach().abs().max() for p, q in zip(rounded.trained.values(), exact.trained.values())]
    assert all(0 < float(m) < 1e-5 for m in moved)


def test_the_state_file_has_the_native_engines_names(folders, tmp_path):
    learner = Learner(folders["qwen3"], SETTINGS)
    learner.checkpoint(str(tmp_path / "policy"))
    state = load_file(str(tmp_path / "policy.state.safetensors"))
    assert {"step", "version", "moved", "first.model.language_model.norm.weight"} <= set(state)
    config = json.loads((tmp_path / "policy" / "config.json").read_text())
    assert config["dtype"] == "float32"


@pytest.mark.parametrize("options", [dict(), dict(lora=LORA), dict(head="value"), dict(freeze="vision")], ids=["whole", "lora", "critic", "frozen tower"])
def test_offloaded_in_one_process_it_learns_the_same_and_its_files_are_the_same(folders, tmp_path, options):
    plain, offloaded = Learner(folders["qwen3"], SETTINGS, **options), Learner(folders["qwen3"], Settings(DEVICE, offload=True), **options)
    loss = {"name": "value"} if options.get("head") == "value" else PPO
    try:
        for learner in (plain, offloaded):
            learner.forward_backward(batch(), loss)
            learner.step(ADAMW)
        offloaded.checkpoint(str(tmp_path / "policy"))
        resumed = Learner(folders["qwen3"], SETTINGS, seed=3, **options)
        resumed.restore(str(tmp_path / "policy"))
        offloaded.restore(str(tmp_path / "policy"))
        close(weights(resumed), weights(plain), 1e-6)
        for learner in (plain, offloaded):
            learner.forward_backward(batch(3), loss)
            learner.step(ADAMW)
            learner.export(str(tmp_path / ("plain" if learner is plain else "offloaded")))
        name = "adapter_model.safetensors" if "lora" in options else "model.safetensors"
        close(load_file(str(tmp_path / "offloaded" / name)), load_file(str(tmp_path / "plain" / name)), 1e-6)
    finally:
        torch.distributed.destroy_process_group()
