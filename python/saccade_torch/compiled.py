"""Functions that are compiled where that pays: on CUDA, unless the settings say no. Rows come in any number, so the first dimension is left open."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])


@lru_cache(maxsize=None)
def compiled(function: F) -> F:
    """With the rows of its tensors open; one row is not worth a compilation of its own."""
    fast = torch.compile(function, fullgraph=True)

    def call(*given: Any) -> Any:
        if any(isinstance(x, Tensor) and x.dim() and len(x) == 1 for x in given):
            return function(*given)
        return fast(*(open_rows(x) if isinstance(x, Tensor) else x for x in given))

    return call  # type: ignore[return-value]


def open_rows(x: Tensor) -> Tensor:
    if x.dim():
        torch._dynamo.maybe_mark_dynamic(x, 0)
    return x
