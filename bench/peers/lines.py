"""One JSON object per line in, one per line out: how the benchmark talks to its Python peers.

`serve(ops)` calls ops[request["op"]](**rest) for every line; an op returns a dict. "threads" and "memory" are there for all peers.
"""

import json
import resource
import sys
import traceback
from pathlib import Path

import torch


def threads(count):
    torch.set_num_threads(count)
    return {"threads": torch.get_num_threads(), "torch": torch.__version__}


def memory():
    """Resident megabytes: now, and the most there ever were."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"now": pages * resource.getpagesize() / 2**20, "peak": peak / (2**20 if sys.platform == "darwin" else 2**10)}


def serve(ops):
    ops = {"threads": threads, "memory": memory, **ops}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = ops[request.pop("op")](**request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)
