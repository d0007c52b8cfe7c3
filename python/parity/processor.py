"""What Hugging Face makes of a model folder, for comparison with ours (src/model/parity.test.ts).

Reads one JSON object from stdin and prints one to stdout.
  folder       a model folder written by `createFolder`
  chats        [[message, ...], ...]: ids, pixels and grids of Qwen3VLProcessor with the PIL image backend;
               a message is {role, content}, an image part {type: "image", width, height, data: base64 RGB}
  texts        [text, ...]: ids of AutoTokenizer, and those ids decoded again
  save         a folder to write the model and its processor to, as transformers saves them
"""

import base64
import json
import sys

import numpy as np
import torch
from PIL import Image
from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor


class NoVideo(Qwen3VLProcessor):
    """The video processor needs torchvision, which images do not."""

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None, **kwargs):
        super().__init__(image_processor, tokenizer, None, chat_template=chat_template, **kwargs)

    def check_argument_for_proper_class(self, argument_name, argument):
        if argument is not None:
            super().check_argument_for_proper_class(argument_name, argument)


def to_pil(part):
    raw = base64.b64decode(part["data"])
    return Image.frombytes("RGB", (part["width"], part["height"]), raw)


def chat(processor, messages):
    images = [to_pil(p) for m in messages if isinstance(m["content"], list) for p in m["content"] if p["type"] == "image"]
    plain = [
        {**m, "content": m["content"] if isinstance(m["content"], str)
         else [{"type": "image"} if p["type"] == "image" else p for p in m["content"]]}
        for m in messages
    ]
    text = processor.apply_chat_template(plain, add_generation_prompt=True, tokenize=False)
    out = processor(text=[text], images=images or None)
    pixels = out.get("pixel_values")
    return {
        "ids": [int(i) for i in out["input_ids"][0]],
        "grids": [[int(x) for x in g[1:]] for g in out.get("image_grid_thw", [])],
        "pixels": "" if pixels is None else base64.b64encode(np.asarray(pixels, dtype="<f4").tobytes()).decode(),
    }


def main():
    asked = json.load(sys.stdin)
    folder = asked["folder"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    images = Qwen2VLImageProcessorPil.from_pretrained(folder)
    with open(f"{folder}/chat_template.jinja") as file:
        processor = NoVideo(images, tokenizer, chat_template=file.read())
    model, report = Qwen3VLForConditionalGeneration.from_pretrained(folder, output_loading_info=True)
    if "save" in asked:
        model.to(torch.bfloat16).save_pretrained(asked["save"], max_shard_size="500KB")
        tokenizer.save_pretrained(asked["save"])
        processor.save_pretrained(asked["save"])
    texts = []
    for text in asked["texts"]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        texts.append({"ids": ids, "decoded": tokenizer.decode(ids)})
    json.dump(
        {
            "tokenizer": type(tokenizer).__name__,
            "parameters": {name: list(p.shape) for name, p in model.named_parameters()},
            "problems": sorted(str(name) for key in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in report[key]),
            "chats": [chat(processor, messages) for messages in asked["chats"]],
            "texts": texts,
        },
        sys.stdout,
    )


main()
