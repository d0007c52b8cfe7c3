"""Weights from this process's memory into that of an inference server: rank 0 gives, the server's workers take, over a process group made for that one
transfer (NCCL between GPUs, gloo elsewhere). Both sides import this file (`saccade_vllm` is the other), so it needs nothing but torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Mapping

import torch
from torch import Tensor
from torch.distributed import BroadcastOptions, ProcessGroup, ProcessGroupGloo, TCPStore

TIMEOUT = timedelta(minutes=5)


class Group:
    def __init__(self, store: TCPStore, rank: int, size: int, backend: str) -> None:
        self.group: ProcessGroup
        if backend == "nccl":
            from torch.distributed import ProcessGroupNCCL

            self.group = ProcessGroupNCCL(store, rank, size, TIMEOUT)
        else:
            self.group = ProcessGroupGloo(store, rank, size, TIMEOUT)

    def broadcast(self, tensor: Tensor) -> None:
        options = BroadcastOptions()
        options.rootRank = 0
        self.group.broadcast([tensor], options).wait()


def join(host: str, port: int, rank: int, size: int, backend: str) -> Group:
    """As a worker of a server that was told where the giver waits."""
    return Group(TCPStore(host, port, size, False, TIMEOUT), rank, size, backend)


@dataclass
class Offer:
    """Tensors that wait for their takers."""

    store: TCPStore
    takers: int
    tensors: Mapping[str, Tensor]

    @staticmethod
    def of(tensors: Mapping[str, Tensor], takers: int) -> Offer:
        return Offer(TCPStore("127.0.0.1", 0, takers + 1, True, TIMEOUT, wait_for_workers=False), takers, tensors)

    @property
    def backend(self) -> str:
        return "nccl" if next(iter(self.tensors.values())).is_cuda else "gloo"

    def body(self) -> dict[str, Any]:
        return {
            "port": self.store.port,
            "backend": self.backend,
            "names": list(self.tensors),
            "dtypes": [str(tensor.dtype).removeprefix("torch.") for tensor in self.tensors.values()],
            "shapes": [list(tensor.shape) for tensor in self.tensors.values()],
        }

    def give(self) -> None:
        """Returns when every taker has everything."""
        group = Group(self.store, 0, self.takers + 1, self.backend)
        with torch.no_grad():
            for tensor in self.tensors.values():
                group.broadcast(tensor.detach().contiguous())
