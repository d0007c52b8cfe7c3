"""Saccade's PyTorch worker: learners and samplers of vision-language models behind one HTTP door (see docs/guide/pytorch.md)."""

__version__ = "0.1.0"
