"""Random tiny models in Hugging Face folders, and sequences for them. No parameter is at a special value, so that every path matters."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from saccade_torch.frames import Frame, pixel_frame
from saccade_torch.learner import Datum
from saccade_torch.network import Span, Tokens

DEVICE = torch.device(os.environ.get("SACCADE_TEST_DEVICE", "cpu"))
"""Where learners and samplers are tested."""
VOCAB = 97
IMAGE = 90
IDS = dict(image_token_id=IMAGE, video_token_id=91, vision_start_token_id=92, vision_end_token_id=93)


def make_folder(folder: Path, kind: str = "qwen3", tied: bool = True, seed: int = 0) -> str:
    torch.manual_seed(seed)
    if kind == "qwen3":
        model = Qwen3VLForConditionalGeneration(qwen3(tied))
    else:
        model = Qwen2_5_VLForConditionalGeneration(qwen25(tied))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.15 if parameter.dim() > 1 else 0.2
            parameter.copy_(torch.randn_like(parameter) * scale + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
    model.float().save_pretrained(folder)
    patch = model.config.vision_config.patch_size
    processor = dict(patch_size=patch, temporal_patch_size=2, merge_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3, rescale_factor=1 / 255)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return str(folder)


def qwen3(tied: bool) -> Qwen3VLConfig:
    return Qwen3VLConfig(
        text_config=dict(
            vocab_size=VOCAB, hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, max_position_embeddings=512,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[3, 3, 2], mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=3, hidden_size=24, intermediate_size=36, num_heads=3, out_hidden_size=40, num_position_embeddings=25, patch_size=8,
            deepstack_visual_indexes=[0, 2],
        ),
        tie_word_embeddings=tied, **IDS,
    )  # fmt: skip


def qwen25(tied: bool) -> Qwen2_5_VLConfig:
    return Qwen2_5_VLConfig(
        text_config=dict(
            vocab_size=VOCAB, hidden_size=64, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=512, rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 3, 3]),
        ),
        vision_config=dict(
            depth=3, hidden_size=24, intermediate_size=36, num_heads=3, out_hidden_size=64, patch_size=8, window_size=32,
            fullatt_block_indexes=[1],
        ),
        tie_word_embeddings=tied, **IDS,
    )  # fmt: skip


def image(seed: int, tokens_h: int, tokens_w: int, side: int = 16) -> Frame:
    data = np.random.default_rng(seed).integers(0, 256, tokens_h * side * tokens_w * side * 3, dtype=np.uint8)
    return pixel_frame(f"image {seed}", tokens_h * side, tokens_w * side, torch.from_numpy(data).flatten())


IMAGES = [image(i, h, w) for i, (h, w) in enumerate([(1, 1), (2, 3), (3, 1), (4, 3), (2, 2)])]


def tokens(seed: int, images: int) -> Tokens:
    random = np.random.default_rng(seed)
    ids = list(random.integers(0, 90, random.integers(2, 9)))
    spans = []
    for _ in range(images):
        frame = IMAGES[random.integers(0, len(IMAGES))]
        height, width = frame.pixels.shape[:2]
        count = height * width // 256
        ids.append(92)
        spans.append(Span(len(ids), count, frame))
        ids += [IMAGE] * count + [93] + list(random.integers(0, 90, random.integers(1, 6)))
    return Tokens(np.array(ids, dtype=np.int32), tuple(spans))


def datum(seed: int, images: int, temperature: float = 1.0) -> Datum:
    """A sequence whose last words are to be predicted; old log-probabilities and the like are near what such a model says."""
    random = np.random.default_rng(seed + 1000)
    row = tokens(seed, images)
    length = len(row.ids)
    targets = np.full(length, -1, dtype=np.int32)
    targets[:-1] = np.where((row.ids[1:] < 90) & (random.random(length - 1) < 0.7), row.ids[1:], -1)
    weights = np.where(targets >= 0, random.normal(size=length) / 4, 0).astype(np.float32)
    weights[random.random(length) < 0.1] = 0
    near = lambda centre, spread: (centre + spread * random.normal(size=length)).astype(np.float32)  # noqa: E731
    arrays = dict(advantages=near(0, 1), oldLogprobs=near(-4.6, 0.8), referenceLogprobs=near(-4.6, 0.8), returns=near(0, 1), oldValues=near(0, 0.3))
    return Datum(row, targets, weights, temperature, arrays)
