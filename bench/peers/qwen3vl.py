"""transformers' Qwen3-VL on the CPU with SDPA, for bench/engine.bench.ts: the same weights, ids and patches as ours.

Sequences of a batch have one length, so that no mask is needed and SDPA takes its fastest path. Patches come preprocessed; fused AdamW;
only tokens of `targets` (aligned to ids, -1 for none) carry loss.
"""

import time

import numpy as np
import torch
from lines import serve
from transformers import Qwen3VLForConditionalGeneration, __version__

state = {}


def load(folder):
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
    # Nothing ends a sample early, as with ours.
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    state["model"] = model
    state["optimizer"] = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    return {"parameters": sum(p.numel() for p in model.parameters()), "transformers": __version__}


def read_inputs(ids, pixels, grids):
    """`pixels` is a file of raw float32 patches, in the order of the images; grids are (rows, columns) of patches."""
    ids = torch.tensor(ids)
    kinds = (ids == state["model"].config.image_token_id).int()
    inputs = {"input_ids": ids, "mm_token_type_ids": kinds}
    if grids:
        patches = sum(h * w for h, w in grids)
        inputs["pixel_values"] = torch.from_numpy(np.fromfile(pixels, dtype="<f4").reshape(patches, -1))
        inputs["image_grid_thw"] = torch.tensor([[1, h, w] for h, w in grids])
    return inputs


def batch(ids, targets, pixels, grids):
    targets = torch.tensor(targets)
    # transformers shifts labels: label i + 1 is what position i predicts.
    labels = torch.full_like(targets, -100)
    labels[:, 1:] = torch.where(targets[:, :-1] >= 0, targets[:, :-1], -100)
    state["batch"] = {**read_inputs(ids, pixels, grids), "labels": labels}
    return {"tokens": int((labels >= 0).sum())}


def check(masked):
    """Mean loss with the masked ids taken out of the distribution, as ours has it."""
    inputs = {name: value for name, value in state["batch"].items() if name != "labels"}
    with torch.no_grad():
        logits = state["model"].eval()(**inputs).logits
    logits[..., masked] = -torch.inf
    labels = state["batch"]["labels"]
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
    return {"loss": loss.item()}


def train():
    model, optimizer = state["model"].train(), state["optimizer"]
    start = time.perf_counter()
    loss = model(**state["batch"], use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {"ms": (time.perf_counter() - start) * 1000, "loss": loss.item()}


def generate(ids, pixels, grids, tokens, masked):
    model = state["model"].eval()
    inputs = read_inputs(ids, pixels, grids)
    start = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(
            **inputs, max_new_tokens=tokens, do_sample=False, suppress_tokens=masked, temperature=None, top_k=None, top_p=None
        )
    milliseconds = (time.perf_counter() - start) * 1000
    return {"ms": milliseconds, "ids": out[:, inputs["input_ids"].shape[1] :].tolist()}


serve({"load": load, "batch": batch, "check": check, "train": train, "generate": generate})
