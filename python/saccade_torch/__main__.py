"""python -m saccade_torch: starts a worker. It says where it listens in one line of JSON on standard output. The key is SACCADE_TORCH_KEY."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from dataclasses import replace

import torch

from .errors import ConfigError
from .learner import Settings
from .quantized import BYTES
from .ranks import follow, join, tell
from .server import LEAST_KEY, Server, end_with_parent
from .spread import Spread, gather, report
from .worker import Worker

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m saccade_torch", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--device", help="cpu, cuda, cuda:1; the default is cuda where it is")
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="what is computed in; bfloat16 on CUDA, float32 elsewhere; float64 to compare")
    parser.add_argument("--pack-tokens", type=int, help="tokens in one pass of the learner; lower it when memory runs out")
    parser.add_argument("--cache-bytes", type=int, help="most bytes of keys and values of one sampler")
    parser.add_argument("--frame-bytes", type=int, help="most bytes of frames that are kept for calls to name")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="compile layers one by one; on where CUDA is")
    parser.add_argument("--checkpointing", action="store_true", help="compute activations again instead of keeping them")
    parser.add_argument("--offload", action="store_true", help="keep 32-bit weights, gradients and the optimizer's state in host memory")
    parser.add_argument("--base", choices=sorted(BYTES), help="4-bit or 8-bit frozen layers under an adapter, for learning and sampling")
    parser.add_argument("--moments", choices=["int8"], help="8-bit moments of the optimizer")
    parser.add_argument("--samplers", choices=["all", "first"], default="all", help="which ranks sample; the first alone where servers do it")
    parser.add_argument("--threads", type=int, help="CPU threads of PyTorch; one beside a GPU")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")
    given = parser.parse_args()
    key = os.environ.get("SACCADE_TORCH_KEY", "")
    if len(key) < LEAST_KEY:
        sys.exit(f"SACCADE_TORCH_KEY has {len(key)} characters: choose a random key of at least {LEAST_KEY} and give it to both sides.")
    torch.set_float32_matmul_precision("highest")
    settings = Settings.default()
    if given.device is not None:
        device = torch.device(given.device)
        if device.type == "cuda" and not torch.cuda.is_available():
            sys.exit("This PyTorch has no CUDA device. Use --device cpu, or install a CUDA build (saccade torch setup --cuda).")
        settings = Settings(device) if device.type == "cpu" else replace(settings, device=device)
    changes = dict(compute=DTYPES.get(given.dtype), pack_tokens=given.pack_tokens, compile=given.compile)
    small = dict(base=given.base, small_moments=given.moments == "int8")
    settings = replace(settings, checkpointing=given.checkpointing, offload=given.offload, **small, **{k: v for k, v in changes.items() if v is not None})
    if given.threads or (settings.device.type == "cuda" and not settings.offload):
        # Beside a GPU the host has little to compute unless the optimizer works there, and threads that wait for each other cost more than they give.
        torch.set_num_threads(given.threads or 1)
    # Requests are read while others are sampled: neither may hold up the other for long.
    sys.setswitchinterval(0.001)
    ranks, spread = join(), None
    if ranks > 1:
        if settings.device.type == "cuda":
            settings = replace(settings, device=torch.device("cuda", torch.cuda.current_device()))
        everywhere = given.samplers == "all"
        if torch.distributed.get_rank() > 0:
            follow(settings.device, report(settings, key, given.cache_bytes, given.frame_bytes) if everywhere else None)
            os._exit(0)
        spread = gather(ranks, key) if everywhere else None
    asyncio.run(serve(settings, key, given, ranks, spread))


async def serve(settings: Settings, key: str, given: argparse.Namespace, ranks: int, spread: Spread | None) -> None:
    server = Server(Worker(settings, given.cache_bytes, ranks, given.frame_bytes, spread), key)
    loop = asyncio.get_running_loop()
    if given.with_parent:
        end_with_parent(lambda: loop.call_soon_threadsafe(server.stopping.set))

    def announce(port: int) -> None:
        print(json.dumps({"port": port, "instance": server.instance, "frameBytes": server.worker.frames.most_bytes}), flush=True)

    try:
        await server.serve(given.host, given.port, announce)
    except OSError as problem:
        raise ConfigError(f"Can't listen on {given.host}:{given.port}: {problem}") from None
    if ranks > 1:
        tell(("stop", 0, None))
    os._exit(0)


if __name__ == "__main__":
    main()
