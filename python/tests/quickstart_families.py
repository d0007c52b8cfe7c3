"""Models of other families in the quickstart's shape, with its tokenizer: random weights that can learn. `python quickstart_families.py FOLDER-OF-THE-QUICKSTART KIND OUT`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerFast

TEXT: dict[str, Any] = dict(hidden_size=96, intermediate_size=256, num_hidden_layers=4, num_attention_heads=3, num_key_value_heads=1, head_dim=32,
                            max_position_embeddings=8192, tie_word_embeddings=True)  # fmt: skip
TOWER: dict[str, Any] = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, patch_size=16)
SIDE = 64
"""Of the quickstart's frames, in pixels."""
QWEN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl_moe")
MARKS = {"gemma3": "<start_of_image>", "internvl": "<IMG_CONTEXT>", "glm4v": "<|begin_of_image|><|image|><|end_of_image|>", "qwen3_5": "<|vision_start|><|image_pad|><|vision_end|>"}
GLM_TEMPLATE = (
    "[gMASK]<sop>{% for m in messages %}{{ '<|' + {'tool': 'observation'}.get(m.role, m.role) + '|>\\n' }}{% for part in m.content %}"
    "{% if part.type == 'image' %}{{ 'MARK' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)


def make_qwen(quickstart: Path, kind: str, out: Path) -> None:
    """Families that TypeScript renders: the quickstart's chat side as it is. Heads are 32 wide, as vLLM wants them."""
    import transformers

    ids = {name: id for name, id in json.loads((quickstart / "config.json").read_text()).items() if name.endswith("token_id")}
    text = TEXT | dict(vocab_size=len(PreTrainedTokenizerFast(tokenizer_file=str(quickstart / "tokenizer.json"))))
    tower = dict(depth=2, hidden_size=64, intermediate_size=128, num_heads=2, out_hidden_size=96, patch_size=16)
    chunked = dict(rope_type="default", rope_theta=1e4, mrope_section=[6, 5, 5])
    config: Any
    if kind == "qwen2_5_vl":
        config = transformers.Qwen2_5_VLConfig(
            text_config=text | dict(rope_parameters=chunked), vision_config=tower | dict(window_size=64, fullatt_block_indexes=[1]), tie_word_embeddings=True, **ids
        )
    elif kind == "qwen2_vl":
        tower = dict(depth=2, embed_dim=64, num_heads=2, mlp_ratio=2, hidden_size=96, patch_size=16)
        config = transformers.Qwen2VLConfig(text_config=text | dict(rope_parameters=chunked), vision_config=tower, tie_word_embeddings=True, **ids)
    else:
        experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, decoder_sparse_step=1)
        config = transformers.Qwen3VLMoeConfig(
            text_config=text | experts | dict(rope_parameters=chunked | dict(mrope_interleaved=True)),
            vision_config=tower | dict(num_position_embeddings=256, deepstack_visual_indexes=[0]), tie_word_embeddings=True, **ids,
        )  # fmt: skip
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        # As they are drawn, all ids are alike; much larger, an id is certain to follow itself. Between, two programs that differ are seen to differ.
        model.get_output_embeddings().weight.mul_(4)
    shutil.copytree(quickstart, out, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    model.save_pretrained(out)
    (out / "generation_config.json").write_bytes((quickstart / "generation_config.json").read_bytes())
    print(f"{out}: {sum(p.numel() for p in model.parameters())} parameters")


def make(quickstart: Path, kind: str, out: Path) -> None:
    import transformers

    torch.manual_seed(0)
    if kind in QWEN:
        return make_qwen(quickstart, kind, out)
    added: dict[str, list[str]] = {
        "gemma3": ["<start_of_image>", "<end_of_image>", "<image_soft_token>"],
        "internvl": ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"],
        "glm4v": ["[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>", "<|image|>", "<|video|>", "<|begin_of_image|>", "<|end_of_image|>",
                  "<|begin_of_video|>", "<|end_of_video|>"],
        "qwen3_5": [],
    }  # fmt: skip
    named = {
        "gemma3": dict(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>"),
        "internvl": dict(start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>", video_token="<video>"),
    }.get(kind, {})
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(quickstart / "tokenizer.json"), pad_token="<|endoftext|>", eos_token="<|user|>" if kind == "glm4v" else "<|im_end|>",
        extra_special_tokens=named or added[kind],
    )  # fmt: skip
    id = tokenizer.convert_tokens_to_ids
    text = dict(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, **TEXT)
    if kind == "gemma3":
        from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil as Images

        config: Any = transformers.Gemma3Config(
            text_config=text | dict(sliding_window=256, layer_types=["sliding_attention", "full_attention"] * 2, query_pre_attn_scalar=32),
            vision_config=dict(image_size=SIDE, vision_use_head=False, num_hidden_layers=1, **TOWER), mm_tokens_per_image=4, image_token_id=id("<image_soft_token>"),
            boi_token_id=id("<start_of_image>"), eoi_token_id=id("<end_of_image>"),
        )  # fmt: skip
        images: Any = Images(size=dict(height=SIDE, width=SIDE), image_seq_length=4)
        about: dict[str, Any] = dict(processor_class="Gemma3Processor", image_seq_length=4)
    elif kind == "internvl":
        from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil as Images

        config = transformers.InternVLConfig(
            text_config=dict(model_type="qwen2", **text), image_token_id=id("<IMG_CONTEXT>"),
            vision_config=dict(model_type="internvl_vision", image_size=[SIDE, SIDE], num_hidden_layers=1, **(TOWER | dict(patch_size=[16, 16]))),
        )  # fmt: skip
        images = Images(size=dict(height=SIDE, width=SIDE), crop_to_patches=False)
        about = dict(processor_class="InternVLProcessor", image_seq_length=4)
    else:
        tower = dict(depth=1, hidden_size=64, out_hidden_size=96, intermediate_size=128, num_heads=4, patch_size=16)
        rope = dict(rope_type="default", rope_theta=1e4, mrope_section=[6, 5, 5] if kind == "qwen3_5" else [4, 2, 2], partial_rotary_factor=1.0 if kind == "qwen3_5" else 0.5)
        if kind == "glm4v":
            from transformers.models.glm4v.image_processing_pil_glm4v import Glm4vImageProcessorPil as Images

            ids = dict(image_token_id=id("<|image|>"), image_start_token_id=id("<|begin_of_image|>"), image_end_token_id=id("<|end_of_image|>"),
                       video_token_id=id("<|video|>"), video_start_token_id=id("<|begin_of_video|>"), video_end_token_id=id("<|end_of_video|>"))  # fmt: skip
            config = transformers.Glm4vConfig(text_config=text | dict(rope_parameters=rope), vision_config=tower | dict(image_size=SIDE), **ids)
            about = dict(processor_class="Glm4vProcessor")
        else:
            from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as Images

            ids = dict(image_token_id=id("<|image_pad|>"), video_token_id=id("<|video_pad|>"), vision_start_token_id=id("<|vision_start|>"), vision_end_token_id=id("<|vision_end|>"))
            linear = dict(layer_types=["linear_attention", "full_attention"] * 2, linear_key_head_dim=32, linear_value_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4)
            config = transformers.Qwen3_5Config(text_config=text | linear | dict(rope_parameters=rope), vision_config=tower | dict(num_position_embeddings=16), **ids)
            about = dict(processor_class="Qwen3VLProcessor")
        images = Images(patch_size=16, size=dict(shortest_edge=1024, longest_edge=2**20))
    config.tie_word_embeddings = True
    model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    images.save_pretrained(out)
    (out / "processor_config.json").write_text(json.dumps(about))
    template = (quickstart / "chat_template.jinja").read_text().replace("<|vision_start|><|image_pad|><|vision_end|>", "MARK")
    (out / "chat_template.jinja").write_text((GLM_TEMPLATE if kind == "glm4v" else template).replace("MARK", MARKS[kind]))
    (out / "generation_config.json").write_text(json.dumps(dict(eos_token_id=tokenizer.eos_token_id)))
    print(f"{out}: {sum(p.numel() for p in model.parameters())} parameters")


if __name__ == "__main__":
    quickstart, kind, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)
    make(Path(quickstart), kind, Path(out))
