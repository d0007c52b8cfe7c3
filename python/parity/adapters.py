"""What PEFT makes of an adapter, on the sequences of one case of qwen3vl.py.

Usage: python3 adapters.py CASE ADAPTER OUT

Loads the model in CASE with the adapter in ADAPTER and writes its logits to OUT/ours.safetensors; then makes an adapter of PEFT's own
with random numbers, saves it to OUT/adapter and its logits to OUT/theirs.safetensors.
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import Qwen3VLForConditionalGeneration


def logits(model, case):
    saved = load_file(case / "expected.safetensors")
    description = json.loads((case / "case.json").read_text())
    out = {}
    for index, sequence in enumerate(description["sequences"]):
        ids = torch.tensor([sequence["ids"]])
        inputs = dict(input_ids=ids)
        images = [span["image"] for span in sequence["spans"]]
        if images:
            grids = [description["grids"][image] for image in images]
            inputs |= dict(
                pixel_values=torch.cat([saved[f"patches.{image}"] for image in images]),
                image_grid_thw=torch.tensor([[1, grid["gridH"], grid["gridW"]] for grid in grids]),
                mm_token_type_ids=(ids == model.config.image_token_id).int(),
            )
        with torch.no_grad():
            out[f"logits.{index}"] = model(**inputs).logits[0].contiguous()
    return out


if __name__ == "__main__":
    case, adapter, out = map(Path, sys.argv[1:])
    torch.manual_seed(0)
    base = Qwen3VLForConditionalGeneration.from_pretrained(case, dtype=torch.float32).eval()
    ours = PeftModel.from_pretrained(base, adapter).eval()
    save_file(logits(ours, case), out / "ours.safetensors")

    base = Qwen3VLForConditionalGeneration.from_pretrained(case, dtype=torch.float32).eval()
    theirs = get_peft_model(base, LoraConfig(r=5, lora_alpha=7, target_modules="all-linear")).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    theirs.save_pretrained(out / "adapter")
    save_file(logits(theirs, case), out / "theirs.safetensors")
