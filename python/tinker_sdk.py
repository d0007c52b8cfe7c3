"""The official Tinker SDK against a server of ours: `tinker_sdk.py URL IMAGE.png`, one JSON object of findings on stdout.

The SDK is used as it comes from PyPI. What it finds is judged by src/serve/tinker/sdk.test.ts.
"""

from __future__ import annotations

import inspect
import io
import json
import logging
import re
import sys
import tarfile
import time
import urllib.request
import warnings

import numpy as np
import tinker
from tinker import types

url, path = sys.argv[1], sys.argv[2]
VISION_START, VISION_END = 291, 292
IMAGE_TOKENS = 4

said: list[str] = []


class Keep(logging.Handler):
    """Warnings, and what tells of a second try: an answer that is no success (408 only ends a long poll), or the word."""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        failed = record.name == "httpx" and not re.search(r"HTTP/1.1 (2\d\d|408)", message)
        if record.levelno >= logging.WARNING or failed or "retry" in message.lower():
            said.append(f"{record.levelname} {message}")
        answers.append(record.name == "httpx")


answers: list[bool] = []
logging.getLogger().addHandler(Keep(level=logging.INFO))
for name in (None, "httpx"):
    logging.getLogger(name).setLevel(logging.INFO)
warnings.showwarning = lambda message, *_: said.append(f"WARN {message}")

with open(path, "rb") as file:
    image = types.ImageChunk(data=file.read(), format="png", expected_tokens=IMAGE_TOKENS)


def text(*tokens: int) -> types.EncodedTextChunk:
    return types.EncodedTextChunk(tokens=list(tokens))


def tensor(values, dtype: str) -> types.TensorData:
    array = np.asarray(values, dtype=np.int64 if dtype == "int64" else np.float32)
    return types.TensorData(data=array.flatten().tolist(), dtype=dtype, shape=list(array.shape))


before = [40, 41, 42, VISION_START]
after = [VISION_END, 50, 60, 70, 80, 51, 61]
chunks = [text(*before[:2]), text(*before[2:]), image, text(*after)]
ids = [*before, *([0] * IMAGE_TOKENS), *after]
targets = [*ids[1:], 71]
learned = [0.0] * (len(ids) - 5) + [1.0] * 5


def datum(**inputs) -> types.Datum:
    return types.Datum(model_input=types.ModelInput(chunks=chunks), loss_fn_inputs=inputs)


supervised = datum(target_tokens=tensor(targets, "int64"), weights=tensor(learned, "float32"))
adam = types.AdamParams(learning_rate=0.02, grad_clip_norm=1.0)

service = tinker.ServiceClient(base_url=url, api_key="tml-a-key-of-24-characters", user_metadata={"what": "check"})
found: dict[str, object] = {"version": tinker.__version__}
found["models"] = [model.model_name for model in service.get_server_capabilities().supported_models]

client = service.create_lora_training_client("policy", rank=8, user_metadata={"renderer_name": "ours"})
found["info"] = client.get_info().model_data.model_name

losses = []
for _ in range(12):
    learn = client.forward_backward([supervised, supervised], "cross_entropy")
    step = client.optim_step(adam)
    losses.append(learn.result().metrics["loss:sum"])
    step.result()
found["supervised"] = losses

# What the sampler says of a prompt is what the learner says of it.
forward = client.forward([supervised], "cross_entropy").result()
scores = forward.loss_fn_outputs[0]["logprobs"].data
sampler = client.save_weights_and_get_sampling_client()
prompt = types.ModelInput(chunks=[*chunks, text(71)])
scored = sampler.compute_logprobs(prompt).result()
found["scores"] = {"learner": scores, "sampler": scored}

params = types.SamplingParams(max_tokens=6, temperature=0.7, seed=2**63 - 5, stop=[])
known = inspect.signature(sampler.sample).parameters
image_prompt = types.ModelInput(chunks=chunks)
newer = {
    "topk_sample_logprobs": 2,
    "target_prompt_logprobs": tensor([[target, 71] for target in targets[:-1]], "int64"),
    "prompt_alt_tokens_k": 4,
}
newer = {name: value for name, value in newer.items() if name in known}
drawn = sampler.sample(
    image_prompt, 3, params, include_prompt_logprobs=True, topk_prompt_logprobs=3, **newer
).result()
if "target_prompt_logprobs" in newer:
    asked = drawn.target_prompt_logprobs
    found["targets"] = {"shape": asked.shape, "first": asked.data[::2], "second": asked.data[1::2]}
    found["top_samples"] = [len(row or []) for row in drawn.sequences[0].topk_logprobs or []] if hasattr(drawn.sequences[0], "topk_logprobs") else None
if "prompt_alt_tokens_k" in newer:
    others = drawn.prompt_alt_tokens
    found["others"] = {"shape": others.tokens.shape, "tokens": others.tokens.data, "logprobs": others.logprobs.data}
found["prompt"] = {"logprobs": drawn.prompt_logprobs, "top": drawn.topk_prompt_logprobs}
again = sampler.sample(types.ModelInput(chunks=chunks), 3, params).result()
found["samples"] = [
    {
        "tokens": one.tokens,
        "logprobs": one.logprobs,
        "stop": one.stop_reason,
        "again": other.tokens,
    }
    for one, other in zip(drawn.sequences, again.sequences, strict=True)
]

# A step moves the learner; the sampler is a snapshot and stays.
learn = client.forward_backward([supervised], "cross_entropy").result()
client.optim_step(adam).result()
# The same weights, looked at and learned from.
found["looked"] = {"cross_entropy": [one.metrics["loss:sum"] for one in (forward, learn)]}
found["snapshot_stays"] = sampler.sample(types.ModelInput(chunks=chunks), 3, params).result().sequences[0].tokens == drawn.sequences[0].tokens

old = [0.0 if weight == 0 else score - 0.1 for score, weight in zip(scores, learned, strict=True)]
advantages = [0.0 if weight == 0 else (-1.0) ** place for place, weight in enumerate(learned)]
policy = datum(
    target_tokens=tensor(targets, "int64"), logprobs=tensor(old, "float32"), advantages=tensor(advantages, "float32")
)
masked = datum(
    target_tokens=tensor(targets, "int64"),
    logprobs=tensor(old, "float32"),
    advantages=tensor(advantages, "float32"),
    sequence_ratio_mask=tensor(learned, "float32"),
)
q, gain, mask = np.array(old), np.array(advantages), np.array(learned)
# Targets that are brackets of images have no probability.
said_at = np.array([target not in (VISION_START, VISION_END) for target in targets])


def clipped(ratio, low: float, high: float) -> float:
    return float(-np.minimum(ratio * gain, np.clip(ratio, low, high) * gain).sum())


formulas = {
    "importance_sampling": (None, lambda p: float(-(np.exp(p - q) * gain).sum())),
    "ppo": (None, lambda p: clipped(np.exp(p - q), 0.8, 1.2)),
    "cispo": (
        {"clip_low_threshold": 0.5, "clip_high_threshold": 1.05},
        lambda p: float(-(np.clip(np.exp(p - q), 0.5, 1.05) * p * gain).sum()),
    ),
    "gspo": (None, lambda p: clipped(np.exp(((p - q) * mask).sum() / mask.sum()), 0.8, 1.2)),
    "dro": ({"beta": 0.05}, lambda p: float(-((p * gain - 0.025 * (p - q) ** 2) * said_at).sum())),
}
found["policy"] = {}
for name, (config, formula) in formulas.items():
    batch = [masked if name == "gspo" else policy]
    looked = client.forward(batch, name, loss_fn_config=config).result().metrics["loss:sum"]
    result = client.forward_backward(batch, name, loss_fn_config=config).result()
    found["looked"][name] = [looked, result.metrics["loss:sum"]]
    logprobs = np.array(result.loss_fn_outputs[0]["logprobs"].data)
    found["policy"][name] = [result.metrics["loss:sum"], formula(logprobs)]
client.optim_step(adam).result()
wide = datum(
    target_tokens=tensor([[target, 71] for target in targets], "int64"),
    weights=tensor([[weight, weight / 2] for weight in learned], "float32"),
)
# Before 0.25 the client reads all outputs of a call in the shape of the first.
calls = [[wide, supervised]] if tuple(map(int, tinker.__version__.split(".")[:2])) >= (0, 25) else [[wide], [supervised]]
output = [one for call in calls for one in client.forward_backward(call, "cross_entropy").result().loss_fn_outputs]
found["several_targets"] = [one["logprobs"].shape for one in output]
client.optim_step(adam).result()


def squares(_, logprobs):
    import torch

    loss = torch.stack([(one * torch.tensor(learned)).square().sum() for one in logprobs]).sum()
    return loss, {"squares": float(loss.detach())}


custom = []
other = service.create_lora_training_client("policy", rank=4)
for _ in range(4):
    custom.append(other.forward_backward_custom([supervised], squares).result().metrics["squares"])
    other.optim_step(adam).result()
found["custom"] = custom

note = {"user_metadata": {"note": "kept"}} if "user_metadata" in inspect.signature(client.save_state).parameters else {}
saved = client.save_state("first", ttl_seconds=3600, **note).result().path
named = client.save_weights_for_sampler("first").result().path
found["paths"] = [saved, named]


def next_losses(trained) -> list[float]:
    out = []
    for _ in range(3):
        out.append(trained.forward_backward([supervised], "cross_entropy").result().metrics["loss:sum"])
        trained.optim_step(adam).result()
    return out


found["went_on"] = next_losses(client)
found["resumed"] = next_losses(service.create_training_client_from_state_with_optimizer(saved))
found["fresh_optimizer"] = next_losses(service.create_training_client_from_state(saved))
greedy = types.SamplingParams(max_tokens=5, temperature=0.0)
base = service.create_sampling_client(base_model="policy")
tuned = service.create_sampling_client(model_path=named)
found["greedy"] = {
    name: one.sample(types.ModelInput(chunks=chunks), 1, greedy).result().sequences[0].tokens
    for name, one in {"base": base, "tuned": tuned}.items()
}
found["base_model"] = tuned.get_base_model()

full = service.create_lora_training_client("policy", rank=0)
found["full"] = next_losses(full)

rest = tinker.RestClient(base_url=url, api_key="tml-a-key-of-24-characters") if hasattr(tinker, "RestClient") else service.create_rest_client()
run = rest.get_training_run_by_tinker_path(saved).result()
found["run"] = [run.base_model, run.is_lora, run.lora_rank, run.user_metadata]
found["runs"] = len(rest.list_training_runs().result().training_runs)
listed = rest.list_checkpoints(run.training_run_id).result().checkpoints
found["checkpoints"] = [[one.checkpoint_id, one.checkpoint_type, one.expires_at is not None] for one in listed]
rest.set_checkpoint_ttl_from_tinker_path(saved, None).result()
rest.delete_checkpoint_from_tinker_path(named).result()
found["left"] = [one.tinker_path for one in rest.list_user_checkpoints().result().checkpoints]
found["sessions"] = len(rest.list_sessions().result().sessions)


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address) as answer:
        return answer.read()


if hasattr(client, "save_weights_external"):
    urls = rest.get_external_weights_urls(client.save_weights_external("out").result().path).result().urls
    exported = {name: fetch(address) for name, address in urls.items()}
else:
    address = rest.get_checkpoint_archive_url_from_tinker_path(saved).result().url
    with tarfile.open(fileobj=io.BytesIO(fetch(address))) as archive:
        exported = {one.name: archive.extractfile(one).read() for one in archive if one.size > 0}
found["exported"] = sorted(exported)
found["exported_rank"] = json.loads(exported["adapter_config.json"])["r"]
found["exported_numbers"] = len(exported["adapter_model.safetensors"])


def tried(work) -> object:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - every kind is a finding
        return f"{type(error).__name__}: {error}"


def failure(work) -> str:
    return str(tried(work) or "none")


def loss_of(path: str) -> float:
    loaded = service.create_training_client_from_state(path)
    return loaded.forward([supervised], "cross_entropy").result().metrics["loss:sum"]


# A name is taken until somebody says to overwrite it.
twice = other.save_state("twice").result().path
first_loss = loss_of(twice)
next_losses(other)
refused = failure(lambda: other.save_state("twice").result())
kept_loss = loss_of(twice)
other.save_state("twice", overwrite=True).result()
found["saved_twice"] = {"refused": refused, "losses": [first_loss, kept_loss, loss_of(twice)]}


def public() -> list[str]:
    return [one.tinker_path for one in rest.list_user_checkpoints().result().checkpoints if one.public]


published = failure(lambda: rest.publish_checkpoint_from_tinker_path(twice).result()), public()
withdrawn = failure(lambda: rest.unpublish_checkpoint_from_tinker_path(twice).result()), public()
found["public"] = [*published, *withdrawn, twice]
rest.delete_checkpoint_from_tinker_path(twice).result()

if hasattr(types, "SessionSearchRequest"):
    # Sampling that nobody waits for any more: far more than is drawn before the server hears of it.
    long = types.SamplingParams(max_tokens=900, temperature=1.0, stop=[])
    abandoned = base.sample(types.ModelInput.from_ints([40, 41, 42]), 256, long)
    # On a busy machine the request takes a while to be sent, and one that was not sent needs no cancelling.
    time.sleep(2)
    abandoned.cancel()
    time.sleep(1)

found["said"] = list(said)
found["answers"] = sum(answers)

if hasattr(types, "SessionSearchRequest"):
    key = "tml-a-key-of-24-characters"
    made = {}
    for name in ("Nightly maze RUN", "nightly lake", "sokoban"):
        one = tinker.ServiceClient(base_url=url, api_key=key, display_name=name, user_metadata={"team": "a"})
        one.create_sampling_client(base_model="policy")
        made[name] = one
    made["sokoban"].close("errored", detail="on purpose").result()
    made["nightly lake"].close("success").result()

    def search(**asked) -> list:
        pages, request = [], types.SessionSearchRequest(**asked)
        while True:
            page = rest.search_sessions(request).result()
            pages.append(page.sessions)
            if page.next_cursor is None:
                return pages
            request = request.model_copy(update={"cursor": page.next_cursor})

    def names(**asked) -> list:
        return [one.display_name for page in search(**asked) for one in page]

    def look() -> dict:
        [whole] = search(display_name="SOKOBAN")
        lake = search(display_name="lake")[0][0]
        finished = types.ClientFinishedSessionStatusQuery
        return {
            "one": [whole[0].project_id, whole[0].owner, whole[0].status.model_dump(), whole[0].user_metadata],
            "words": names(display_name="run NIGHT"),
            "none": names(display_name="nightly sokoban"),
            "id": names(session_id=lake.session_id),
            "either": names(session_id=lake.session_id, display_name="maze"),
            "metadata": names(user_metadata={"team": "a"}),
            "active": names(user_metadata={"team": "a"}, statuses=[types.ActiveSessionStatusQuery()]),
            "errored": names(user_metadata={"team": "a"}, statuses=[finished(reasons=["errored", "interrupted"])]),
            "finished": names(user_metadata={"team": "a"}, statuses=[finished()]),
            "failed": names(statuses=[types.FailedSessionStatusQuery(), types.CancelledSessionStatusQuery()]),
            "pages": [[one.display_name for one in page] for page in search(user_metadata={"team": "a"}, limit=2)],
            "others": names(owner=types.UserSearchOwner(owner_urns=["somebody"])),
            "all": [len(search()[0]), sum(len(page) for page in search(limit=1))],
        }

    found["search"] = tried(look)

found["failures"] = {
    "unknown loss": failure(lambda: client.forward_backward([supervised], "no_such_loss").result()),
    "short targets": failure(
        lambda: client.forward_backward(
            [datum(target_tokens=tensor([1, 2], "int64"), weights=tensor([1, 1], "float32"))], "cross_entropy"
        ).result()
    ),
    "unknown model": failure(lambda: service.create_lora_training_client("another", rank=8)),
    "unknown checkpoint": failure(lambda: service.create_training_client_from_state("tinker://none/weights/none")),
    "wrong expected tokens": failure(
        lambda: base.sample(
            types.ModelInput(chunks=[text(40), types.ImageChunk(data=image.data, format="png", expected_tokens=9)]), 1, greedy
        ).result()
    ),
}
print(json.dumps(found))
