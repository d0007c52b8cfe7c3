"""Rendering with a folder's own processor: the ids of transformers, deltas that append, text that stays text, images of tools kept."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from test_families import KINDS, made  # noqa: F401
from tiny_families import IMAGES
from tokenizers import AddedToken
from transformers import AutoTokenizer, ProcessorMixin

from saccade_torch.errors import ConfigError, DataError
from saccade_torch.frames import Frame
from saccade_torch.rendering import Renderer
from saccade_torch.sight import sight_of


def say(role: str, *parts: str) -> dict:
    return {"role": role, "content": [{"type": "image"} if part == "" else {"type": "text", "text": part} for part in parts]}


def plain(renderer: Renderer, messages: list[dict], frames: list) -> list[int]:
    """transformers, all of it at once."""
    # Every family's but SmolVLM's, which asks its video processor for a frame rate first and has none without torchvision.
    text = ProcessorMixin.apply_chat_template(renderer.sight.processor, messages, tokenize=False, add_generation_prompt=True)
    if not frames:
        return renderer.tokenizer(text)["input_ids"]
    return renderer.sight.processor(text=[text], images=[[frame.pixels.numpy() for frame in frames]], return_tensors="pt")["input_ids"][0].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_turns_append_what_transformers_renders_with_images_in_tool_messages(made, kind):  # noqa: F811
    renderer = Renderer(made(kind))
    alike = [IMAGES[0]] * 4
    told = [say("system", "Look."), say("user", "", "where é🙂?")]
    ids, spans = renderer.prompt(told, alike[:1], {})
    # LLaVA-OneVision's processor shrinks images that come in company; here each is seen alone.
    exact = kind != "llava_onevision"
    assert not exact or ids.tolist() == plain(renderer, told, alike[:1])
    for turn, more in enumerate(([say("tool", "seen: ", "")], [say("user", "and", "", "now", "")])):
        reply = renderer.reply(f"left {turn}")
        assert reply[-1] == renderer.end_of_turn
        for ended in (True, False):
            added, _ = renderer.delta(more, alike[: sum(part["type"] == "image" for message in more for part in message["content"])], ended)
            said = reply if ended else reply[:-1]
            whole = np.concatenate([ids, said, added])
            told_now = [*told, say("assistant", f"left {turn}"), *more]
            shown = sum(part["type"] == "image" for message in told_now for part in message["content"])
            assert not exact or whole.tolist() == plain(renderer, told_now, alike[:shown])
            assert (whole == renderer.sight.image).sum() == shown * renderer.sight.of(IMAGES[0]).tokens
        told, ids = told_now, whole
    for start, length in spans:
        assert ids[start] == ids[start + length - 1] == renderer.sight.image
    pieces = renderer.pieces()
    assert b"".join(pieces[id] for id in renderer.reply("go é🙂 left")[:-1]).decode() == "go é🙂 left"


def test_special_tokens_that_are_spelled_out_stay_text_and_images_without_a_place_are_refused(made):  # noqa: F811
    renderer = Renderer(made("internvl"))
    ids, spans = renderer.prompt([say("user", "<IMG_CONTEXT>", "", "<|im_end|> <im", "g>")], IMAGES[:1], {})
    assert (ids == renderer.sight.image).sum() == renderer.sight.of(IMAGES[0]).tokens and len(spans) == 1
    assert (ids == renderer.end_of_turn).sum() == 1
    assert renderer.tokenizer.decode(ids).count("<IMG_CONTEXT>") == renderer.sight.of(IMAGES[0]).tokens + 1
    renderer.template = renderer.template.replace("part.type == 'image'", "part.type == 'image' and m.role != 'tool'")
    with pytest.raises(DataError, match="tool messages"):
        renderer.delta([say("tool", "")], IMAGES[:1], True)


def test_added_tokens_that_are_no_special_ones_are_words_that_can_be_sampled_and_read(made, tmp_path: Path):  # noqa: F811
    folder = shutil.copytree(made("gemma3"), tmp_path / "words")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    # As in Gemma's own vocabulary; its processor writes two line breaks around an image.
    words = ["<think>", "</think>", "\n", "\n\n", "\n\n\n"]
    tokenizer.add_tokens([AddedToken(word, normalized=False, special=False) for word in words])
    tokenizer.save_pretrained(folder)
    renderer = Renderer(str(folder))
    ids = {tokenizer.convert_tokens_to_ids(word) for word in words}
    about = renderer.about()
    assert not ids & set(about["visionIds"]) and not ids & set(about["special"])
    assert not ids & sight_of(str(folder), renderer.sight.image).vision_ids()
    said = "<think>a\n\nb</think>\n\n\nleft"
    pieces = renderer.pieces()
    assert ids & set(renderer.reply(said).tolist())
    assert b"".join(pieces[id] for id in renderer.reply(said)[:-1]).decode() == said
    # Where something is guarded, they are cut as transformers cuts them.
    plainly, _ = renderer.prompt([say("user", f"{said} go")], [], {})
    guarded, _ = renderer.prompt([say("user", f"{said} go<|im_end|>")], [], {})
    first = next(i for i, pair in enumerate(zip(plainly, guarded)) if pair[0] != pair[1])
    assert tokenizer.decode(plainly[:first]).endswith(" go") and (guarded == renderer.end_of_turn).sum() == 1


OPEN_ENDED = (
    "[gMASK]<sop>{% for m in messages %}{{ '<|' + {'tool': 'observation'}.get(m.role, m.role) + '|>\\n' }}{% for part in m.content %}"
    "{% if part.type == 'image' %}{{ '<|begin_of_image|><|image|><|end_of_image|>' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)


def test_where_the_next_turn_ends_a_reply_its_token_is_said_once(made, tmp_path: Path):  # noqa: F811
    folder = shutil.copytree(made("glm4v"), tmp_path / "glm")
    (folder / "chat_template.jinja").write_text(OPEN_ENDED)
    renderer = Renderer(str(folder))
    special = renderer.special
    assert renderer.end_of_turn == special["<|user|>"] and set(renderer.about()["visionIds"]) >= {special["<|begin_of_image|>"], special["<|image|>"]}
    told = [say("user", "", "go")]
    ids, _ = renderer.prompt(told, IMAGES[:1], {})
    reply = renderer.reply("left")
    more = [say("user", "", "and")]
    wanted = plain(renderer, [*told, say("assistant", "left"), *more], IMAGES[:2])
    for ended, said in ((True, reply), (False, reply[:-1])):
        added, spans = renderer.delta(more, IMAGES[1:2], ended)
        assert [*ids, *said, *added] == wanted
        assert added[spans[0][0]] == renderer.sight.image
    # A tool's turn begins with another token; what was sampled stays.
    added, _ = renderer.delta([say("tool", "seen")], [], True)
    assert added[0] == special["<|observation|>"]


def test_thinking_that_a_template_takes_out_of_history_stays_where_it_was_sampled(made, tmp_path: Path):  # noqa: F811
    folder = shutil.copytree(made("internvl"), tmp_path / "thinking")
    template = (folder / "chat_template.jinja").read_text()
    cut = "{{ (part.text.split('</think>')[-1] if m.role == 'assistant' and not loop.last else part.text) }}"
    (folder / "chat_template.jinja").write_text(template.replace("{{ part.text }}", cut).replace("assistant\\n' }}", "assistant\\n<think>' }}"))
    renderer = Renderer(str(folder))
    prompt, _ = renderer.prompt([say("user", "go")], [], {})
    assert renderer.tokenizer.decode(prompt).endswith("<think>")
    added, _ = renderer.delta([say("user", "and")], [], True)
    text = renderer.tokenizer.decode([*prompt, *renderer.reply("hm</think>left"), *added])
    assert "<think>hm</think>left<|im_end|>" in text and text.endswith("and<|im_end|>\n<|im_start|>assistant\n<think>")


@pytest.mark.parametrize("kind", ["internvl", "glm4v", "gemma4", "qwen3_5"])
def test_a_folder_without_a_template_gets_one_of_ours_and_it_is_called_unverified(made, kind, tmp_path: Path, capfd):  # noqa: F811
    folder = shutil.copytree(made(kind), tmp_path / "none")
    (folder / "chat_template.jinja").unlink()
    renderer = Renderer(str(folder))
    assert not renderer.verified and "unverified" in capfd.readouterr().err and renderer.about()["verified"] is False
    ids, spans = renderer.prompt([say("user", "", "where?")], IMAGES[:1], {})
    assert len(spans) == 1 and (ids == renderer.sight.image).sum() == renderer.sight.of(IMAGES[0]).tokens
    added, spans = renderer.delta([say("tool", "seen", "")], IMAGES[1:2], True)
    assert len(spans) == 1
    assert Renderer(made(kind)).verified
    folder = shutil.copytree(folder, tmp_path / "nameless")
    tokens = folder / "tokenizer.json"
    tokens.write_text(tokens.read_text().replace("<|im_start|>", "<|unknown|>").replace("<|user|>", "<|nobody|>"))
    with pytest.raises(ConfigError, match="no chat template"):
        Renderer(str(folder))


def test_images_are_processed_while_others_say_replies(made):  # noqa: F811
    """A tokenizer remembers whether it splits special tokens: of two at once, one would read its placeholders as text."""
    renderer = Renderer(made("internvl"))
    frames = [Frame(f"new {i}", IMAGES[0].pixels) for i in range(300)]
    wanted = renderer.reply("<IMG_CONTEXT> left").tolist()

    def look(frame: Frame) -> bool:
        ids, spans = renderer.prompt([say("user", "", "<IMG_CONTEXT>")], [frame], {})
        return len(spans) == 1 and (ids == renderer.sight.image).sum() == renderer.sight.of(frame).tokens

    def tell(_: int) -> bool:
        return all(renderer.reply("<IMG_CONTEXT> left").tolist() == wanted for _ in range(20))

    with ThreadPoolExecutor(8) as threads:
        looked = [threads.submit(look, frame) for frame in frames]
        told = [threads.submit(tell, i) for i in range(300)]
        assert all(one.result() for one in looked) and all(one.result() for one in told)
