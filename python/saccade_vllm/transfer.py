"""vLLM's end of `saccade_torch.transfer`, behind its weight-transfer routes: `--weight-transfer-config '{"backend": "saccade"}'`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import WeightTransferEngine, WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from saccade_torch.transfer import Group, join


@dataclass
class Meeting(WeightTransferInitInfo):
    host: str
    port: int
    size: int
    backend: str


@dataclass
class Parcel(WeightTransferUpdateInfo):
    names: list[str]
    dtypes: list[str]
    shapes: list[list[int]]


class Taker(WeightTransferEngine[Meeting, Parcel]):
    init_info_cls = Meeting
    update_info_cls = Parcel
    group: Group | None = None

    def init_transfer_engine(self, init_info: Meeting) -> None:
        parallel = self.parallel_config
        rank = 1 + parallel.data_parallel_index * parallel.world_size + parallel.rank
        self.group = join(init_info.host, init_info.port, rank, init_info.size, init_info.backend)

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Parcel) -> None:
        group = self.group
        if group is None:
            raise RuntimeError("Nobody was met to take weights from: call /init_weight_transfer_engine first.")

        def taken() -> Iterator[tuple[str, torch.Tensor]]:
            for name, dtype, shape in zip(update_info.names, update_info.dtypes, update_info.shapes):
                tensor = torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)
                group.broadcast(tensor)
                yield name, tensor

        self.model.load_weights(taken())

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        self.group = None

    def shutdown(self) -> None:
        self.group = None
