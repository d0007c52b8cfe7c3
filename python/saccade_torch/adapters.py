"""Adapters in PEFT's format: `base_model.model.<module>.lora_A.weight` [rank, in] and `…lora_B.weight` [out, rank], with adapter_config.json. The
language head and the patch embedding are not adapted (PEFT's "all-linear" leaves them out too). A critic's value head is trained whole and saved
beside the adapter, as PEFT does with `modules_to_save`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from .errors import ConfigError, DataError
from .modules import LoraLinear
from .network import Freeze, Network
from .quantized import QuantizedLinear
from .seeds import lora_a

ADAPTER_PREFIX = "base_model.model."
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


@dataclass(frozen=True)
class LoraSpec:
    rank: int
    alpha: float
    targets: tuple[str, ...] | None = None
    """Which linear layers, by their name or its last parts, as PEFT does; none: all."""
    scaling: float | None = None
    """alpha / rank unless an adapter says otherwise."""

    @staticmethod
    def read(given: dict[str, Any]) -> LoraSpec:
        targets = given.get("targets")
        return LoraSpec(given["rank"], given["alpha"], None if targets is None else tuple(targets))


def linear_modules(network: Network) -> dict[str, nn.Linear | QuantizedLinear]:
    """Modules that can be adapted, under their Hugging Face names."""
    return {
        name: module
        for name, module in network.model.named_modules()
        if isinstance(module, (nn.Linear, QuantizedLinear)) and not name.startswith("lm_head") and "embed" not in name
    }


def add_adapter(network: Network, spec: LoraSpec, freeze: Freeze | None, seed: int) -> None:
    """Freezes the base and puts matrices beside its layers: A uniform within 1/√in, B zero, so that nothing changes yet."""
    if spec.rank < 1:
        raise ConfigError(f"LoRA rank must be a whole number ≥ 1, got {spec.rank}.")
    modules = linear_modules(network)
    for target in spec.targets or ():
        if not any(matches(target, name) for name in modules):
            known = sorted({last_part(name) for name in modules})
            raise ConfigError(f'LoRA target "{target}" names no linear layer. The names are {", ".join(known)}.')
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    if network.score is not None:
        network.score.requires_grad_(True)
    chosen = 0
    for name, module in modules.items():
        sees = network.sees(name)
        held = sees if freeze == "vision" else not sees if freeze == "language" else False
        if held or (spec.targets is not None and not any(matches(target, name) for target in spec.targets)):
            continue
        adapted = LoraLinear(module, spec.rank, spec.scaling or spec.alpha / spec.rank)
        first = lora_a(f"{ADAPTER_PREFIX}{name}.lora_A.weight", spec.rank, module.in_features, seed)
        with torch.no_grad():
            adapted.lora_A.weight.copy_(torch.from_numpy(first))
            adapted.lora_B.weight.zero_()
        parent, _, last = name.rpartition(".")
        owner = network.model.get_submodule(parent)
        if isinstance(owner, nn.Sequential):
            owner[int(last)] = adapted
        else:
            setattr(owner, last, adapted)
        chosen += 1
    if chosen == 0:
        raise ConfigError("No LoRA target is left: they are all in the frozen part of the model.")


def config_json(spec: LoraSpec, names: list[str], base: str) -> dict[str, Any]:
    modules = {last_part(name.removesuffix(".lora_A.weight")) for name in names if name.endswith(".lora_A.weight")}
    return {
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": spec.alpha,
        "lora_dropout": 0,
        "modules_to_save": ["score"] if f"{ADAPTER_PREFIX}score.weight" in names else None,
        "peft_type": "LORA",
        "r": spec.rank,
        # "proj" alone would also be the patch embedding, which is a convolution.
        "target_modules": sorted("attn.proj" if module == "proj" else module for module in modules),
        "task_type": None,
        "use_dora": False,
        "use_rslora": False,
    }


def read_adapter(folder: Path) -> tuple[LoraSpec, str | None, dict[str, Tensor]]:
    """An adapter that we or PEFT wrote: what it is, its base, its tensors."""
    file = folder / CONFIG
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as problem:
        raise DataError(f"Can't read the adapter {file}: {problem}. Name a folder that PEFT or Saccade wrote.") from None
    if found.get("peft_type") != "LORA":
        raise DataError(f"{file} is not a LoRA adapter of PEFT.")
    if found.get("use_dora") or (found.get("bias") or "none") != "none" or found.get("rank_pattern") or found.get("alpha_pattern"):
        raise DataError(f"{file}: DoRA, biases and ranks that differ by layer are not supported. Train a plain LoRA.")
    tensors = load_file(str(folder / WEIGHTS))
    suffix = ".lora_A.weight"
    # Whole names: a tower that was frozen may name its layers as the language part does.
    targets = {name.removesuffix(suffix).removeprefix(ADAPTER_PREFIX) for name in tensors if name.endswith(suffix)}
    rank, alpha = found["r"], found["lora_alpha"]
    scaling = alpha / rank**0.5 if found.get("use_rslora") else alpha / rank
    return LoraSpec(rank, alpha, tuple(sorted(targets)), scaling), found.get("base_model_name_or_path"), tensors


def matches(target: str, module: str) -> bool:
    return module == target or module.endswith(f".{target}")


def last_part(name: str) -> str:
    return name.rpartition(".")[2]
