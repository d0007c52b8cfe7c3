"""AdamW and Muon, equal to src/engine/native/optimizer.ts. Muon moves hidden matrices along their orthogonalised momentum (Keller Jordan's
convention: a rate near 0.01–0.02 whatever the size); all other parameters take AdamW. Weight decay is decoupled and for hidden matrices only.

Both keep their state under the same names: `first` (of matrices under Muon, the momentum) and `second`.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Literal, Mapping, Sequence

import torch
from torch import Tensor, nn

from .adapters import ADAPTER_PREFIX
from .moments import moments_of
from .network import VALUE_HEAD, VISION_PREFIX
from .sharding import like, whole

Group = Literal["vision", "merger", "language", "embedding", "head", "lora"]
QUINTIC = (3.4445, -4.775, 2.0315)
NEWTON_SCHULZ_STEPS = 5
MOST_TOGETHER = 2**26
"""Numbers that are orthogonalised at once: more would only take memory."""
Options = Mapping[str, Any]


def group_of(name: str) -> Group:
    name = name.removeprefix(ADAPTER_PREFIX)
    if ".lora_" in name:
        return "lora"
    if name.startswith(VISION_PREFIX):
        return "merger" if "merger" in name else "vision"
    if name in ("lm_head.weight", VALUE_HEAD):
        return "head"
    return "embedding" if name.endswith("language_model.embed_tokens.weight") else "language"


def is_matrix(name: str, parameter: Tensor) -> bool:
    """A hidden matrix of a block or merger. Adapters take AdamW: orthogonalising the factors would not orthogonalise their product."""
    return parameter.dim() == 2 and ".lora_" not in name and not re.search(r"embed|^lm_head|^score", name.removeprefix(ADAPTER_PREFIX))


class Optimizer:
    def __init__(self, parameters: dict[str, nn.Parameter], muon_dtype: torch.dtype, small: bool = False) -> None:
        """`muon_dtype`: that of the Newton–Schulz steps; bfloat16 is enough where the model computes in it. `small`: moments of 8 bits."""
        self.parameters = parameters
        self.muon_dtype = muon_dtype
        self.step = 0
        self.first, self.second = moments_of(parameters, small)
        # One group for each kind of rate and decay; the numbers are set at every step.
        kinds: dict[tuple[Group, bool], list[str]] = {}
        for name, parameter in parameters.items():
            kinds.setdefault((group_of(name), is_matrix(name, parameter)), []).append(name)
        self.kinds = kinds

    def fresh(self) -> None:
        self.first.zero()
        self.second.zero()
        self.step = 0

    def grad_norm(self) -> float:
        norms = torch._foreach_norm([gradient for _, gradient in self._gradients()])
        total = torch.linalg.vector_norm(torch.stack([whole(norm) for norm in norms]).double())
        return float(total)

    def apply(self, options: Options, scale: float) -> None:
        """One step along the gradients times `scale`."""
        if scale != 1:
            torch._foreach_mul_([gradient for _, gradient in self._gradients()], scale)
        else:
            list(self._gradients())
        self.step += 1
        for (group, matrix), names in self.kinds.items():
            rate = rate_of(group, matrix, options)
            decay = options.get("weightDecay", 0.0) if matrix else 0.0
            for batch in self.first.batches(names):
                if options["name"] == "muon" and matrix:
                    self._muon(batch, rate, decay, options.get("momentum", 0.95))
                else:
                    self._adamw(batch, rate, decay, options)

    @torch.no_grad()
    def _adamw(self, names: list[str], rate: float, decay: float, options: Options) -> None:
        parameters = [self.parameters[name] for name in names]
        count = torch.full((), self.step, dtype=torch.float32, device=parameters[0].device)
        first, second = ([kept[name] for name in names] for kept in (self.first, self.second))
        # What torch.optim.AdamW calls, without its bookkeeping for each of hundreds of parameters.
        torch._fused_adamw_(
            parameters, [parameter.grad for parameter in parameters], first, second, [], [count] * len(names), amsgrad=False, lr=rate, beta1=options.get("beta1", 0.9), beta2=options.get("beta2", 0.999),
            weight_decay=decay, eps=options.get("epsilon", 1e-8), maximize=False,
        )  # fmt: skip
        for name, one, two in zip(names, first, second):
            self.first.put(name, one, self.step)
            self.second.put(name, two, self.step)

    @torch.no_grad()
    def _muon(self, names: list[str], rate: float, decay: float, beta: float) -> None:
        parameters = [self.parameters[name] for name in names]
        momenta = [self.first[name] for name in names]
        gradients = [parameter.grad for parameter in parameters]
        torch._foreach_mul_(momenta, beta)
        torch._foreach_add_(momenta, gradients)
        directions = torch._foreach_add(gradients, momenta, alpha=beta)
        for name, momentum in zip(names, momenta):
            self.first.put(name, momentum, self.step)
        if decay != 0:
            torch._foreach_mul_(parameters, 1 - rate * decay)
        for batch in alike(parameters):
            moved = orthogonalize(torch.stack([whole(directions[i]) for i in batch]), self.muon_dtype)
            rows, columns = moved.shape[1:]
            for i, one in zip(batch, moved):
                parameter = parameters[i]
                parameter.add_(like(one.to(parameter.dtype), parameter), alpha=-rate * max(1.0, rows / columns) ** 0.5)

    def _gradients(self) -> Iterator[tuple[str, Tensor]]:
        """A parameter that no loss reached has a gradient of zeros, as if it had been reached."""
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            yield name, parameter.grad


def alike(matrices: Sequence[Tensor]) -> list[list[int]]:
    """Indexes of matrices of one shape, in batches: a small model has many small ones, and starting a product costs more than the product."""
    batches: dict[tuple[int, ...], list[list[int]]] = {}
    for i, matrix in enumerate(matrices):
        found = batches.setdefault(tuple(matrix.shape), [[]])
        if found[-1] and (len(found[-1]) + 1) * matrix.numel() > MOST_TOGETHER:
            found.append([])
        found[-1].append(i)
    return [batch for found in batches.values() for batch in found]


def orthogonalize(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """[count, rows, columns]: the nearest matrices with singular values about 1 (0.7 to 1.2), by Newton–Schulz on the smaller side."""
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    x = x.to(dtype)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    a, b, c = QUINTIC
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def clip_scale(grad_norm: float, most: float | None) -> float:
    return most / grad_norm if most and grad_norm > most else 1.0


def rate_of(group: Group, matrix: bool, options: Options) -> float:
    """`rates` gives a group's own rate. Under Muon that is the rate of the group's matrices, and the group's other parameters keep their
    proportion to it; a group without matrices takes it as it is."""
    rate = options["learningRate"]
    own = (options.get("rates") or {}).get(group)
    if options["name"] == "adamw" or matrix:
        return rate if own is None else own
    base = options.get("adamLearningRate")
    base = rate if base is None else base
    if own is None:
        return base
    return base * own / rate if group in ("vision", "merger", "language") and rate > 0 else own
