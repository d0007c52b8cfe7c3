"""Memory that really runs out: a process may not take more address space than it has now and a little, and is then asked for more than that."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from tiny import datum  # noqa: E402

from saccade_torch.errors import EngineError  # noqa: E402
from saccade_torch.learner import Datum, Learner, Settings  # noqa: E402
from saccade_torch.network import Tokens  # noqa: E402

LOSS = {"name": "cross-entropy"}
STEP = {"name": "adamw", "learningRate": 1e-2}


PACK = 150_000


def much() -> list[Datum]:
    """One pack that needs far more than is left."""
    ids = np.arange(500, dtype=np.int32) % 80
    return [Datum(Tokens(ids), ids, np.ones(500, dtype=np.float32), 1.0, {})] * 300


def limit(extra: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + extra, resource.RLIM_INFINITY))


def main(folder: str) -> None:
    torch.set_num_threads(1)
    learner = Learner(folder, Settings(torch.device("cpu"), pack_tokens=PACK))
    good = [datum(1, 2), datum(2, 0)]
    learner.forward_backward(good, LOSS)
    learner.step(STEP)
    before = {name: p.detach().clone() for name, p in learner.trained.items()}
    limit(100 * 1024**2)
    for work in (lambda: learner.forward_backward([*good, *much()], LOSS), lambda: learner.forward(much())):
        with pytest.raises(EngineError, match="packs of 150000 tokens; the weights are as they were.*packTokens"):
            work()
        # What was summed up of the batch is not applied.
        assert not learner.step(STEP)["applied"]
        for name, parameter in learner.trained.items():
            assert torch.equal(parameter, before[name]), name
    learner.forward_backward(good, LOSS)
    assert learner.step(STEP)["applied"] and learner.optimizer.step == 2
    print("whole")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="address space is read from /proc")
def test_memory_that_runs_out_names_the_setting_and_leaves_the_weights_as_they_were(folders):
    found = subprocess.run([sys.executable, __file__, folders["qwen3"]], capture_output=True, text=True, cwd=Path(__file__).parent, timeout=300)
    assert found.stdout.endswith("whole\n"), found.stderr


if __name__ == "__main__":
    main(sys.argv[1])
