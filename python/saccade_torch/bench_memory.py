"""python -m saccade_torch.bench_memory: what whole steps take on a GPU that may use only part of its memory, next to what `saccade scale memory` calculates.

    PYTHONPATH=python python -m saccade_torch.bench_memory --cases 8b-nf4 2b

A case has a shape with random weights, a limit, and steps of 8 groups of 8 episodes: eight turns are sampled, then scored and learned. Every case runs in a process
of its own. A case that needs more than its limit fails as it would on a smaller GPU. On the CPU nothing is capped, and the bytes that are kept are counted instead.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from .adapters import LoraSpec
from .bench import ADAMW, LOSS, SHAPES, Episodes, make_folder, say
from .draw import SamplingParams
from .learner import Datum, Learner, Settings
from .network import Tokens
from .sampler import Request, Sample
from .whole_sampler import sampler_of

SHAPES["8b"] = dict(
    text_config=dict(
        vocab_size=151936, hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, max_position_embeddings=8192,
        rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[24, 20, 20], mrope_interleaved=True),
    ),
    vision_config=dict(
        depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, out_hidden_size=4096, num_position_embeddings=2304, patch_size=16,
        deepstack_visual_indexes=[8, 16, 24],
    ),
)  # fmt: skip

CASES: dict[str, dict[str, Any]] = {
    "8b-nf4": dict(shape="8b", gib=24, base="nf4"),
    "2b": dict(shape="2b", gib=12, base=None),
    "2b-nf4": dict(shape="2b", gib=12, base="nf4"),
    "tiny": dict(shape="tiny", gib=1, base=None),
    "tiny-nf4": dict(shape="tiny", gib=1, base="nf4"),
}
"""Of one GPU: all with an adapter of rank 32, a frozen tower, checkpointing, packs of 4,096 tokens and 2 GiB for keys and values."""
GROUPS = SIBLINGS = TURNS = 8
CACHE = 2 * 2**30
PACK = 4096


def kept(learner: Learner, sampler: Any) -> dict[str, int]:
    """Bytes that lie there between steps, each once."""
    seen: set[int] = set()

    def count(tensors: Any) -> int:
        fresh = [tensor for tensor in tensors if tensor.data_ptr() not in seen]
        seen.update(tensor.data_ptr() for tensor in fresh)
        return sum(tensor.nbytes for tensor in fresh)

    return {
        "weights": count(learner.network.parameters()),
        "moments": learner.optimizer.first.bytes + learner.optimizer.second.bytes,
        "sampler": count(sampler.network.parameters()),
        "cache": count([*sampler.cache.keys, *sampler.cache.values]),
    }


def play(episodes: Episodes, sampler: Any, turns: int, step: int) -> list[Datum]:
    """Siblings begin with one prompt; every turn shows another image."""
    import numpy as np

    rows = {f"{step}/{group}/{one}": episodes.prompt(1000 * step + group) for group in range(GROUPS) for one in range(SIBLINGS)}
    replies: dict[str, list[tuple[int, Sample]]] = {name: [] for name in rows}
    for turn in range(turns):
        boxes: dict[str, list[Any]] = {name: [] for name in rows}
        for seed, (name, row) in enumerate(rows.items()):
            sampler.submit(Request(name, row, SamplingParams(max_tokens=episodes.reply, temperature=1.0, seed=seed + 100 * turn), boxes[name].append))
        while sampler.busy:
            sampler.tick()
        for place, (name, box) in enumerate(boxes.items()):
            if not isinstance(box[0], Sample):
                raise box[0]
            at = len(rows[name].ids)
            replies[name].append((at, box[0]))
            longer = Tokens(np.concatenate([rows[name].ids, np.array(box[0].ids, dtype=np.int32)]), rows[name].spans)
            rows[name] = episodes.observe(longer, 7 * turn + 97 * place, episodes.text) if turn + 1 < turns else longer
    data = []
    for place, (name, row) in enumerate(rows.items()):
        length = len(row.ids)
        targets, weights = np.full(length, -1, dtype=np.int32), np.zeros(length, dtype=np.float32)
        old = np.zeros(length, dtype=np.float32)
        for at, reply in replies[name]:
            taught = slice(at - 1, at - 1 + len(reply.ids))
            targets[taught], weights[taught], old[taught] = reply.ids, 1 / 64, reply.logprobs
        advantages = np.full(length, float(place % 3 - 1), dtype=np.float32)
        data.append(Datum(row, targets, weights, 1.0, dict(advantages=advantages, oldLogprobs=old)))
        sampler.release(name)
    return data


def calculated(folder: str, base: str | None, context: int, device: torch.device) -> dict[str, Any]:
    """What `saccade scale memory` says of the same plan; nothing where it can't be asked: what was measured stands."""
    command = ["node", str(Path(__file__).parents[2] / "dist" / "cli.js"), "scale", "memory", folder, "--json", "--gpus", "1", "--lora", "32", "--freeze-vision"]
    command += ["--checkpointing", "--pack-tokens", str(PACK), "--cache-gib", str(CACHE // 2**30), "--live", str(GROUPS * SIBLINGS), "--context-tokens", str(context)]
    command += ["--dtype", "bfloat16" if device.type == "cuda" else "float32", *(["--base", base] if base else [])]
    try:
        return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0])
    except (OSError, subprocess.CalledProcessError, ValueError) as problem:
        print(f"saccade scale memory does not answer ({problem}): only measured figures.", file=sys.stderr)
        return {"first": float("nan"), "parts": {}}


def run(case: str, device: torch.device, turns: int, steps: int) -> None:
    given = CASES[case]
    cuda = device.type == "cuda"
    settings = Settings(device, torch.bfloat16 if cuda else torch.float32, PACK, compile=cuda, checkpointing=True, base=given["base"])
    with tempfile.TemporaryDirectory() as root:
        folder = make_folder(given["shape"], Path(root), device, 1.0)
        if cuda:
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(given["gib"] * 2**30 / torch.cuda.get_device_properties(device).total_memory, device)
            torch.cuda.reset_peak_memory_stats()
        learner = Learner(folder, settings, lora=LoraSpec(32, 32), freeze="vision")
        sampler, seconds = None, []
        for step in range(steps):
            begin = time.time()
            network, version = learner.publish(sampler and sampler.network)
            assert network is not None
            if sampler is None:
                sampler = sampler_of(network, settings, version, CACHE)
            else:
                sampler.renew(version)
            data = play(Episodes(learner.network), sampler, turns, step)
            learner.forward(data)
            learner.forward_backward(data, LOSS)
            learner.step(ADAMW)
            seconds.append(time.time() - begin)
        longest = max(len(one.input.ids) for one in data)
        predicted = calculated(folder, given["base"], longest, device)
        tokens = sum(len(one.input.ids) for one in data)
        peak = torch.cuda.max_memory_allocated() + 0.0 if cuda else float("nan")
        reserved = torch.cuda.max_memory_reserved() + 0.0 if cuda else float("nan")
        say(case, limit_gib=given["gib"], predicted=predicted["first"], parts=predicted["parts"], seconds=seconds[-1], tokens=tokens, peak=peak, reserved=reserved, kept=kept(learner, sampler), slots=sampler.cache.slots, slot_tokens=sampler.cache.length)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m saccade_torch.bench_memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=["8b-nf4", "2b", "2b-nf4"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        run(given.cases[0], torch.device(given.device), given.turns, given.steps)
        return
    rows = []
    for case in given.cases:
        command = [sys.executable, "-m", "saccade_torch.bench_memory", "--one", "--cases", case, "--device", given.device, "--turns", str(given.turns), "--steps", str(given.steps)]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            words = " ".join((done.stderr.strip().splitlines() or ["it said nothing"])[-1].split())
            rows.append([case, str(CASES[case]["gib"]), "–", f"failed: {words[:100]}", "", "", ""])
            continue
        found = json.loads(lines[-1])
        print(lines[-1], flush=True)
        share = found["predicted"] / found["peak"]
        off = f"{100 * (share - 1):+.0f} %" if share == share else "–"
        rows.append([case, str(found["limit_gib"]), gib(found["predicted"]), gib(found["peak"]), gib(found["reserved"]), off, f"{found['seconds']:.1f}"])
    print("| case | limit GiB | calculated GiB | peak GiB | reserved GiB | calculated / peak | last step s |\n| --- | --: | --: | --: | --: | --: | --: |")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def gib(value: float) -> str:
    return "–" if value != value else f"{value / 2**30:.2f}"


if __name__ == "__main__":
    main()
