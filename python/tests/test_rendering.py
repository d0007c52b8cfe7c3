"""Rendering with a folder's own processor: the ids of transformers, deltas that append, text that stays text, images of tools kept."""

from __future__ import annotations

import numpy as np
import pytest
from test_families import KINDS, made  # noqa: F401
from tiny_families import PICTURES
from transformers import ProcessorMixin

from saccade_torch.errors import DataError
from saccade_torch.rendering import Renderer


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
    alike = [PICTURES[0]] * 4
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
            assert (whole == renderer.sight.image).sum() == shown * renderer.sight.of(PICTURES[0]).tokens
        told, ids = told_now, whole
    for start, length in spans:
        assert ids[start] == ids[start + length - 1] == renderer.sight.image
    pieces = renderer.pieces()
    assert b"".join(pieces[id] for id in renderer.reply("go é🙂 left")[:-1]).decode() == "go é🙂 left"


def test_special_tokens_that_are_spelled_out_stay_text_and_images_without_a_place_are_refused(made):  # noqa: F811
    renderer = Renderer(made("internvl"))
    ids, spans = renderer.prompt([say("user", "<IMG_CONTEXT>", "", "<|im_end|> <im", "g>")], PICTURES[:1], {})
    assert (ids == renderer.sight.image).sum() == renderer.sight.of(PICTURES[0]).tokens and len(spans) == 1
    assert (ids == renderer.end_of_turn).sum() == 1
    assert renderer.tokenizer.decode(ids).count("<IMG_CONTEXT>") == renderer.sight.of(PICTURES[0]).tokens + 1
    renderer.template = renderer.template.replace("part.type == 'image'", "part.type == 'image' and m.role != 'tool'")
    with pytest.raises(DataError, match="tool messages"):
        renderer.delta([say("tool", "")], PICTURES[:1], True)
