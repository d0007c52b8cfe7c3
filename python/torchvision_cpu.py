"""torchvision next to a CPU build of torch, in a folder of its own, for tests: `python3 torchvision_cpu.py FOLDER`, then PYTHONPATH=FOLDER.

Its compiled part is built against a CUDA torch and does not load beside a CPU one. Processors and vLLM need its transforms only, which are plain
torch, but importing them registers shapes for the compiled operators. So operators that are missing by then get a name and nothing more.
"""

import pathlib
import subprocess
import sys

TORCHVISION = "0.28.0"
"""The release made for torch 2.13."""

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
    folder = pathlib.Path(sys.argv[1]).absolute()
    if not (folder / "sitecustomize.py").exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, f"torchvision=={TORCHVISION}"], check=True)
        (folder / "sitecustomize.py").write_text(HOOK)


if __name__ == "__main__":
    main()
