"""A few steps with the official Tinker SDK: `tinker_steps.py URL INDEX STEPS`. Prints one JSON object; run by src/serve/tinker/kill.test.ts while the server is killed."""

from __future__ import annotations

import json
import logging
import sys

import tinker
from tinker import types

url, index, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
logging.disable(logging.WARNING)


def datum(step: int) -> types.Datum:
    ids = [40 + (index * 7 + step * 3 + place * 5) % 200 for place in range(9)]
    return types.Datum(
        model_input=types.ModelInput.from_ints(ids[:-1]),
        loss_fn_inputs={
            "target_tokens": types.TensorData(data=ids[1:], dtype="int64", shape=[8]),
            "weights": types.TensorData(data=[1.0] * 8, dtype="float32", shape=[8]),
        },
    )


client = tinker.ServiceClient(base_url=url, api_key="tml-any").create_lora_training_client("policy", rank=2, seed=index)
losses, tokens = [], []
for step in range(steps):
    learn = client.forward_backward([datum(step)], "cross_entropy")
    move = client.optim_step(types.AdamParams(learning_rate=0.01))
    losses.append(learn.result().metrics["loss:sum"])
    move.result()
    if step % 3 == 2:
        client.save_state("state", overwrite=True).result()
    if step == steps // 2:
        sampler = client.save_weights_and_get_sampling_client()
greedy = types.SamplingParams(max_tokens=4, temperature=0.0, stop=[])
tokens = sampler.sample(types.ModelInput.from_ints([40, 41]), 1, greedy).result().sequences[0].tokens
client.save_state("final").result()
print(json.dumps({"model": client.get_info().model_id, "losses": losses, "tokens": tokens}))
