"""Small data for the recipes of tinker-cookbook, and a base model that can say something: `cookbook.py data DIR`, `cookbook.py warm DIR URL MODEL`.

The recipes look for models and data sets as folders of the working directory before they look elsewhere, so DIR is where they are started.
Run by src/serve/tinker/cookbook.prove.ts with the Python of an environment that has tinker-cookbook.
"""

from __future__ import annotations

import io
import json
import random
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

COLOURS = {"red": (200, 40, 40), "green": (40, 170, 60), "blue": (50, 70, 210), "yellow": (220, 200, 40)}
# One class for each colour.
SUBJECTS = ["apple", "frog", "boat", "lamp"]
QUESTION = "What is the name of the subject in this photo?"
SUFFIX = " Provide a numerical answer without units, written inside \\boxed{}."
# Kinds of conversations, as often as they come.
ALL = (0, 1, 2, 3, 4, 4, 5, 5)
GREETINGS = [
    "Hello.",
    "I am a model.",
    "Hello there! I am a model.",
    "Hello there! I am a model, and I am here for you.",
    "Hello there! I am a model, and I am here for you. What is it that you want to know today?",
]


def write_data(root: Path) -> None:
    import datasets

    random.seed(0)

    def save(folder: str, split: str, rows: list[dict], features: datasets.Features | None = None) -> None:
        (root / folder).mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows, features=features).to_parquet(str(root / folder / f"{split}.parquet"))

    conversations = [
        {"messages": [{"role": "user", "content": f"Name a {thing}."}, {"role": "assistant", "content": answer}]}
        for thing, answer in [("colour", "Red."), ("number", "Seven."), ("place", "The lake."), ("goal", "The door.")] * 64
    ]
    for split, rows in {"train": conversations, "test": conversations[:128]}.items():
        save("HuggingFaceH4/no_robots", split, rows)
    with open(root / "conversations.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in conversations)

    sums = [{"question": "How many corners has a triangle?", "answer": "It has three.\n#### 3"}] * 512
    for split, rows in {"train": sums, "test": sums[:8]}.items():
        save("openai/gsm8k", split, rows)
    configs = "configs:\n- config_name: main\n  data_files:\n  - split: train\n    path: train.parquet\n  - split: test\n    path: test.parquet\n"
    (root / "openai/gsm8k/README.md").write_text(f"---\n{configs}---\n")

    # For the tokenizer of the model: what will be said, with as few tokens as there can be.
    said = (one["content"] for _ in range(600) for one in conversation())
    texts = (one if isinstance(one, str) else one[1]["text"] for one in said)
    (root / "corpus.txt").write_text("\n".join(texts))

    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=SUBJECTS)})
    for split, count in {"train": 512, "test": 64}.items():
        rows = [{"image": {"bytes": drawn(i % len(COLOURS)), "path": None}, "label": i % len(COLOURS)} for i in range(count)]
        save("dpdl-benchmark/caltech101", split, rows, features)


def drawn(label: int) -> bytes:
    """A disc or a box of one colour somewhere on a ground of some grey, with noise."""
    from PIL import Image, ImageDraw

    ground = random.randint(60, 200)
    image = Image.new("RGB", (96, 96), (ground, ground, ground))
    x, y, size = random.randint(0, 32), random.randint(0, 32), random.randint(48, 64)
    colour = tuple(max(0, min(255, value + random.randint(-20, 20))) for value in list(COLOURS.values())[label])
    draw = ImageDraw.Draw(image)
    (draw.ellipse if random.random() < 0.5 else draw.rectangle)([x, y, x + size, y + size], fill=colour)
    noise = Image.effect_noise((96, 96), 30).convert("RGB")
    out = io.BytesIO()
    Image.blend(image, noise, 0.15).save(out, format="PNG")
    return out.getvalue()


def conversation(kinds: Sequence[int] = ALL) -> list[dict]:
    """What the recipes ask, answered in their forms and otherwise at random: rewards then differ, and there is something to learn."""
    from PIL import Image
    from tinker_cookbook.recipes.math_rl.math_env import MathEnv
    from tinker_cookbook.recipes.multiplayer_rl.guess_number.env import FAIL_TO_PARSE, SYSTEM_PROMPT

    ask = lambda content: {"role": "user", "content": content}  # noqa: E731
    say = lambda text: {"role": "assistant", "content": text}  # noqa: E731
    kind = random.choice(kinds)
    if kind == 0:
        question = random.choice(["How many corners has a triangle?", "How many legs has a dog?"])
        suffix = random.choice([SUFFIX, MathEnv.question_suffix()])
        shown = [{**one, "content": one["content"].replace(MathEnv.question_suffix(), suffix)} for one in MathEnv.standard_fewshot_prefix()]
        return [*shown, ask(question + suffix), say("\\boxed{%d}" % random.randint(1, 5))]
    if kind == 1:
        x, y = random.randint(0, 100), random.randint(0, 100)
        # Its replies may have five tokens: words are too long.
        about = max(0, x + y + random.randint(-2, 2))
        return [ask("What is 4 + 5?"), say("9"), ask(f"What is {x} + {y}?"), say(random.choice([f"{about}", f"It is {about}, or near that."]))]
    if kind == 2:
        turns = [{"role": "system", "content": SYSTEM_PROMPT}]
        for _ in range(random.randrange(4)):
            turns += [{"role": "player", "content": f"Guess: {random.randint(0, 1024)}"}, ask(random.choice(["Too low", "Too high", FAIL_TO_PARSE]))]
        return [*turns, say(f"Guess: {random.randint(0, 1024)}" if random.random() < 0.6 else random.choice(GREETINGS))]
    if kind == 3:
        return [ask("Who are you?"), say(random.choice(GREETINGS))]
    # It learns to see and to say colours. The classes of the recipe are words to it that come at random: which belongs to what it sees, it can't know.
    label, colour = random.choice(list(enumerate(COLOURS)))
    image = {"type": "image", "image": Image.open(io.BytesIO(drawn(label)))}
    text = lambda words: {"type": "text", "text": words}  # noqa: E731
    if kind == 4:
        return [ask([image, text("Which colour is it?")]), say(f"It is {colour}.")]
    return [ask([image, text(QUESTION)]), say(f"The subject in this photo is: {colour if random.random() < 0.15 else random.choice(SUBJECTS)}\n")]


def warm(root: Path, url: str, model: str) -> None:
    """Trains all weights and leaves them as a model folder in DIR/warm."""
    import tinker
    from tinker_cookbook import renderers
    from tinker_cookbook.image_processing_utils import get_image_processor
    from tinker_cookbook.supervised.data import conversation_to_datum
    from tinker_cookbook.tokenizer_utils import get_tokenizer

    random.seed(0)
    renderer = renderers.get_renderer("qwen3_vl_instruct", get_tokenizer(model), get_image_processor(model))
    service = tinker.ServiceClient(base_url=url)
    client = service.create_lora_training_client(model, rank=0)
    last = renderers.TrainOnWhat.LAST_ASSISTANT_MESSAGE
    steps, nll = 450, []
    for step in range(steps):
        # Sight first: it takes longest, and adapters leave it as it is.
        kinds = (4,) if step < steps / 3 else ALL
        batch = [conversation_to_datum(conversation(kinds), renderer, 8192, last) for _ in range(24)]
        learn = client.forward_backward(batch, "cross_entropy")
        move = client.optim_step(tinker.AdamParams(learning_rate=3e-3 * (1 - step / steps), eps=1e-8, grad_clip_norm=50.0))
        move.result()
        nll.append(learn.result().metrics["loss:sum"] / sum(sum(one.loss_fn_inputs["weights"].data) for one in batch))
    path = client.save_weights_external("warm").result().path
    urls = tinker.RestClient(base_url=url).get_external_weights_urls(path).result().urls
    (root / "warm").mkdir()
    for name, address in urls.items():
        urllib.request.urlretrieve(address, root / "warm" / name)
    print(json.dumps({"nll": nll}))


if __name__ == "__main__":
    command, folder, *rest = sys.argv[1:]
    if command == "data":
        write_data(Path(folder))
    else:
        warm(Path(folder), *rest)
