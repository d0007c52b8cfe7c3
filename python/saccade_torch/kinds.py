"""Families that transformers has modules for, described: where the parts of a model are and what its attention needs. None is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Family:
    """Paths of modules.

    `sees`: tower, projector and what else belongs to sight. `two_way`: placeholders of one image see each other, in all layers or in those with a window.
    `grid`: rotary positions spread over time, height and width of an image. `recurrent`: the name of layers that carry a state from id to id, which begins
    anew at each sequence. `patches`: TypeScript renders it and sends pixels of whole patches, so its own processor is not asked."""

    name: str
    body: str = "model.language_model"
    sees: tuple[str, ...] = ("model.vision_tower", "model.multi_modal_projector")
    two_way: Literal["", "all", "windows"] = ""
    grid: bool = False
    recurrent: str = ""
    patches: bool = False


IDEFICS = dict(body="model.text_model", sees=("model.vision_model", "model.connector"))
QWEN = dict(sees=("model.visual",), grid=True)
FAMILIES = {
    "gemma3": Family("Gemma 3", two_way="all"),
    "gemma4": Family("Gemma 4", sees=("model.vision_tower", "model.embed_vision", "model.audio_tower", "model.embed_audio"), two_way="windows"),
    "glm4v": Family("GLM-4.1V", **QWEN),  # type: ignore[arg-type]
    "glm46v": Family("GLM-4.6V Flash", **QWEN),  # type: ignore[arg-type]
    "glm4v_moe": Family("GLM-4.5V, GLM-4.6V", **QWEN),  # type: ignore[arg-type]
    "idefics3": Family("Idefics3", **IDEFICS),  # type: ignore[arg-type]
    "internvl": Family("InternVL"),
    "llava": Family("LLaVA, Pixtral"),
    "llava_onevision": Family("LLaVA-OneVision", sees=("model.vision_tower", "model.multi_modal_projector", "model.image_newline")),
    "mistral3": Family("Mistral 3"),
    "qwen2_vl": Family("Qwen2-VL", patches=True, **QWEN),  # type: ignore[arg-type]
    "qwen2_5_vl": Family("Qwen2.5-VL", patches=True, **QWEN),  # type: ignore[arg-type]
    "qwen3_vl": Family("Qwen3-VL", patches=True, **QWEN),  # type: ignore[arg-type]
    "qwen3_vl_moe": Family("Qwen3-VL-MoE", patches=True, **QWEN),  # type: ignore[arg-type]
    "qwen3_5": Family("Qwen3.5", recurrent="linear_attn", **QWEN),  # type: ignore[arg-type]
    "qwen3_5_moe": Family("Qwen3.5-MoE", recurrent="linear_attn", **QWEN),  # type: ignore[arg-type]
    "smolvlm": Family("SmolVLM", **IDEFICS),  # type: ignore[arg-type]
}
"""By `model_type`. docs/guide/pytorch.md has the same table, with what was tested."""
