import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402

# Tiny models: more threads would only wait for each other.
torch.set_num_threads(1)

from tiny import make_folder  # noqa: E402


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("models")
    kinds = {"qwen3": ("qwen3", True), "qwen3-untied": ("qwen3", False), "qwen25": ("qwen25", True), "qwen25-untied": ("qwen25", False)}
    return {name: make_folder(root / name, kind, tied, seed) for seed, (name, (kind, tied)) in enumerate(kinds.items())}
