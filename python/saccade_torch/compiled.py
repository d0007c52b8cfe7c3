"""Functions that are compiled where that pays: on CUDA, unless the settings say no. Rows come in any number, so their dimension is left open."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])


@lru_cache(maxsize=None)
def compiled(function: F) -> F:
    """The first tensor says how many rows there are; one row is not worth a compilation of its own."""
    fast = torch.compile(function, fullgraph=True)

    def call(*given: Any) -> Any:
        tensors = [x for x in given if isinstance(x, Tensor)]
        rows = len(tensors[0])
        if rows == 1:
            return function(*given)
        open_rows(*(x for x in tensors if len(x) == rows))
        return fast(*given)

    return call  # type: ignore[return-value]


def open_rows(*tensors: Tensor) -> None:
    for tensor in tensors:
        torch._dynamo.maybe_mark_dynamic(tensor, 0)
