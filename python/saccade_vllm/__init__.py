"""What `saccade vllm start` adds to vLLM's workers (`--worker-extension-cls saccade_vllm.Extension`): two faults of vLLM 0.32 on the CPU are mended, and
weights can be taken from a learner's memory (`transfer.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.platforms import current_platform
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class Extension:
    """Mixed into a worker; /collective_rpc calls its methods."""

    model_runner: GPUModelRunner

    def saccade_after_reload(self) -> None:
        """The CPU kernels keep a packed copy of a language head that is tied to the embedding, and a reload forgets it: the head would be the old one."""
        for layer in self.model_runner.get_model().modules():
            method = getattr(layer, "quant_method", None)
            if hasattr(layer, "cpu_linear") and type(method).__name__ == "UnquantizedEmbeddingMethod":
                method.process_weights_after_loading(layer)


def spare_generators(sample: Any) -> Any:
    """A prompt that is read in pieces is drawn from after each piece, and what was drawn is dropped. vLLM then turns back the request's generator, which one of the CPU
    can't do: the engine dies. So such a request draws without its generator, which stays where it was."""

    def sample_tokens(self: GPUModelRunner, *given: Any) -> Any:
        generators = self.input_batch.generators
        half_read = np.nonzero(self.discard_request_mask.np[: self.input_batch.num_reqs])[0]
        spared = {row: generators.pop(row) for row in map(int, half_read) if row in generators}
        try:
            return sample(self, *given)
        finally:
            generators.update(spared)

    return sample_tokens


if current_platform.is_cpu():
    GPUModelRunner.sample_tokens = spare_generators(GPUModelRunner.sample_tokens)  # type: ignore[method-assign]

WeightTransferEngineFactory.register_engine("saccade", "saccade_vllm.transfer", "Taker")
