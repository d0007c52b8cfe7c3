"""Several processes equal one: gradients, weights, files, samples, with ranks that have no images, or no work at all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import pytest  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from tiny import datum  # noqa: E402

from saccade_torch.adapters import LoraSpec  # noqa: E402
from saccade_torch.learner import Learner, Settings  # noqa: E402

HERE = Path(__file__).parent
LOSS = {"name": "ppo", "clipLow": 0.8, "clipHigh": 1.28, "entropy": 0.01}
MUON = {"name": "muon", "learningRate": 2e-2, "adamLearningRate": 1e-2, "maxGradNorm": 1, "epsilon": 1e-3, "weightDecay": 0.1}
CASES: dict[str, dict] = {
    "whole": {},
    "lora, frozen tower": {"lora": LoraSpec(4, 8), "freeze": "vision"},
    "critic": {"head": "value"},
    "offloaded": {"offload": True},
    "offloaded, lora, frozen tower": {"lora": LoraSpec(4, 8), "freeze": "vision", "offload": True},
    "lora over 4 bits": {"lora": LoraSpec(4, 8), "freeze": "vision", "base": "nf4"},
    # Blocks of pieces are others than those of the whole, and rounded otherwise.
    "lora, 8-bit moments": {"lora": LoraSpec(4, 8), "freeze": "vision", "small": True, "rounding": 60},
}
# One image among text: whichever rank has it, the other has none. Five sequences in packs of their own leave a rank without work.
DATA = [datum(seed, images) for seed, images in enumerate((2, 0, 0, 0, 0))]


def settings(offload: bool, base: str | None = None, small: bool = False) -> Settings:
    return Settings(torch.device("cpu"), pack_tokens=1, offload=offload, base=base, small_moments=small)


def play(make, case: str, out: Path) -> dict:
    """Two steps, a checkpoint, a third step after restoring it, and what was reported."""
    options = CASES[case]
    loss = {"name": "value"} if options.get("head") == "value" else LOSS
    offload = make is not Learner and options.get("offload", False)
    given = (options["folder"], settings(offload, options.get("base"), options.get("small", False)), options.get("head", "lm"), options.get("lora"), options.get("freeze"), 0)
    learner = make(*given)
    reports = []
    for step in range(3):
        if step == 2:
            learner.checkpoint(str(out / "policy"))
            learner.restore(str(out / "policy"))
        report = learner.forward_backward(DATA, loss)
        moved = learner.step(MUON)
        reports.append([report.loss, report.tokens, moved["gradNorm"], moved["step"], report.metrics])
    forwards = [found.tolist() for found, _ in learner.forward(DATA)]
    learner.export(str(out / "model"))
    published = None if options.get("head") == "value" else learner.publish()
    if published is not None:
        network, version = published
        published = [version, {name: float(p.float().norm()) for name, p in network.named().items()}]
    return {"reports": reports, "forwards": forwards, "published": published}


def lead() -> None:
    """What the processes of the test run."""
    import torch.distributed as dist

    from saccade_torch.ranks import Leader, follow, join, tell

    torch.set_num_threads(1)
    folder, out, *cases = sys.argv[1:]
    join()
    if dist.get_rank() > 0:
        follow(torch.device("cpu"))
        return
    for case in cases:
        CASES[case]["folder"] = folder
        place = Path(out) / case
        place.mkdir()
        (place / "found.json").write_text(json.dumps(play(Leader, case, place)))
    tell(("stop", 0, None))


@pytest.mark.parametrize(("ranks", "cases"), [(2, list(CASES)), (4, ["whole"])])
def test_ranks_equal_one_process(folders, tmp_path, ranks, cases):
    run(folders["qwen3"], tmp_path, ranks, cases)
    for case in cases:
        options = CASES[case]
        options["folder"] = folders["qwen3"]
        alone = tmp_path / f"alone {case}"
        alone.mkdir()
        wanted = play(Learner, case, alone)
        found = json.loads((tmp_path / case / "found.json").read_text())
        loose = options.get("rounding", 1)
        for (loss, tokens, norm, step, metrics), other in zip(wanted["reports"], found["reports"]):
            assert other[0] == pytest.approx(loss, rel=1e-4 * loose) and other[1] == tokens
            assert other[2] == pytest.approx(norm, rel=1e-4 * loose) and other[3] == step
            assert other[4] == pytest.approx(metrics, rel=1e-3 * loose, abs=1e-6 * loose)
        for a, b in zip(wanted["forwards"], found["forwards"]):
            assert b == pytest.approx(a, abs=1e-4 * loose**2)
        name = "adapter_model.safetensors" if "lora" in options else "model.safetensors"
        for file in (f"model/{name}", f"policy/{name}", "policy.state.safetensors"):
            here, there = load_file(str(alone / file)), load_file(str(tmp_path / case / file))
            assert set(here) == set(there)
            for key in here:
                assert (here[key] - there[key]).abs().max() < 1e-4 * loose**2, (case, file, key)
        if wanted["published"]:
            assert found["published"][0] == wanted["published"][0]
            assert found["published"][1] == pytest.approx(wanted["published"][1], rel=1e-4 * loose)


def run(folder: str, out: Path, ranks: int, cases: list[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": str(HERE)}
    started = [
        subprocess.Popen([sys.executable, __file__, folder, str(out), *cases], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, cwd=HERE)
        for rank in range(ranks)
    ]
    try:
        assert [process.wait(600) for process in started] == [0] * ranks
    finally:
        for process in started:
            process.kill()


if __name__ == "__main__":
    lead()


WAITS = """
import datetime, time
import torch.distributed as dist
dist.distributed_c10d.default_pg_timeout = datetime.timedelta(seconds=1)
from saccade_torch.ranks import join, tell
join()
if dist.get_rank() == 0:
    time.sleep(5)
    tell("go on")
else:
    box = [None]
    dist.broadcast_object_list(box, src=0)
    print("told:", box[0])
"""


def test_ranks_wait_for_the_first_however_long_it_samples(tmp_path: Path):
    file = tmp_path / "waits.py"
    file.write_text(WAITS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(file)]
    env = {**os.environ, "PYTHONPATH": str(HERE.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert "told: go on" in done.stdout, done.stderr[-2000:]
