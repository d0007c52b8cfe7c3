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
from .ranks import follow, join, tell
from .server import LEAST_KEY, Server, end_with_parent
from .worker import Worker

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m saccade_torch", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--device", help="cpu, cuda, cuda:1; the default is cuda where it is")
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="what is computed in; bfloat16 on CUDA, float32 elsewhere")
    parser.add_argument("--pack-tokens", type=int, help="tokens in one pass of the learner; lower it when memory runs out")
    parser.add_argument("--cache-bytes", type=int, help="most bytes of keys and values of one sampler")
    parser.add_argument("--frame-bytes", type=int, help="most bytes of frames that are kept for calls to name")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="compile layers one by one; on where CUDA is")
    parser.add_argument("--checkpointing", action="store_true", help="compute activations again instead of keeping them")
    parser.add_argument("--offload", action="store_true", help="keep 32-bit weights, gradients and the optimizer's state in host memory")
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
    settings = replace(settings, checkpointing=given.checkpointing, offload=given.offload, **{k: v for k, v in changes.items() if v is not None})
    if given.threads or (settings.device.type == "cuda" and not settings.offload):
        # Beside a GPU the host has little to compute unless the optimizer works there, and threads that wait for each other cost more than they give.
        torch.set_num_threads(given.threads or 1)
    # Requests are read while others are sampled: neither may hold up the other for long.
    sys.setswitchinterval(0.001)
    ranks = join()
    if ranks > 1:
        if settings.device.type == "cuda":
            settings = replace(settings, device=torch.device("cuda", torch.cuda.current_device()))
        if torch.distributed.get_rank() > 0:
            follow()
            os._exit(0)
    asyncio.run(serve(settings, key, given, ranks))


async def serve(settings: Settings, key: str, given: argparse.Namespace, ranks: int) -> None:
    server = Server(Worker(settings, given.cache_bytes, ranks, given.frame_bytes), key)
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
