"""Models on disk. A model is a Hugging Face folder (under LoRA, a PEFT adapter folder) with nothing of ours in it: vLLM takes every
`*.safetensors` there for weights. What only we need lies beside the folder `policy`: a critic's value head in `policy.value_head.safetensors`, the
learner's state in `policy.state.safetensors`. A folder is written beside its place and moved there when it is complete.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from .errors import ConfigError, DataError

VALUE_FILE = "value_head.safetensors"
STATE_FILE = "state.safetensors"
COMPANIONS = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)


def beside(folder: Path, name: str) -> Path:
    """`…/policy` and `state.safetensors` make `…/policy.state.safetensors`."""
    return folder.parent / f"{folder.name}.{name}"


def write_whole(folder: Path, write: Callable[[Path, Callable[[str], Path]], None]) -> None:
    """Runs `write` in folders of its own, then puts what it wrote in place; what lies beside the model last."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    companions: list[str] = []

    def next_to(name: str) -> Path:
        companions.append(name)
        return draft / name

    try:
        model = draft / "model"
        model.mkdir()
        write(model, next_to)
        # State that belongs to older weights must not be found beside new ones.
        for name in (VALUE_FILE, STATE_FILE):
            beside(folder, name).unlink(missing_ok=True)
        if folder.exists():
            for file in model.iterdir():
                file.replace(folder / file.name)
        else:
            model.rename(folder)
        for name in companions:
            (draft / name).replace(beside(folder, name))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_tensors(file: Path, tensors: dict[str, Tensor]) -> None:
    save_file({name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}, str(file), {"format": "pt"})


def write_model(to: Path, source: Path, tensors: dict[str, Tensor]) -> None:
    """32-bit weights with the other files of the folder they came from; `config.json` comes last."""
    for name in COMPANIONS:
        if (source / name).exists():
            shutil.copyfile(source / name, to / name)
    write_tensors(to / "model.safetensors", tensors)
    config = json.loads((source / "config.json").read_text())
    (to / "config.json").write_text(json.dumps(_as_float32(config), indent=2) + "\n")


def _as_float32(value: Any) -> Any:
    """transformers believes the configuration's dtype."""
    if not isinstance(value, dict):
        return value
    return {key: "float32" if key in ("dtype", "torch_dtype") else _as_float32(inner) for key, inner in value.items()}


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, of one file or of the shards that an index names."""
    index = folder / "model.safetensors.index.json"
    single = folder / "model.safetensors"
    if single.exists():
        return load_file(str(single))
    if not index.exists():
        raise DataError(f"{folder} has no model.safetensors. Name a complete model folder.")
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        tensors |= load_file(str(folder / shard))
    return tensors


def read_value_head(folder: Path) -> Tensor | None:
    file = beside(folder, VALUE_FILE)
    return load_file(str(file))["score.weight"] if file.exists() else None


def base_of(adapter: Path, base: str | None) -> str:
    if base and Path(base).exists():
        return base
    raise ConfigError(f"{adapter}/adapter_config.json: its base model {base!r} is not a folder here. Set base_model_name_or_path.")


def scalar(value: float) -> Tensor:
    return torch.tensor([float(value)], dtype=torch.float32)
