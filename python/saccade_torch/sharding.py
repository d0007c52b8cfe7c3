"""A network in pieces over several ranks (FSDP2): every layer and block is a unit that is gathered when it is used, and the root holds the rest. What is
32-bit stays so in its piece and is gathered in the dtype of the computation; gradients are reduced in 32 bits. A frozen tower is small beside the rest and
stays whole on every rank, so that its features are computed once and need no collective. So does a quantised base: cut, its blocks would lose their scales. Offloaded, the pieces, their gradients and the optimizer's state lie in
host memory, and a unit is on the device only while it is used; that helps one process too.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .quantized import QuantizedLinear


def shard(network: nn.Module, ranks: int, offload: bool = False) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    if not dist.is_initialized():
        # Offloading in one process: a group of one.
        dist.init_process_group("cpu:gloo,cuda:nccl" if network.device.type == "cuda" else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh(network.device.type, (ranks,))
    wide = network.compute in (torch.float32, torch.float64)
    policy = MixedPrecisionPolicy(param_dtype=None if wide else network.compute, reduce_dtype=torch.float32, cast_forward_inputs=False)
    frozen = not any(parameter.requires_grad for parameter in network.visual.parameters())
    ignored = set(network.visual.parameters()) if frozen else set()
    for module in network.modules():
        if isinstance(module, QuantizedLinear):
            ignored |= set(module.to(network.device).parameters())
    where = CPUOffloadPolicy(pin_memory=network.device.type == "cuda") if offload else OffloadPolicy()
    units = [*network.language.layers, *([] if frozen else network.visual.blocks)]
    for unit in units:
        fully_shard(unit, mesh=mesh, mp_policy=policy, offload_policy=where, ignored_params=ignored)
    fully_shard(network, mesh=mesh, mp_policy=policy, offload_policy=where, ignored_params=ignored)
    if frozen:
        network.visual.to(network.device)
    network.ranks = ranks
    network.sharded = True


def whole(tensor: Tensor) -> Tensor:
    """Of a tensor in pieces, all of it; every rank must ask."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def like(full: Tensor, piece: Tensor) -> Tensor:
    """The piece of `full` (rank 0's) that belongs where `piece` is."""
    if not hasattr(piece, "full_tensor"):
        return full
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(full.to(piece.device, piece.dtype), piece.device_mesh, piece.placements)


def writes() -> bool:
    """Whether this rank is the one that writes files and samples."""
    return not dist.is_initialized() or dist.get_rank() == 0
