"""Random numbers that equal the TypeScript side's: the same seed gives the same value head, adapter and draws."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def mix_seed(*parts: int | str) -> int:
    """A seed in 0..2^31-1, well mixed from its parts (`mixSeed` in src/core/seed.ts)."""
    text = json.dumps(list(parts), separators=(",", ":"), ensure_ascii=False)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def value_head(width: int, seed: int) -> np.ndarray:
    """Normal with deviation 1 / (width + 1): values begin near 0."""
    uniform = np.random.default_rng(mix_seed("value head", seed)).random(2 * width).reshape(width, 2)
    radius = np.sqrt(-2 * np.log(1 - uniform[:, 0]))
    return (radius * np.cos(2 * np.pi * uniform[:, 1]) / (width + 1)).astype(np.float32)


def lora_a(name: str, rank: int, width: int, seed: int) -> np.ndarray:
    """Uniform within 1/√width, a stream for each matrix: other targets do not change this one."""
    bound = 1 / np.sqrt(width)
    generator = np.random.default_rng(mix_seed("lora", seed, name))
    return generator.uniform(-bound, bound, rank * width).reshape(rank, width).astype(np.float32)
