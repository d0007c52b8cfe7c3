"""The loops that the benchmark compares with: plain transformers, as one would write them first. Batches are padded, `generate` samples, and every turn of an
episode is prefilled and encoded anew."""

from __future__ import annotations

import time
from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText

from .bench import Episodes, clock, say, work
from .frames import PatchFormat
from .learner import Datum
from .network import Network, Tokens, patch_format

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load(folder: str, dtype: torch.dtype) -> Any:
    return AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").to(DEVICE)


def inputs(rows: Sequence[Tokens], format: PatchFormat, image: int, left: bool = False) -> dict[str, Tensor]:
    """Padded to the longest."""
    longest = max(len(row.ids) for row in rows)
    ids, mask = torch.zeros(len(rows), longest, dtype=torch.long), torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        place = slice(longest - len(row.ids), None) if left else slice(0, len(row.ids))
        ids[i, place] = torch.from_numpy(row.ids.astype(np.int64))
        mask[i, place] = 1
    frames = [span.frame for row in rows for span in row.spans]
    grids = torch.tensor([[1, *format.grid(frame)] for frame in frames])
    found = dict(input_ids=ids, attention_mask=mask, mm_token_type_ids=(ids == image).int(), image_grid_thw=grids)
    return {name: tensor.to(DEVICE) for name, tensor in found.items()} | {"pixel_values": format.patches(frames, DEVICE)}


def learn(folder: str, network: Network, batches: Sequence[Sequence[Datum]], sequences: int) -> float:
    """32-bit weights, autocast to bf16, `sequences` padded sequences at a time, AdamW."""
    from pathlib import Path

    model = load(folder, torch.float32).train()
    format = patch_format(Path(folder), model.config.vision_config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    seconds = 0.0
    tokens = padded = done = 0.0
    torch.cuda.reset_peak_memory_stats()
    for step, batch in enumerate(batches):
        begin = clock(DEVICE)
        for at in range(0, len(batch), sequences):
            part = batch[at : at + sequences]
            given = inputs([datum.input for datum in part], format, model.config.image_token_id)
            labels = torch.full_like(given["input_ids"], -100)
            for i, datum in enumerate(part):
                wanted = torch.from_numpy(datum.targets[:-1].astype(np.int64)).to(DEVICE)
                labels[i, 1 : len(datum.targets)] = torch.where(wanted >= 0, wanted, -100)
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(**given, labels=labels, use_cache=False).loss
            loss.backward()
            if step:
                padded += given["input_ids"].numel()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step:
            seconds += clock(DEVICE) - begin
            count = work(network, batch)
            tokens += count["tokens"]
            done += count["language"] + count["vision"]
    say(
        "transformers learn", tokens_per_s=tokens / seconds, mfu=done / seconds / 989e12, padding=1 - tokens / padded, sequences=sequences,
        peak_GiB=torch.cuda.max_memory_allocated() / 2**30,
    )  # fmt: skip
    return tokens / seconds


def generate(model: Any, format: PatchFormat, rows: Sequence[Tokens], new: int) -> np.ndarray:
    given = inputs(rows, format, model.config.image_token_id)
    given["pixel_values"] = given["pixel_values"].to(torch.bfloat16)
    bad = [[model.config.image_token_id], [model.config.video_token_id], [model.config.vision_start_token_id], [model.config.vision_end_token_id]]
    found = model.generate(**given, max_new_tokens=new, min_new_tokens=new, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, bad_words_ids=bad, pad_token_id=0)
    return found[:, given["input_ids"].shape[1] :].cpu().numpy().astype(np.int32)


def sample(folder: str, network: Network, sizes: Sequence[int], new: int = 64) -> dict[int, float]:
    from pathlib import Path

    model = load(folder, torch.bfloat16).eval()
    format = patch_format(Path(folder), model.config.vision_config)
    episodes = Episodes(network)
    speeds = {}
    generate(model, format, [episodes.prompt(1)], 4)
    for size in sizes:
        rows = [episodes.prompt(10**6 + 20 * i) for i in range(size)]
        begin = clock(DEVICE)
        generate(model, format, rows, new)
        seconds = clock(DEVICE) - begin
        speeds[size] = size * new / seconds
        say("transformers generate", batch=size, new=new, tokens_per_s=speeds[size], seconds=seconds)
    return speeds


def play(folder: str, network: Network, count: int, turns: int, reply: int) -> float:
    from pathlib import Path

    model = load(folder, torch.bfloat16).eval()
    format = patch_format(Path(folder), model.config.vision_config)
    episodes = Episodes(network, reply=reply)
    rows = [episodes.prompt(1000 * i) for i in range(count)]
    generate(model, format, rows[:1], 4)
    begin = time.perf_counter()
    for turn in range(turns):
        found = generate(model, format, rows, reply)
        rows = [Tokens(np.concatenate([row.ids, ids]), row.spans) for row, ids in zip(rows, found)]
        rows = [episodes.observe(row, 1000 * i + turn + 1, episodes.text) for i, row in enumerate(rows)]
        print(f"transformers, turn {turn + 1}: {time.perf_counter() - begin:.1f} s", flush=True)
    seconds = clock(DEVICE) - begin
    say("transformers episodes", episodes=count, turns=turns, reply=reply, seconds=seconds, episodes_per_s=count / seconds)
    return count / seconds
