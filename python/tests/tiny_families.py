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
"""A model; its image processor, tokenizer, processor_config.json, and what the template writes for an image."""


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


def pixtral() -> Made:
    """Pixtral is LLaVA with another tower."""
    from transformers import LlavaConfig, LlavaForConditionalGeneration, PixtralProcessor
    from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil as Images

    tokenizer = tokenizer_of(["[IMG]", "[IMG_BREAK]", "[IMG_END]"])
    config = LlavaConfig(
        text_config=dict(model_type="mistral", vocab_size=len(tokenizer), **TEXT, sliding_window=None),
        vision_config=dict(model_type="pixtral", image_size=32, head_dim=8, **TOWER), vision_feature_select_strategy="full", vision_feature_layer=-1,
        image_token_id=tokenizer.convert_tokens_to_ids("[IMG]"),
    )  # fmt: skip
    images = Images(size=dict(longest_edge=32), patch_size=dict(height=4, width=4))
    return LlavaForConditionalGeneration(config), (images, tokenizer, dict(processor_class=PixtralProcessor.__name__, patch_size=4), "[IMG]")


def llava() -> Made:
    from transformers import LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil as Images

    tokenizer = tokenizer_of(["<image>"], image_token="<image>")
    config = LlavaConfig(
        text_config=dict(model_type="llama", vocab_size=len(tokenizer), **TEXT), image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_config=dict(model_type="clip_vision_model", image_size=16, projection_dim=16, **TOWER),
    )  # fmt: skip
    images = Images(size=dict(shortest_edge=16), crop_size=dict(height=16, width=16))
    about = dict(processor_class=LlavaProcessor.__name__, patch_size=4, vision_feature_select_strategy="default", num_additional_image_tokens=1)
    return LlavaForConditionalGeneration(config), (images, tokenizer, about, "<image>")


def gemma4() -> Made:
    from transformers import Gemma4Config, Gemma4ForConditionalGeneration, Gemma4Processor
    from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil as Images

    names = dict(boi_token="<|image>", eoi_token="<image|>", image_token="<|image|>", boa_token="<|audio>", eoa_token="<audio|>", audio_token="<|audio|>")
    tokenizer = tokenizer_of([*names.values(), "<|video|>"], **names)
    ids = {name.removesuffix("_token") + "_token_id": tokenizer.convert_tokens_to_ids(text) for name, text in names.items()}
    layers = ["sliding_attention", "full_attention"] * 3
    config = Gemma4Config(
        # Wide heads in full attention, keys and values shared by the last layers, embeddings beside the stream, experts, capped logits: all that the family has.
        text_config=dict(vocab_size=len(tokenizer), **(TEXT | dict(num_hidden_layers=6)), sliding_window=7, layer_types=layers, pad_token_id=256,
                         global_head_dim=16, num_kv_shared_layers=2, vocab_size_per_layer_input=len(tokenizer), hidden_size_per_layer_input=4,
                         enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=16, use_bidirectional_attention="vision",
                         final_logit_softcapping=3.0),
        vision_config=dict(**(TOWER | dict(patch_size=4)), num_key_value_heads=2, head_dim=8, pooling_kernel_size=2, position_embedding_size=64, standardize=True),
        audio_config=None, vision_soft_tokens_per_image=70, video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"), **ids,
    )  # fmt: skip
    images = Images(patch_size=4, pooling_kernel_size=2, max_soft_tokens=70)
    about = dict(processor_class=Gemma4Processor.__name__, image_seq_length=70)
    return Gemma4ForConditionalGeneration(config), (images, tokenizer, about, "<|image|>")


def glm(kind: str) -> Callable[[], Made]:
    def make() -> Made:
        import transformers
        from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil as Images

        roles = ["[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>"]
        tokenizer = tokenizer_of([*roles, "<|image|>", "<|video|>", "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>"])
        id = tokenizer.convert_tokens_to_ids
        named = dict(image_token_id=id("<|image|>"), image_start_token_id=id("<|begin_of_image|>"), image_end_token_id=id("<|end_of_image|>"),
                     video_token_id=id("<|video|>"), video_start_token_id=id("<|begin_of_video|>"), video_end_token_id=id("<|end_of_video|>"))  # fmt: skip
        name = {"glm4v": "Glm4v", "glm46v": "Glm46V", "glm4v_moe": "Glm4vMoe"}[kind]
        experts = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1) if "moe" in kind else {}
        tower = dict(depth=2, hidden_size=16, out_hidden_size=32, intermediate_size=24, num_heads=2, patch_size=4, image_size=16)
        config = getattr(transformers, f"{name}Config")(
            text_config=dict(vocab_size=len(tokenizer), **(TEXT | dict(head_dim=16)), pad_token_id=256, **experts,
                             rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[2, 1, 1])),
            vision_config=tower, **named,
        )  # fmt: skip
        images = Images(patch_size=4, size=dict(shortest_edge=64, longest_edge=4096))
        processor = "Glm46VProcessor" if kind == "glm46v" else "Glm4vProcessor"
        model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
        return model, (images, tokenizer, dict(processor_class=processor), "<|begin_of_image|><|image|><|end_of_image|>")

    return make


QWEN_IDS = dict(image_token_id="<|image_pad|>", video_token_id="<|video_pad|>", vision_start_token_id="<|vision_start|>", vision_end_token_id="<|vision_end|>")


def qwen(kind: str) -> Callable[[], Made]:
    def make() -> Made:
        import transformers
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as Images

        tokenizer = tokenizer_of(list(QWEN_IDS.values()))
        ids = {name: tokenizer.convert_tokens_to_ids(text) for name, text in QWEN_IDS.items()}
        name = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL", "qwen3_vl_moe": "Qwen3VLMoe", "qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe"}[kind]
        old = kind.startswith("qwen2")
        text = TEXT | (dict(head_dim=None) if old else {})
        rope = dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 1, 1])
        if "moe" in kind:
            text |= dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16, decoder_sparse_step=1, mlp_only_layers=[])
        if "3_5" in kind:
            text |= dict(layer_types=["linear_attention", "full_attention", "linear_attention"], linear_key_head_dim=8, linear_value_head_dim=8,
                         linear_num_key_heads=2, linear_num_value_heads=4, head_dim=16)  # fmt: skip
            rope |= dict(partial_rotary_factor=0.5)
        tower = dict(depth=3, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32)
        if kind.startswith("qwen3"):
            tower |= dict(num_position_embeddings=25) | ({} if "3_5" in kind else dict(deepstack_visual_indexes=[0, 1]))
        elif kind == "qwen2_vl":
            tower = dict(depth=3, embed_dim=16, hidden_size=32, num_heads=2, mlp_ratio=2, patch_size=4)
        else:
            tower |= dict(window_size=16, fullatt_block_indexes=[1])
        text = {name: value for name, value in text.items() if value is not None}
        config = getattr(transformers, f"{name}Config")(text_config=dict(vocab_size=len(tokenizer), **text, rope_parameters=rope), vision_config=tower, **ids)
        images = Images(patch_size=4, size=dict(shortest_edge=64, longest_edge=4096), image_mean=[0.5] * 3, image_std=[0.5] * 3)
        processor = {"qwen2_vl": "Qwen2VLProcessor", "qwen2_5_vl": "Qwen2_5_VLProcessor"}.get(kind, "Qwen3VLProcessor")
        model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
        return model, (images, tokenizer, dict(processor_class=processor), "<|vision_start|><|image_pad|><|vision_end|>")

    return make


def aya_vision() -> Made:
    """A family that nobody described."""
    from transformers import AyaVisionConfig, AyaVisionForConditionalGeneration, AyaVisionProcessor
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil as Images

    named = dict(image_token="<image>", image_break_token="<|IMG_LINE_BREAK|>", start_of_img_token="<|START_OF_IMG|>", end_of_img_token="<|END_OF_IMG|>",
                 img_patch_token="<|IMG_PATCH|>", img_line_break_token="<|IMG_LINE_BREAK|>", tile_token="TILE", tile_global_token="TILE_GLOBAL")  # fmt: skip
    tokenizer = tokenizer_of([*dict.fromkeys(named.values())])
    config = AyaVisionConfig(
        text_config=dict(model_type="cohere2", vocab_size=len(tokenizer), **(TEXT | dict(num_hidden_layers=4)), sliding_window=16, pad_token_id=256,
                         logit_scale=0.5),
        vision_config=dict(model_type="siglip_vision_model", image_size=16, vision_use_head=False, **TOWER), downsample_factor=2, adapter_layer_norm_eps=1e-6,
        image_token_id=tokenizer.convert_tokens_to_ids("<|IMG_PATCH|>"), vision_feature_layer=-1, alignment_intermediate_size=24,
    )  # fmt: skip
    images = Images(size=dict(height=16, width=16), crop_to_patches=True, min_patches=1, max_patches=4)
    about = dict(processor_class=AyaVisionProcessor.__name__, patch_size=8, img_size=16, downsample_factor=1, image_token="<image>")
    return AyaVisionForConditionalGeneration(config), (images, tokenizer, about, "<image>")


MAKERS: dict[str, Callable[[], Made]] = {
    "llava_onevision": llava_onevision,
    "internvl": internvl,
    "smolvlm": smolvlm,
    "gemma3": gemma3,
    "mistral3": mistral3,
    "pixtral": pixtral,
    "llava": llava,
    "gemma4": gemma4,
    "glm4v": glm("glm4v"),
    "glm46v": glm("glm46v"),
    "glm4v_moe": glm("glm4v_moe"),
    "qwen2_vl": qwen("qwen2_vl"),
    "qwen2_5_vl": qwen("qwen2_5_vl"),
    "qwen3_vl": qwen("qwen3_vl"),
    "qwen3_vl_moe": qwen("qwen3_vl_moe"),
    "qwen3_5": qwen("qwen3_5"),
    "qwen3_5_moe": qwen("qwen3_5_moe"),
}
UNDESCRIBED: dict[str, Callable[[], Made]] = {"aya_vision": aya_vision}


def make_family(folder: Path, kind: str, seed: int = 0) -> str:
    torch.manual_seed(seed)
    model, (images, tokenizer, about, marker) = (MAKERS | UNDESCRIBED)[kind]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 0.15 if parameter.dim() > 1 else 0.1
            special = "norm" in name and name.endswith("weight") and kind != "gemma3"
            parameter.copy_(torch.randn_like(parameter) * scale + (1.0 if special else 0.0))
        for name, buffer in model.named_buffers():
            if name in model.state_dict():
                buffer.copy_(1 + 0.2 * torch.rand_like(buffer))
    model.float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    images.save_pretrained(folder)
    (folder / "processor_config.json").write_text(json.dumps(about))
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace("MARK", marker))
    (folder / "generation_config.json").write_text(json.dumps(dict(eos_token_id=258)))
    return str(folder)


def image(seed: int, height: int, width: int) -> Frame:
    data = np.random.default_rng(seed).integers(1, 256, height * width * 3, dtype=np.uint8)
    return pixel_frame(f"image {seed}:{width}x{height}", height, width, torch.from_numpy(data))


IMAGES = [image(i, h, w) for i, (h, w) in enumerate([(16, 16), (16, 32), (32, 16), (24, 24)])]
