"""Python environments for the proofs that meet other stacks: `python3 install.py [NAME ...] [--into FOLDER]`, by default all, into .cache/neighbours.

Prints a line `export VARIABLE=…` for each, so `eval "$(python3 python/neighbours/install.py openenv)"` is enough before `npm run prove -- openenv`.
A complete environment is only looked at. An environment that needs torch asks for TORCH, so that pip never brings another; where pip would bring a
CUDA build, point it at a CPU build with PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

TORCH = "torch==2.13.0"
# name: (variable, oldest Python, packages)
ENVIRONMENTS = {
    "openenv": ("SACCADE_OPENENV_PYTHON", (3, 10), ["openenv==0.10.0", "numpy", "pillow"]),
    "trl": ("SACCADE_TRL_PYTHON", (3, 10), [TORCH, "trl==1.16.0", "openenv==0.10.0", "pillow"]),
    "verifiers": ("SACCADE_VERIFIERS_PYTHON", (3, 11), ["verifiers==0.4.0", "gymnasium", "pillow"]),
    "trackers": ("SACCADE_TRACKERS_PYTHON", (3, 10), ["tensorboard==2.21.0", "mlflow==3.17.2", "wandb==0.31.0", "trackio[tensorboard]==0.43.0"]),
    "harbor": ("SACCADE_HARBOR_PYTHON", (3, 12), ["harbor==0.24.0"]),
}


def interpreter(oldest: tuple[int, int]) -> str:
    """This Python, or the oldest on the path that is new enough."""
    if sys.version_info >= oldest:
        return sys.executable
    for minor in range(oldest[1], oldest[1] + 5):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    sys.exit(f"Python {oldest[0]}.{oldest[1]} or newer is needed: put python3.{oldest[1]} on the PATH.")


def make(name: str, folder: pathlib.Path) -> pathlib.Path:
    _, oldest, packages = ENVIRONMENTS[name]
    python, complete, recipe = folder / "bin" / "python", folder / "complete", " ".join(packages)
    if complete.exists() and complete.read_text() == recipe:
        return python
    if folder.exists() and not (folder / "pyvenv.cfg").exists():
        sys.exit(f"{folder} is there and is no Python environment: name another folder, or delete it.")
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{recipe} goes into {folder}: some minutes.", file=sys.stderr)
    for command in (
        [interpreter(oldest), "-m", "venv", folder],
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
    ):
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            sys.exit(f"{name} could not be installed: {' '.join(map(str, command))}")
    complete.write_text(recipe)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(ENVIRONMENTS)}; default: all")
    parser.add_argument("--into", default=".cache/neighbours", type=pathlib.Path)
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in ENVIRONMENTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; one of {', '.join(ENVIRONMENTS)}")
    for name in asked.names or ENVIRONMENTS:
        print(f"export {ENVIRONMENTS[name][0]}={make(name, (asked.into / name).absolute())}", flush=True)


main()
