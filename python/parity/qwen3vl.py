"""Random tiny Qwen3-VL models with what transformers says about them.

Usage: python3 qwen3vl.py OUT [--seed N]

For every case it writes OUT/<case>/: the model as save_pretrained writes it, `case.json` (ids of each sequence, image spans,
grids) and `expected.safetensors`: the patches of each image, the logits of each sequence and the gradient of a random-weighted
cross-entropy over all sequences with respect to every parameter.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

PATCH = 3 * 2 * 16 * 16
# text: hidden, intermediate, layers, heads, kv heads, head dim, rotary sections; vision: hidden, intermediate, depth, heads, deepstack, table side.
CASES = [
    dict(name="text-only", tied=True, text=(32, 48, 2, 2, 1, 16, (4, 2, 2)), vision=(16, 24, 1, 2, [0], 4), images=[[], []]),
    dict(name="one-image", tied=True, text=(32, 64, 3, 4, 2, 8, (2, 1, 1)), vision=(32, 48, 2, 2, [0], 4), images=[[(4, 6)]]),
    dict(name="untied", tied=False, text=(48, 40, 2, 3, 3, 16, (4, 2, 2)), vision=(24, 40, 3, 3, [0, 2], 6), images=[[(2, 2), (6, 4)], []]),
    dict(name="deep", tied=True, text=(40, 56, 5, 4, 1, 24, (4, 4, 4)), vision=(48, 64, 4, 4, [1, 2, 3], 8), images=[[(2, 8), (4, 4), (10, 2)]]),
    dict(name="no-deepstack", tied=False, text=(24, 96, 1, 2, 2, 32, (6, 5, 5)), vision=(16, 16, 2, 1, [], 3), images=[[(8, 8)], [(2, 4)]]),
    dict(name="six-images", tied=True, text=(64, 80, 4, 8, 4, 16, (3, 3, 2)), vision=(64, 32, 2, 8, [0, 1], 16),
         images=[[(2, 2), (4, 2), (2, 6), (6, 6), (4, 8), (2, 2)], [(12, 4)], []]),
]
VOCAB = 97
IDS = dict(image_token_id=90, video_token_id=91, vision_start_token_id=92, vision_end_token_id=93)


def build(case):
    hidden, intermediate, layers, heads, kv_heads, head_dim, section = case["text"]
    width, wide, depth, vision_heads, deepstack, side = case["vision"]
    config = Qwen3VLConfig(
        text_config=dict(
            vocab_size=VOCAB, hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers,
            num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim, max_position_embeddings=512,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=list(section), mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=depth, hidden_size=width, intermediate_size=wide, num_heads=vision_heads, out_hidden_size=hidden,
            num_position_embeddings=side * side, deepstack_visual_indexes=deepstack,
        ),
        tie_word_embeddings=case["tied"],
        **IDS,
    )
    model = Qwen3VLForConditionalGeneration(config).float().eval()
    with torch.no_grad():
        # Larger than at initialisation, and no parameter at a special value, so that every path matters.
        for name, parameter in model.named_parameters():
            scale = 0.1 if parameter.dim() > 1 else 0.2
            parameter.copy_(torch.randn_like(parameter) * scale + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
    return model


def sequence(grids, generator):
    """Random text around one placeholder run per image."""

    def words(low, high):
        count = int(torch.randint(low, high, (1,), generator=generator))
        return torch.randint(0, 90, (count,), generator=generator).tolist()

    ids, spans = words(2, 9), []
    for height, width in grids:
        ids.append(IDS["vision_start_token_id"])
        spans.append(len(ids))
        ids += [IDS["image_token_id"]] * (height * width // 4)
        ids += [IDS["vision_end_token_id"]] + words(1, 7)
    return ids, spans


def run(case, out, seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = build(case)
    folder = out / case["name"]
    model.save_pretrained(folder)
    expected, sequences, loss, image = {}, [], torch.zeros(()), 0
    for index, grids in enumerate(case["images"]):
        ids, spans = sequence(grids, generator)
        tensor = torch.tensor([ids])
        inputs = dict(input_ids=tensor)
        if grids:
            patches = [torch.randn(h * w, PATCH, generator=generator) * 0.5 for h, w in grids]
            for offset, values in enumerate(patches):
                expected[f"patches.{image + offset}"] = values
            inputs |= dict(
                pixel_values=torch.cat(patches),
                image_grid_thw=torch.tensor([[1, h, w] for h, w in grids]),
                mm_token_type_ids=(tensor == IDS["image_token_id"]).int(),
            )
        logits = model(**inputs).logits[0]
        weights = torch.randn(len(ids) - 1, generator=generator)
        targets = torch.randint(0, 90, (len(ids) - 1,), generator=generator)
        picked = torch.log_softmax(logits[:-1], -1).gather(1, targets[:, None])[:, 0]
        loss = loss - (weights * picked).sum()
        expected[f"logits.{index}"] = logits.detach().contiguous()
        sequences.append(dict(
            ids=ids, spans=[dict(start=start, image=image + offset) for offset, start in enumerate(spans)],
            targets=targets.tolist(), weights=weights.tolist(),
        ))
        image += len(grids)
    loss.backward()
    for name, parameter in model.named_parameters():
        expected[f"gradient.{name}"] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.contiguous()
    save_file(expected, folder / "expected.safetensors")
    grids = [dict(gridH=h, gridW=w) for row in case["images"] for h, w in row]
    (folder / "case.json").write_text(json.dumps(dict(sequences=sequences, grids=grids, loss=loss.item())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for number, case in enumerate(CASES):
        run(case, arguments.out, arguments.seed * 100 + number)
    print(json.dumps([case["name"] for case in CASES]))
