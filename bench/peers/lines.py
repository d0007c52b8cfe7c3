"""One JSON object per line in, one per line out: how the benchmark talks to its Python peers.

`serve(ops)` calls ops[request["op"]](**rest) for every line; an op returns a dict. "threads" and "memory" are there for all peers.
"""

import json
import sys
import traceback
from pathlib import Path

import torch


def threads(count):
    torch.set_num_threads(count)
    return {"threads": torch.get_num_threads(), "torch": torch.__version__}


def memory():
    """Resident megabytes by Linux's own account: now, and the most there ever were (`ru_maxrss` begins with what the parent had)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = {name: int(value.split()[0]) for name, value in (line.split(":") for line in lines) if name in ("VmRSS", "VmHWM")}
    return {"now": kilobytes["VmRSS"] / 2**10, "peak": kilobytes["VmHWM"] / 2**10}


def serve(ops):
    ops = {"threads": threads, "memory": memory, **ops}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = ops[request.pop("op")](**request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
