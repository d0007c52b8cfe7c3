"""TRL trains on our lake through OpenEnv: `trl_step.py URL TOKENIZER_FOLDER OUT` prints what the step logged, as JSON.

The policy is a tiny Qwen3 with random weights that was shown each move a few times, so that it speaks and knows nothing of the lake. TRL's
`GRPOTrainer` samples through a rollout function, as TRL's own OpenEnv examples do: one connection of the official client per prompt, several
turns, the lake's words as context and the model's as completion. Observations are text, because TRL's rollout functions return no images.
"""

import json
import os
import random
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from datasets import Dataset
from openenv.core.generic_client import GenericEnvClient
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

URL, FOLDER, OUT = sys.argv[1:4]
LAKE = {"env": "frozen_lake", "size": 2, "p": 1, "protocol": "keyword", "observation": "text", "prompt": "brief", "maxTurns": 4}
MOVES = ["left", "right", "up", "down"]
SEEDS, SIBLINGS, MAX_TOKENS = 2, 8, 16

torch.set_num_threads(1)
torch.manual_seed(0)
tokenizer = AutoTokenizer.from_pretrained(FOLDER)
tokenizer.padding_side = "left"
model = Qwen3ForCausalLM(
    Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=2048, tie_word_embeddings=True,
    )
)


def chat(messages) -> list[int]:
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def ids_of(text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


END = tokenizer.convert_tokens_to_ids("<|im_end|>")


def told(observation) -> list[int]:
    """What the lake says after a reply."""
    return ids_of(f"\n<|im_start|>user\n{observation['text']}<|im_end|>\n<|im_start|>assistant\n")


def teach_to_speak() -> None:
    """Random moves on other lakes: the model learns the form, not the way."""
    chance, shown = random.Random(0), []
    with GenericEnvClient(base_url=URL).sync() as env:
        for seed in range(100, 108):
            result = env.reset(seed=seed, **LAKE)
            ids = chat([{"role": "user", "content": result.observation["text"]}])
            labels = [-100] * len(ids)
            while not result.done:
                move = f"<action>{chance.choice(MOVES)}</action>"
                result = env.step({"action_str": move})
                said, more = ids_of(move) + [END], told(result.observation)
                ids += said + more
                labels += said + [-100] * len(more)
            shown.append((torch.tensor([ids]), torch.tensor([labels])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(120):
        ids, labels = shown[step % len(shown)]
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def sample(ids: list[int]) -> tuple[list[int], list[float]]:
    said, logps, cache, given = [], [], None, torch.tensor([ids])
    while len(said) < MAX_TOKENS and (not said or said[-1] != END):
        out = model(input_ids=given, past_key_values=cache, use_cache=True)
        cache, logits = out.past_key_values, torch.log_softmax(out.logits[0, -1].float(), -1)
        drawn = int(torch.multinomial(logits.exp(), 1))
        said.append(drawn)
        logps.append(float(logits[drawn]))
        given = torch.tensor([[drawn]])
    return said, logps


episodes = []


def play(seed: int) -> dict:
    with GenericEnvClient(base_url=URL).sync() as env:
        result = env.reset(seed=seed, **LAKE)
        prompt = chat([{"role": "user", "content": result.observation["text"]}])
        completion, logps, mask, total, turns = [], [], [], 0.0, 0
        while not result.done:
            said, scores = sample(prompt + completion)
            completion += said
            logps += scores
            mask += [1] * len(said)
            text = tokenizer.decode([one for one in said if one != END])
            result = env.step({"action_str": text})
            total += result.reward
            turns += 1
            if not result.done:
                more = told(result.observation)
                completion += more
                logps += [0.0] * len(more)
                mask += [0] * len(more)
        episodes.append({"seed": seed, "turns": turns, "reward": total, "success": result.metadata["success"]})
        return {"prompt_ids": prompt, "completion_ids": completion, "logprobs": logps, "env_mask": mask, "earned": total}


def rollout(prompts, trainer) -> dict:
    # One prompt for each completion here, siblings side by side.
    played = [play(int(prompt.split()[-1])) for prompt in prompts]
    return {key: [one[key] for one in played] for key in played[0]}


def earned(completions, earned, **_):
    return earned


teach_to_speak()
before = [weight.detach().clone() for weight in model.parameters()]
trainer = GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=earned,
    train_dataset=Dataset.from_dict({"prompt": [f"seed {seed}" for seed in range(SEEDS)]}),
    rollout_func=rollout,
    args=GRPOConfig(
        output_dir=OUT, max_steps=1, per_device_train_batch_size=SEEDS * SIBLINGS, num_generations=SIBLINGS, beta=0.0,
        max_completion_length=1024, learning_rate=1e-3, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, bf16=False,
        # It would switch off the cache that `sample` uses.
        gradient_checkpointing=False,
    ),
)
trainer.train()
moved = max(float((new.detach() - old).abs().max()) for new, old in zip(model.parameters(), before))
logged = next(row for row in trainer.state.log_history if "loss" in row)
print(json.dumps({"episodes": episodes, "moved": moved, "logged": {key: value for key, value in logged.items() if isinstance(value, (int, float))}}))
