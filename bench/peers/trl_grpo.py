"""TRL's GRPOTrainer on the CPU, for bench/train.bench.ts: the same weights, shapes and numbers as ours, one step at a time.

Everything is TRL's own `train()`: its dataset or `environment_factory`, tool loop, generation and loss; it runs in a thread that waits
before each step until it is asked for one. What is ours here, so that both sides do the same work:
- every reply has exactly `tokens` ids: the end of turn and the vision ids, which would break the model's input, can't be sampled;
- a small random model writes no tool calls, so `parse_response` is made to find one in every reply;
- logs and saving are off, and a step is one batch.
With `tuned`, two of TRL's defaults that cost time on a CPU are off too: bf16 autocast and gradient checkpointing.
"""

import queue
import threading
import time
import warnings

import numpy as np
import torch
import trl
from datasets import Dataset
from lines import serve
from PIL import Image
from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration, TrainerCallback, __version__
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_template
from trl.trainer import grpo_trainer

warnings.filterwarnings("ignore")
asked, answers = queue.Queue(), queue.Queue()
counts = {"sampling": 0, "learning": 0}  # images that went through the vision tower
lengths = []  # ids of the sequences that were learned
random = np.random.default_rng(0)


class NoVideo(Qwen3VLProcessor):
    """The video processor needs torchvision, which images do not."""

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None, **kwargs):
        super().__init__(image_processor, tokenizer, None, chat_template=chat_template, **kwargs)

    def check_argument_for_proper_class(self, argument_name, argument):
        if argument is not None:
            super().check_argument_for_proper_class(argument_name, argument)


def image():
    """A frame that nobody has seen before."""
    return Image.fromarray(random.integers(0, 256, (64, 64, 3), dtype=np.uint8))


class Walk:
    """The environment: a new frame at the start and after each action."""

    def reset(self, **_):
        return [{"type": "image", "image": image()}]

    def act(self) -> str:
        """Moves on and looks."""
        return [{"type": "image", "image": image()}, {"type": "text", "text": "You moved. Move again."}]

    def get_reward(self) -> float:
        return float(random.random())


def always_calls(tokenizer, ids, prefix=None):
    return {
        "role": "assistant",
        "content": tokenizer.decode(ids),
        "tool_calls": [{"type": "function", "function": {"name": "act", "arguments": {}}}],
    }


class Gate(TrainerCallback):
    def on_step_begin(self, *_, **__):
        asked.get()
        self.start, self.cpu = time.perf_counter(), time.process_time()

    def on_step_end(self, *_, **__):
        answers.put({"ms": (time.perf_counter() - self.start) * 1000, "cpu": (time.process_time() - self.cpu) * 1000})


def count_images(visual, args, kwargs):
    grids = kwargs.get("grid_thw", args[1] if len(args) > 1 else None)
    counts["learning" if torch.is_grad_enabled() else "sampling"] += len(grids)


def note_length(model, args, kwargs):
    if torch.is_grad_enabled():
        lengths.append(kwargs["input_ids"].shape[1])


def open_trainer(folder, out, rollouts, siblings, tokens, images, turns, prompt, masked, steps, threads, tuned):
    """`turns`: tool turns of an environment; 0: single-turn prompts of a dataset with `images` frames each."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.response_template = qwen3_template
    with open(f"{folder}/chat_template.jinja") as file:
        processor = NoVideo(Qwen2VLImageProcessorPil.from_pretrained(folder), tokenizer, chat_template=file.read())
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32)
    model.model.visual.register_forward_pre_hook(count_images, with_kwargs=True)
    model.register_forward_pre_hook(note_length, with_kwargs=True)
    groups = rollouts // siblings
    text = {"prompt": [{"role": "user", "content": prompt}]}
    rows = [{**text, **({} if turns else {"images": [image() for _ in range(images)]})} for _ in range(groups * steps)]
    environment = {"environment_factory": Walk} if turns else {"reward_funcs": lambda completions, **_: list(random.random(len(completions)))}
    grpo_trainer.parse_response = always_calls
    trainer = GRPOTrainer(
        model=model,
        processing_class=processor,
        train_dataset=Dataset.from_list(rows),
        callbacks=[Gate()],
        args=GRPOConfig(
            output_dir=out,
            max_steps=steps,
            per_device_train_batch_size=rollouts,
            num_generations=siblings,
            max_completion_length=4096 if turns else tokens,
            max_tool_calling_iterations=turns,
            generation_kwargs={"max_new_tokens": tokens, "suppress_tokens": masked},
            temperature=1.0,
            learning_rate=1e-4,
            beta=0.0,
            use_cpu=True,
            **({"bf16": False, "gradient_checkpointing": False} if tuned else {}),
            report_to="none",
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        **environment,
    )

    def train():
        # OpenMP counts threads by calling thread.
        torch.set_num_threads(threads)
        try:
            trainer.train()
        except BaseException as error:
            answers.put({"error": repr(error)})

    threading.Thread(target=train, daemon=True).start()
    return {"trl": trl.__version__, "transformers": __version__, "torch": torch.__version__}


def step():
    before = dict(counts)
    asked.put(None)
    answer = answers.get()
    return {**answer, **{name: counts[name] - before[name] for name in counts}, "length": lengths[-1] if lengths else 0}


serve({"open": open_trainer, "step": step})
