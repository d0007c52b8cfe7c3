"""Saccade's PyTorch worker: learners and samplers of Qwen-VL models behind one HTTP door (see docs/torch.md)."""

__version__ = "0.1.0"
