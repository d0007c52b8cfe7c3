"""Random tiny models of other families in whole Hugging Face folders: weights, a tokenizer of bytes, a processor and a chat template of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from saccade_torch.frames import Frame, pixel_frame

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% for part in m.content %}"
    "{% if part.type == 'image' %}{{ 'MARK' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CHAT = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
TEXT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=1024)
TOWER = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, patch_size=4)


Made = tuple[Any, tuple[Any, Any, dict[str, Any], str]]
"""A model; its image processor, tokenizer, processor_config.json, and what the template writes for a picture."""


def tokenizer_of(special: list[str], **named: str) -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_.decoder = decoders.ByteLevel()
    bytes_.add_special_tokens([*CHAT, *special])
    # Attributes that processors ask for by name.
    return PreTrainedTokenizerFast(tokenizer_object=bytes_, pad_token="<|pad|>", eos_token="<|im_end|>", extra_special_tokens=named)


def llava_onevision() -> Made:
    from transformers import LlavaOnevisionConfig, LlavaOnevisionForConditionalGeneration, LlavaOnevisionProcessor
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil as Images

    tokenizer = tokenizer_of(["<image>", "<video>"], image_token="<image>", video_token="<video>")
    pins = [[16, 32], [32, 16], [32, 32]]
    config = LlavaOnevisionConfig(
        text_config=dict(model_type="qwen2", vocab_size=len(tokenizer), **TEXT),
        vision_config=dict(model_type="siglip_vision_model", image_size=16, vision_use_head=False, **TOWER),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"), video_token_id=tokenizer.convert_tokens_to_ids("<video>"), image_grid_pinpoints=pins,
    )  # fmt: skip
    images = Images(size=dict(height=16, width=16), image_grid_pinpoints=pins)
    about = dict(processor_class=LlavaOnevisionProcessor.__name__, num_image_tokens=16, vision_feature_select_strategy="full")
    return LlavaOnevisionForConditionalGeneration(config), (images, tokenizer, about, "<image>\\n")


def internvl() -> Made:
    from transformers import InternVLConfig, InternVLForConditionalGeneration, InternVLProcessor
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil as Images

    names = dict(start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>", video_token="<video>")
    tokenizer = tokenizer_of(list(names.values()), **names)
    config = InternVLConfig(
        text_config=dict(model_type="qwen2", vocab_size=len(tokenizer), **TEXT),
        vision_config=dict(model_type="internvl_vision", image_size=[16, 16], **(TOWER | dict(patch_size=[4, 4]))),
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
    )  # fmt: skip
    images = Images(size=dict(height=16, width=16), crop_to_patches=True, min_patches=1, max_patches=4)
    about = dict(processor_class=InternVLProcessor.__name__, image_seq_length=4)
    return InternVLForConditionalGeneration(config), (images, tokenizer, about, "<IMG_CONTEXT>\\n")


def smolvlm() -> Made:
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration, SmolVLMProcessor
    from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil as Images

    tiles = [f"<row_{r}_col_{c}>" for r in range(1, 4) for c in range(1, 4)]
    named = dict(image_token="<image>", fake_image_token="<fake_token_around_image>", global_image_token="<global-img>", end_of_utterance_token="<|im_end|>")
    tokenizer = tokenizer_of(["<image>", "<fake_token_around_image>", "<global-img>", *tiles], **named)
    config = SmolVLMConfig(
        text_config=dict(model_type="llama", vocab_size=len(tokenizer), **TEXT, pad_token_id=256),
        vision_config=dict(image_size=16, **TOWER), scale_factor=2, image_token_id=tokenizer.convert_tokens_to_ids("<image>"), pad_token_id=256,
        tie_word_embeddings=False,
    )  # fmt: skip
    images = Images(size=dict(longest_edge=32), max_image_size=dict(longest_edge=16), do_image_splitting=True)
    about = dict(processor_class=SmolVLMProcessor.__name__, image_seq_len=4)
    return SmolVLMForConditionalGeneration(config), (images, tokenizer, about, "<image>")


def gemma3() -> Made:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3Processor
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil as Images

    names = dict(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>")
    tokenizer = tokenizer_of(list(names.values()), **names)
    ids = {name: tokenizer.convert_tokens_to_ids(text) for name, text in names.items()}
    config = Gemma3Config(
        text_config=dict(vocab_size=len(tokenizer), **TEXT, sliding_window=7, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                         query_pre_attn_scalar=12, pad_token_id=256),
        vision_config=dict(image_size=16, vision_use_head=False, **TOWER), mm_tokens_per_image=4,
        image_token_id=ids["image_token"], boi_token_id=ids["boi_token"], eoi_token_id=ids["eoi_token"],
    )  # fmt: skip
    images = Images(size=dict(height=16, width=16), image_seq_length=4)
    about = dict(processor_class=Gemma3Processor.__name__, image_seq_length=4)
    return Gemma3ForConditionalGeneration(config), (images, tokenizer, about, "<start_of_image>")


def mistral3() -> Made:
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration, PixtralProcessor
    from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil as Images

    tokenizer = tokenizer_of(["[IMG]", "[IMG_BREAK]", "[IMG_END]"])
    config = Mistral3Config(
        text_config=dict(model_type="mistral", vocab_size=len(tokenizer), **TEXT, sliding_window=None),
        vision_config=dict(model_type="pixtral", image_size=32, head_dim=8, **TOWER), spatial_merge_size=2,
        image_token_id=tokenizer.convert_tokens_to_ids("[IMG]"),
    )  # fmt: skip
    images = Images(size=dict(longest_edge=32), patch_size=dict(height=8, width=8))
    about = dict(processor_class=PixtralProcessor.__name__, patch_size=4, spatial_merge_size=2)
    return Mistral3ForConditionalGeneration(config), (images, tokenizer, about, "[IMG]")


MAKERS: dict[str, Callable[[], Made]] = {
    "llava_onevision": llava_onevision,
    "internvl": internvl,
    "smolvlm": smolvlm,
    "gemma3": gemma3,
    "mistral3": mistral3,
}


def make_family(folder: Path, kind: str, seed: int = 0) -> str:
    torch.manual_seed(seed)
    model, (images, tokenizer, about, marker) = MAKERS[kind]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.15 if parameter.dim() > 1 else 0.1
            special = "norm" in name and name.endswith("weight") and kind != "gemma3"
            parameter.copy_(torch.randn_like(parameter) * scale + (1.0 if special else 0.0))
    model.float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
    (folder / "processor_config.json").write_text(json.dumps(about))
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace("MARK", marker))
    (folder / "generation_config.json").write_text(json.dumps(dict(eos_token_id=258)))
    return str(folder)


def picture(seed: int, height: int, width: int) -> Frame:
    data = np.random.default_rng(seed).integers(1, 256, height * width * 3, dtype=np.uint8)
    return pixel_frame(f"picture {seed}:{width}x{height}", height, width, torch.from_numpy(data))


PICTURES = [picture(i, h, w) for i, (h, w) in enumerate([(16, 16), (16, 32), (32, 16), (24, 24)])]
