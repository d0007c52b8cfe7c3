"""python -m saccade_torch.bench: how fast this machine learns and samples with a model's shape and random weights, beside plain transformers.

    python -m saccade_torch.bench ceilings learn sample episodes drift --shape 2b --frozen --peers
    python -m saccade_torch.bench learn --shape 30b-a3b --layers 6 --compile-borrowed

Every line that is printed is one result, as JSON. Work is the matrix products that are done: 6 × each matrix's weights × the rows it is applied to (tokens,
patches, merged patches, trained places for the head), of experts those that a token goes to; attention and anything computed twice are not counted, the
optimizer's time is.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import io
import json
import os
import pstats
import tempfile
import time
import traceback
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np
import torch

from .draw import SamplingParams
from .frames import Frame, pixel_frame
from .learner import Datum, Learner, Settings
from .network import Network, Span, Tokens
from .sampler import Request, Sample, Sampler

PEAK = 989e12
"""Dense bf16 of an H100 or H200, by its data sheet."""
SIDE = 320

SHAPES: dict[str, dict[str, Any]] = {
    "2b": dict(
        text_config=dict(
            vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
            head_dim=128, max_position_embeddings=8192,
            rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[24, 20, 20], mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=24, hidden_size=1024, intermediate_size=4096, num_heads=16, out_hidden_size=2048, num_position_embeddings=2304, patch_size=16,
            deepstack_visual_indexes=[5, 11, 17],
        ),
    ),
    "4b": dict(
        text_config=dict(
            vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
            head_dim=128, max_position_embeddings=8192,
            rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[24, 20, 20], mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=24, hidden_size=1024, intermediate_size=4096, num_heads=16, out_hidden_size=2560, num_position_embeddings=2304, patch_size=16,
            deepstack_visual_indexes=[5, 11, 17],
        ),
    ),
    "30b-a3b": dict(
        text_config=dict(
            vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=48, num_attention_heads=32, num_key_value_heads=4,
            head_dim=128, max_position_embeddings=8192, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=1,
            rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[24, 20, 20], mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, out_hidden_size=2048, num_position_embeddings=2304, patch_size=16,
            deepstack_visual_indexes=[8, 16, 24],
        ),
    ),
    "20m": dict(
        text_config=dict(
            vocab_size=1024, hidden_size=384, intermediate_size=1152, num_hidden_layers=8, num_attention_heads=6, num_key_value_heads=3,
            head_dim=64, max_position_embeddings=8192,
            rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[12, 10, 10], mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=4, hidden_size=256, intermediate_size=1024, num_heads=4, out_hidden_size=384, num_position_embeddings=400, patch_size=16,
            deepstack_visual_indexes=[1, 2],
        ),
    ),
    "tiny": dict(
        text_config=dict(
            vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, max_position_embeddings=8192,
            rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[4, 2, 2], mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=2, hidden_size=32, intermediate_size=64, num_heads=2, out_hidden_size=64, num_position_embeddings=400, patch_size=16,
            deepstack_visual_indexes=[0],
        ),
    ),
    "tiny-moe": dict(
        text_config=dict(
            vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
            head_dim=16, max_position_embeddings=8192, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32, decoder_sparse_step=1,
            rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[4, 2, 2], mrope_interleaved=True),
        ),
        vision_config=dict(
            depth=2, hidden_size=32, intermediate_size=64, num_heads=2, out_hidden_size=64, num_position_embeddings=400, patch_size=16,
            deepstack_visual_indexes=[0],
        ),
    ),
}  # fmt: skip


def say(what: str, **figures: Any) -> None:
    rounded = {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps({"what": what, **rounded}), flush=True)


def vision_ids(vocabulary: int) -> list[int]:
    """Placeholder, start and end; the one after is a film's."""
    return [vocabulary - 4, vocabulary - 3, vocabulary - 2]


def make_folder(shape: str, folder: Path, device: torch.device, sharpness: float, layers: int | None = None) -> str:
    """Random weights as transformers draws them. `sharpness` multiplies the output weights: 1 leaves logits almost flat. `layers`: only so many."""
    import transformers

    spec = SHAPES[shape] if layers is None else {**SHAPES[shape], "text_config": {**SHAPES[shape]["text_config"], "num_hidden_layers": layers}}
    kind = "Qwen3VLMoe" if "num_experts" in spec["text_config"] else "Qwen3VL"
    image, start, end = vision_ids(spec["text_config"]["vocab_size"])
    ids = dict(image_token_id=image, video_token_id=end + 1, vision_start_token_id=start, vision_end_token_id=end)
    config = getattr(transformers, f"{kind}Config")(**spec, tie_word_embeddings=True, **ids)
    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(sharpness)
    model.to(torch.bfloat16).save_pretrained(folder)
    return str(folder)


@lru_cache(maxsize=8192)
def image(seed: int) -> Frame:
    """Blocks of colour and noise, different for each seed."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (SIDE // 32, SIDE // 32, 3), dtype=np.uint8)
    pixels = np.repeat(np.repeat(coarse, 32, 0), 32, 1) ^ random.integers(0, 32, (SIDE, SIDE, 3), dtype=np.uint8)
    return pixel_frame(f"image {seed}", SIDE, SIDE, torch.from_numpy(pixels).flatten())


class Episodes:
    """Prompts of `first` ids, then turns of an image, `text` ids and a reply."""

    def __init__(self, network: Network, first: int = 100, text: int = 20, reply: int = 32) -> None:
        self.vocabulary = network.vocabulary
        self.first, self.text, self.reply = first, text, reply
        self.tokens = network.format.tokens(image(0))
        self.image, self.start, self.end = vision_ids(self.vocabulary)

    def words(self, seed: int, count: int) -> np.ndarray:
        return np.random.default_rng(seed).integers(0, self.image, count, dtype=np.int32)

    def observe(self, row: Tokens, seed: int, text: int) -> Tokens:
        """Adds an image and words."""
        at = len(row.ids) + 1
        shown = np.array([self.start, *[self.image] * self.tokens, self.end], dtype=np.int32)
        return Tokens(np.concatenate([row.ids, shown, self.words(seed, text)]), (*row.spans, Span(at, self.tokens, image(seed))))

    def prompt(self, seed: int) -> Tokens:
        return self.observe(Tokens(self.words(seed + 10**6, 1)), seed, self.first - 1)

    def datum(self, seed: int, turns: int) -> Datum:
        row = self.prompt(seed)
        targets: list[np.ndarray] = []
        for turn in range(turns):
            if turn:
                row = self.observe(row, seed + turn, self.text)
            reply = self.words(seed + 10**7 + turn, self.reply)
            known = np.full(len(row.ids), -1, dtype=np.int32)
            known[: sum(map(len, targets))] = np.concatenate(targets) if targets else known[:0]
            known[-1] = reply[0]
            targets = [known, np.append(reply[1:], -1).astype(np.int32)]
            row = Tokens(np.concatenate([row.ids, reply]), row.spans)
        wanted = np.concatenate(targets)
        weights = (wanted >= 0).astype(np.float32) / 1000
        old = np.full(len(wanted), -11.0, dtype=np.float32)
        return Datum(row, wanted, weights, 1.0, dict(advantages=np.sin(np.arange(len(wanted))).astype(np.float32), oldLogprobs=old))

    def batch(self, tokens: int, seed: int) -> list[Datum]:
        """Episodes of 1 to 15 turns, at most so many tokens."""
        data: list[Datum] = []
        random = np.random.default_rng(seed)
        while True:
            data.append(self.datum(seed * 10**5 + 20 * len(data), int(random.integers(1, 16))))
            tokens -= len(data[-1].input.ids)
            if tokens < 0:
                return data[:-1]


def work(network: Network, data: Sequence[Datum]) -> dict[str, float]:
    """Floating-point operations of learning from these, forward and backward."""
    counts = {"text": 0.0, "tower": 0.0, "merger": 0.0}
    text = network.config.text_config
    active = text.num_experts_per_tok / text.num_experts if getattr(text, "num_experts", None) else 1.0
    for name, parameter in network.named().items():
        if parameter.dim() < 2 or "embed_tokens" in name or "pos_embed" in name or name == "lm_head.weight":
            continue
        counts["merger" if "merger" in name else "tower" if "visual" in name else "text"] += parameter.numel() * (active if ".experts." in name else 1)
    tokens = sum(len(datum.input.ids) for datum in data)
    merged = sum(span.length for datum in data for span in datum.input.spans)
    trained = sum(int((datum.targets >= 0).sum()) for datum in data)
    head = network.output_weight().numel() * trained
    language = 6 * (counts["text"] * tokens + head)
    return {"language": language, "vision": 6 * (counts["tower"] * 4 * merged + counts["merger"] * merged), "tokens": tokens, "trained": trained, "patches": 4 * merged}


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(device: torch.device, run: Callable[[], Any], count: int) -> list[float]:
    """Seconds of each call."""
    found = []
    for _ in range(count):
        begin = clock(device)
        run()
        found.append(clock(device) - begin)
    return found


def profile(name: str, device: torch.device, run: Callable[[], Any]) -> None:
    """The kernels that took longest, into $SACCADE_PROFILE."""
    where = os.environ.get("SACCADE_PROFILE")
    if where is None or device.type != "cuda":
        return
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with profiler(activities=[ProfilerActivity.CUDA]) as found:
        begin = clock(device)
        run()
        seconds = clock(device) - begin
    kernels = sorted(found.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    busy = sum(kernel.self_device_time_total for kernel in kernels)
    lines = [f"{seconds:.4f} s, device busy {busy / 1e6:.4f} s"]
    lines += [f"{kernel.self_device_time_total / 1e3:10.3f} ms {kernel.count:7d} {kernel.key[:150]}" for kernel in kernels[:60]]
    host = cProfile.Profile()
    host.runcall(run)
    text = io.StringIO()
    pstats.Stats(host, stream=text).sort_stats("tottime").print_stats(40)
    Path(where, f"{name}.txt").write_text("\n".join(lines) + "\n" + text.getvalue())


def ceilings(device: torch.device) -> dict[str, float]:
    source = torch.randn(2**30, device=device, dtype=torch.float32).to(torch.bfloat16) if device.type == "cuda" else torch.randn(2**22)
    target = torch.empty_like(source)
    side = 8192 if device.type == "cuda" else 256
    a, b = (torch.randn(side, side, device=device).to(torch.bfloat16) for _ in range(2))
    copy = min(timed(device, lambda: target.copy_(source), 10)[2:])
    product = sorted(timed(device, lambda: a @ b, 12)[2:])[5]
    found = {"bandwidth": 2 * source.nbytes / copy, "products": 2 * side**3 / product}
    say("ceilings", bandwidth_TBs=found["bandwidth"] / 1e12, bf16_TFLOPs=found["products"] / 1e12)
    return found


LOSS = {"name": "ppo", "clipLow": 0.8, "clipHigh": 1.28}
ADAMW = {"name": "adamw", "learningRate": 1e-6, "weightDecay": 0.01, "maxGradNorm": 1.0}


def learn(folder: str, settings: Settings, tokens: int, steps: int, freeze: str | None, fresh: bool = True, name: str = "learn") -> float:
    """Whole steps: forward, backward, clip, AdamW. `fresh`: no image was seen before."""
    learner = Learner(folder, settings, freeze=freeze)
    episodes = Episodes(learner.network)
    batches = [episodes.batch(tokens, seed) for seed in range(2 + steps)]
    device = settings.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def step(data: Sequence[Datum]) -> None:
        if fresh:
            learner.seen.clear()
        learner.forward_backward(data, LOSS)
        learner.step(ADAMW)

    begin = clock(device)
    for batch in batches[:2]:
        step(batch)
    warm = clock(device) - begin
    seconds, totals = [], {"language": 0.0, "vision": 0.0, "tokens": 0.0, "trained": 0.0, "patches": 0.0}
    for batch in batches[2:]:
        if not fresh:
            learner.seen.of([span.frame for datum in batch for span in datum.input.spans])
        begin = clock(device)
        step(batch)
        seconds.append(clock(device) - begin)
        for key, value in work(learner.network, batch).items():
            totals[key] += value
    whole = totals["language"] + totals["vision"] * (1 if freeze is None else 1 / 3 if fresh else 0)
    speed = totals["tokens"] / sum(seconds)
    peak = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else 0.0
    say(
        name, dtype=str(settings.compute), pack=settings.pack_tokens, compile=settings.compile, checkpointing=settings.checkpointing, freeze=freeze,
        fresh=fresh, tokens_per_s=speed, mfu=whole / sum(seconds) / PEAK, trained_share=totals["trained"] / totals["tokens"],
        patches_per_token=totals["patches"] / totals["tokens"], tokens_per_step=totals["tokens"] / steps, peak_GiB=peak, warmup_s=warm,
        steps_s=[round(s, 4) for s in seconds],
    )  # fmt: skip
    profile(f"{name}-{settings.pack_tokens}" + ("-frozen" if freeze else "") + ("" if settings.compile else "-eager"), device, lambda: step(batches[-1]))
    return speed


def ask(sampler: Sampler, rows: Sequence[Tokens], names: Sequence[str], count: int, seed: int, done: Callable[[int, Sample], None] | None = None) -> list[Sample | None]:
    found: list[Sample | None] = [None] * len(rows)

    def take(place: int, sample: Sample | BaseException) -> None:
        if isinstance(sample, BaseException):
            raise sample
        found[place] = sample
        if done is not None:
            done(place, sample)

    for i, (row, name) in enumerate(zip(rows, names)):
        sampler.submit(Request(name, row, SamplingParams(count, 1.0, seed + i), lambda sample, i=i: take(i, sample)))
    while sampler.busy:
        sampler.tick()
    return found


def open_sampler(folder: str, settings: Settings) -> Sampler:
    from .learner import open_frozen

    return Sampler(open_frozen(folder, settings), settings)


def weight_bytes(network: Network) -> int:
    return sum(p.nbytes for name, p in network.named().items() if "visual" not in name)


def row_bytes(network: Network) -> int:
    """Of keys and values of one token."""
    return 2 * sum(heads * width for _, heads, width in network.caches) * network.compute.itemsize


def sample(folder: str, settings: Settings, sizes: Sequence[int], bandwidth: float, new: int = 64) -> dict[int, float]:
    """One image, 100 ids of text, `new` ids each; nothing is shared or known before."""
    sampler = open_sampler(folder, settings)
    network, device = sampler.network, settings.device
    episodes = Episodes(network)
    speeds = {}
    runs = 0
    for size in sizes:

        def prepared() -> tuple[list[Tokens], list[str]]:
            nonlocal runs
            runs += 1
            sampler.cache.clear()
            return [episodes.prompt(runs * 10**4 + 20 * i) for i in range(size)], [f"{runs} {i}" for i in range(size)]

        def seconds_of(count: int) -> float:
            rows, names = prepared()
            return timed(device, lambda: ask(sampler, rows, names, count, 0), 1)[0]

        warm = seconds_of(new)
        seconds = [seconds_of(new) for _ in range(3)]
        prompts = min(seconds_of(1) for _ in range(2))
        best = min(seconds)
        context = len(episodes.prompt(0).ids) + new / 2
        floor = (new - 1) * (weight_bytes(network) + size * context * row_bytes(network)) / bandwidth if bandwidth else 0.0
        speeds[size] = size * new / best
        say(
            "sample", batch=size, new=new, tokens_per_s=speeds[size], seconds=best, warmup_s=warm, all_s=[round(s, 4) for s in seconds], prompts_s=prompts,
            decode_floor_s=floor, share_of_floor=floor / best, share_while_decoding=floor / (best - prompts),
        )  # fmt: skip
        rows, names = prepared()
        profile(f"sample-{size}", device, lambda: ask(sampler, rows, names, new, 0))
    return speeds


def play(folder: str, settings: Settings, count: int, turns: int, reply: int) -> float:
    """Whole episodes, every turn a new image; episodes go on as soon as their reply is there. Episodes per second."""
    sampler = open_sampler(folder, settings)
    episodes = Episodes(sampler.network, reply=reply)
    device = settings.device

    def once(seed: int) -> int:
        rows = {i: episodes.prompt(seed + 1000 * i) for i in range(count)}
        left = {i: turns for i in range(count)}
        made = 0

        def send(i: int) -> None:
            sampler.submit(Request(f"{seed} {i}", rows[i], SamplingParams(reply, 1.0, seed + i + left[i]), lambda found: take(i, found)))

        def take(i: int, found: Sample | BaseException) -> None:
            nonlocal made
            if isinstance(found, BaseException):
                raise found
            made += len(found.ids)
            left[i] -= 1
            if left[i] == 0:
                sampler.release(f"{seed} {i}")
                return
            row = Tokens(np.concatenate([rows[i].ids, np.array(found.ids, dtype=np.int32)]), rows[i].spans)
            rows[i] = episodes.observe(row, seed + 1000 * i + left[i], episodes.text)
            send(i)

        for i in rows:
            send(i)
        while sampler.busy:
            sampler.tick()
        return made

    once(10**6)
    # Drawing the images is the environments' work.
    for i in range(count * turns):
        image(2 * 10**6 + 1000 * (i % count) + i // count)
    begin = clock(device)
    made = once(2 * 10**6)
    seconds = clock(device) - begin
    say("episodes", episodes=count, turns=turns, reply=reply, seconds=seconds, episodes_per_s=count / seconds, tokens_per_s=made / seconds)
    profile("episodes", device, lambda: once(2 * 10**6))
    return count / seconds


def drift(folder: str, settings: Settings, episodes_count: int = 8, turns: int = 15, reply: int = 32, name: str = "drift") -> None:
    """What the sampler said of its ids against what the learner says, turn by turn."""
    learner = Learner(folder, settings)
    network, version = learner.publish()
    assert network is not None
    sampler = Sampler(network, settings, version)
    episodes = Episodes(network, reply=reply)
    rows = [episodes.prompt(1000 * i) for i in range(episodes_count)]
    said: list[list[np.ndarray]] = []
    places: list[list[int]] = []
    for turn in range(turns):
        places.append([len(row.ids) for row in rows])
        found = ask(sampler, rows, [str(i) for i in range(len(rows))], reply, 100 * turn)
        said.append([np.array(one.logprobs) for one in found if one is not None])
        rows = [Tokens(np.concatenate([row.ids, np.array(one.ids, dtype=np.int32)]), row.spans) for row, one in zip(rows, found) if one is not None]
        if turn + 1 < turns:
            rows = [episodes.observe(row, 1000 * i + turn + 1, episodes.text) for i, row in enumerate(rows)]
    data = []
    for i, row in enumerate(rows):
        targets = np.full(len(row.ids), -1, dtype=np.int32)
        for turn in range(turns):
            at = places[turn][i]
            targets[at - 1 : at + reply - 1] = row.ids[at : at + reply]
        data.append(Datum(row, targets, (targets >= 0).astype(np.float32), 1.0, {}))
    scored = learner.forward(data)
    by_turn, kl_by_turn, spread = [], [], []
    for turn in range(turns):
        gap, kl = [], []
        for i, (logprobs, entropy) in enumerate(scored):
            at = places[turn][i]
            mine = logprobs[at - 1 : at + reply - 1]
            delta = mine - said[turn][i]
            gap.append(np.abs(delta))
            kl.append(np.exp(delta) - 1 - delta)
            spread.append(entropy[at - 1 : at + reply - 1] if entropy is not None else 0)
        by_turn.append(float(f"{np.mean(gap):.3g}"))
        kl_by_turn.append(float(f"{np.mean(kl):.3g}"))
    say(
        name, dtype=str(settings.compute), compile=settings.compile, worst_turn=max(by_turn), worst_kl=max(kl_by_turn), entropy=float(np.mean(spread)),
        mean_by_turn=by_turn, kl_by_turn=kl_by_turn,
    )  # fmt: skip


def run(what: str, folder: str, settings: Settings, given: argparse.Namespace) -> None:
    tokens = given.packs * given.pack_tokens * 97 // 100
    if what == "ceilings":
        given.bandwidth = ceilings(settings.device)["bandwidth"]
    elif what == "learn":
        learn(folder, settings, tokens, given.steps, None)
        if given.frozen:
            learn(folder, settings, tokens, given.steps, "vision")
            learn(folder, settings, tokens, given.steps, "vision", fresh=False)
    elif what == "sample":
        sample(folder, settings, given.batch, given.bandwidth)
    elif what == "episodes":
        play(folder, settings, given.episodes, given.turns, given.reply)
    elif what == "drift":
        drift(folder, settings, turns=given.turns, reply=given.reply)
    if given.peers:
        from . import bench_peers as peers
        from .learner import open_frozen

        network = open_frozen(folder, settings)
        if what == "learn":
            episodes = Episodes(network)
            peers.learn(folder, network, [episodes.batch(tokens, seed) for seed in range(3)], given.sequences)
        elif what == "sample":
            peers.sample(folder, network, given.batch)
        elif what == "episodes":
            peers.play(folder, network, given.episodes, given.turns, given.reply)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m saccade_torch.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=["ceilings", "learn", "sample", "episodes", "drift"])
    parser.add_argument("--shape", choices=list(SHAPES), default="2b")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--borrow", action="store_true", help="through transformers' modules, though network.py computes this family")
    parser.add_argument("--compile-borrowed", action="store_true", help="compile the layers of transformers' modules")
    parser.add_argument("--layers", type=int, help="only so many layers of the language part")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--pack-tokens", type=int, default=16384)
    parser.add_argument("--packs", type=int, default=4, help="packs in a step")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--frozen", action="store_true", help="also with a frozen tower: images that are new, and that were seen before")
    parser.add_argument("--sequences", type=int, default=8, help="in a padded batch of transformers")
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--reply", type=int, default=32)
    parser.add_argument("--sharpness", type=float, default=1.0, help="multiplies the output weights")
    parser.add_argument("--folder", help="where the model is made, and left for the next time")
    parser.add_argument("--peers", action="store_true", help="also plain transformers")
    given = parser.parse_args()
    torch.set_float32_matmul_precision("highest")
    device = torch.device(given.device)
    settings = Settings(
        device, getattr(torch, given.dtype), given.pack_tokens, compile=given.compile and device.type == "cuda", checkpointing=given.checkpointing,
        borrow=given.borrow, compile_borrowed=given.compile_borrowed,
    )  # fmt: skip
    given.bandwidth = 0.0
    if device.type == "cuda":
        # What is left for the host is small, and other programs may have its cores.
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        begin = time.perf_counter()
        place = Path(given.folder or root) / f"{given.shape}-{given.sharpness}{f'-{given.layers}' if given.layers else ''}"
        folder = str(place) if (place / "config.json").exists() else make_folder(given.shape, place, device, given.sharpness, given.layers)
        say("model", shape=given.shape, layers=given.layers, borrow=given.borrow, compile_borrowed=given.compile_borrowed, seconds=time.perf_counter() - begin, torch=torch.__version__, device=torch.cuda.get_device_name() if device.type == "cuda" else "cpu")
        for what in given.what:
            try:
                run(what, folder, settings, given)
            except Exception:
                # The others are still worth their time.
                traceback.print_exc()
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
