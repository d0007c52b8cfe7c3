"""Messages to ids with the template, tokenizer and processor of a model's own folder, for families whose chat side TypeScript does not have. `prompt` renders
the start of an episode; `delta` what an observation appends after a sampled reply: the text that follows a stub's reply, so history is never rendered again.

Special tokens that content spells out stay text: a guard character is slipped into them before the template runs and taken out again after the template's own
special tokens have been found.
"""

from __future__ import annotations

import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Collection, Mapping, Sequence

import numpy as np

from .errors import ConfigError, DataError
from .frames import Frame
from .network import vision_token_ids
from .sight import Sight, sight_of

STUB_REPLY = "saccade stub reply"
OBSERVATION = {"role": "user", "content": [{"type": "text", "text": "saccade stub observation"}]}
STUB = [{"role": "user", "content": "saccade stub question"}, {"role": "assistant", "content": STUB_REPLY}]
GUARDS = [chr(0xFDD0 + i) for i in range(32)]
Body = Mapping[str, Any]


@lru_cache(maxsize=8)
def renderer_of(folder: str) -> Renderer:
    return Renderer(folder)


class Renderer:
    def __init__(self, folder: str) -> None:
        from transformers import AutoConfig

        self.folder = folder
        try:
            self.config: Any = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        except Exception as problem:
            raise ConfigError(f"{folder}: transformers does not know this model ({' '.join(str(problem).split())}).") from None
        image = getattr(self.config, "image_token_id", None)
        image = getattr(self.config, "image_token_index", None) if image is None else image
        if image is None:
            raise ConfigError(f"{folder}: config.json names no image token: it is no model that sees images.")
        self.sight = sight_of(folder, int(image))
        self.tokenizer = self.sight.tokenizer
        self.template = getattr(self.sight.processor, "chat_template", None) or self.tokenizer.chat_template
        self.verified = bool(self.template)
        """The template is the folder's own, not our guess."""
        if not self.template:
            self.template = guess_template(folder, self.sight)
            print(f"saccade_torch: {folder} has no chat template; it gets an unverified one of ours.", file=sys.stderr, flush=True)
        # A placeholder alone may lie outside.
        last = max(id for token, id in self.tokenizer.get_vocab().items() if token not in self.sight.added)
        most = int(self.config.get_text_config().vocab_size)
        if last >= most:
            raise ConfigError(f"{folder}: the tokenizer has ids up to {last}, but the model only {most}. config.json and tokenizer.json must come from the same model.")
        vision = self.sight.vision_ids()
        # Added tokens that are words, such as <think> or two line breaks, are said and read like others.
        flagged = {id for id, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        self.special = {token: id for token, id in self.sight.added.items() if id in flagged or id in vision}
        self.split = one_of(self.special)
        # The tokenizer is the processor's, too, and each call sets in it whether special tokens are split.
        self._lock = self.sight.lock
        # Most templates want parts; some print a list as it stands.
        self.parts = True
        stub = self._apply(STUB, False)
        if "'text'" in stub or STUB_REPLY not in stub:
            self.parts = False
            stub = self._apply(STUB, False)
        self.closing = after_reply(stub)
        # Some families end a turn with the token that begins the next one, which only shows when there is a next one.
        known = one_of({token for token in self.sight.added if token.strip()})
        first = known.match(self.closing) or known.match(after_reply(self._apply([*STUB, OBSERVATION], True)).lstrip())
        if first is None:
            raise ConfigError(
                f"{folder}: the chat template ends a reply with {self.closing!r}, and no special token follows it. "
                "Use a template whose turns end with a token such as <|im_end|>."
            )
        self.end_of_turn = self.sight.added[first[0]]
        if first[0] not in self.special:
            self.special[first[0]] = self.end_of_turn
            self.split = one_of(self.special)
        # Fails at the start where observations can't be appended.
        self.delta([OBSERVATION], [], True)

    def about(self) -> dict[str, Any]:
        """What the TypeScript side has to know: every id's bytes, so that it decodes without asking."""
        text = self.config.get_text_config()
        settings = self._generation()
        named = settings.get("eos_token_id", getattr(text, "eos_token_id", None))
        eos = [named] if isinstance(named, int) else list(named or [])
        pieces = self.pieces()
        return {
            "endOfTurn": self.end_of_turn,
            "imageToken": self.sight.image,
            "visionIds": sorted(self.sight.vision_ids() | vision_token_ids(self.config)),
            "verified": self.verified,
            "maxPositions": int(text.max_position_embeddings),
            "eos": [self.end_of_turn, *(id for id in eos if id != self.end_of_turn)],
            **{name: settings[key] for name, key in (("temperature", "temperature"), ("topK", "top_k"), ("topP", "top_p")) if settings.get(key) is not None},
            "special": sorted(self.special.values()),
            "lengths": np.array([len(piece) for piece in pieces], dtype="<i4").tobytes(),
            "pieces": b"".join(pieces),
        }

    def pieces(self) -> list[bytes]:
        """The bytes that each id adds to a text."""
        count = len(self.tokenizer)
        kind = json.dumps(json.loads(self.tokenizer.backend_tokenizer.to_str()).get("decoder") or {})
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(count)))
        letters = {letter: byte for byte, letter in byte_letters().items()} if "ByteLevel" in kind else None
        return [piece_of(token, id, self.special, letters) for id, token in enumerate(tokens)]

    def prompt(self, messages: Sequence[Body], frames: Sequence[Frame], variables: Body) -> tuple[np.ndarray, list[tuple[int, int]]]:
        if not messages:
            raise DataError("A prompt needs at least one message.")
        guard = pick_guard([messages, variables])
        text = self._apply(self._guarded(messages, guard), True, self._guarded(dict(variables), guard))
        bos = self.tokenizer.bos_token
        return self._encode(text, guard, frames, begins=not (bos and text.startswith(bos)))

    def delta(self, messages: Sequence[Body], frames: Sequence[Frame], ended: bool) -> tuple[np.ndarray, list[tuple[int, int]]]:
        guard = pick_guard(messages)
        tail = after_reply(self._apply([*STUB, *self._guarded(messages, guard)], True))
        if not tail.startswith(self.closing):
            raise ConfigError(
                f"{self.folder}: the chat template closes a reply with {self.closing!r} when it is the last message but not when another follows "
                f"({tail[:40]!r}…), so observations can't be appended. Use a template that closes a turn the same way wherever it stands."
            )
        # Where the next turn's token ends a reply, models say it at once, though a template may begin a line before it.
        ids, spans = self._encode(tail if self.split.match(self.closing) else tail.lstrip(), guard, frames, begins=False)
        if not ended or ids[0] != self.end_of_turn:
            return ids, spans
        return ids[1:], [(start - 1, length) for start, length in spans]

    def reply(self, text: str) -> np.ndarray:
        """What a demonstration says, its end included."""
        with self._lock:
            said = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"] if text else []
        return np.array([*said, self.end_of_turn], dtype=np.int32)

    def _apply(self, messages: Sequence[Body], opens: bool, variables: Body | None = None) -> str:
        def content(given: Any) -> Any:
            parts = [{"type": "text", "text": given}] if isinstance(given, str) else list(given)
            return parts if self.parts or any(part["type"] == "image" for part in parts) else "".join(part["text"] for part in parts)

        told = [{**message, "content": content(message["content"])} for message in messages]
        try:
            return str(self.tokenizer.apply_chat_template(told, chat_template=self.template, tokenize=False, add_generation_prompt=opens, **(variables or {})))
        except Exception as problem:
            roles = ", ".join(str(message["role"]) for message in messages)
            raise DataError(f"{self.folder}: the chat template can't render messages of {roles} ({problem}). Use other roles, or another template.") from None

    def _encode(self, text: str, guard: str, frames: Sequence[Frame], begins: bool) -> tuple[np.ndarray, list[tuple[int, int]]]:
        pieces = text.split(self.sight.marker)
        if len(pieces) - 1 != len(frames):
            raise DataError(
                f"{self.folder}: the chat template made {len(pieces) - 1} places for {len(frames)} images. It must write {self.sight.marker} once for each "
                "image, in tool messages too: send images in user messages, or use a template that keeps them."
            )
        seen = [self.sight.of(frame) for frame in frames]
        whole = pieces[0] + "".join(one.text + piece for one, piece in zip(seen, pieces[1:]))
        with self._lock:
            ids = np.array(self._ids(whole, guard, begins), dtype=np.int32)
        places = np.nonzero(ids == self.sight.image)[0]
        if len(places) != sum(one.tokens for one in seen):
            raise DataError(f"{self.folder}: {len(places)} placeholders stand for images of {sum(one.tokens for one in seen)}: tokenizer and processor do not belong together.")
        spans, at = [], 0
        for one in seen:
            first, last = places[at], places[at + one.tokens - 1]
            spans.append((int(first), int(last - first + 1)))
            at += one.tokens
        return ids, spans

    def _ids(self, text: str, guard: str, begins: bool) -> list[int]:
        if guard not in text:
            return list(self.tokenizer(text, add_special_tokens=begins)["input_ids"])
        ids: list[int] = list(self.tokenizer("", add_special_tokens=begins)["input_ids"])
        for piece in self.split.split(text):
            if piece in self.special:
                ids.append(self.special[piece])
            elif piece:
                ids += self.tokenizer(piece.replace(guard, ""), add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return ids

    def _guarded(self, value: Any, guard: str) -> Any:
        """In all its strings, names of fields that are data included."""
        if isinstance(value, str):
            return self._guard(value, guard)
        if isinstance(value, (list, tuple)):
            return [self._guarded(one, guard) for one in value]
        return {name: self._guarded(one, guard) for name, one in value.items()} if isinstance(value, Mapping) else value

    def _guard(self, text: str, guard: str) -> str:
        text = self.split.sub(lambda found: found[0][0] + guard + found[0][1:], text)
        for token in self.special:
            # The next part of the same message could complete it.
            for length in range(len(token) - 1, 1, -1):
                if text.endswith(token[:length]):
                    return text[: len(text) - length + 1] + guard + token[1:length]
        return text

    def _generation(self) -> dict[str, Any]:
        file = Path(self.folder) / "generation_config.json"
        return json.loads(file.read_text()) if file.exists() else {}


def turns(opens: str, closes: str, image: str, begin: str = "", assistant: str = "assistant") -> str:
    """A template whose turns are made alike; `ROLE` in `opens` is who speaks."""
    told = "message.role" if assistant == "assistant" else f"('{assistant}' if message.role == 'assistant' else message.role)"
    opened = "'" + opens.replace("ROLE", f"' + {told} + '") + "'"
    say = "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    say += "{% if part.type == 'image' %}{{ '" + image + "' }}{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    next = "{% if add_generation_prompt %}{{ '" + opens.replace("ROLE", assistant) + "' }}{% endif %}"
    return f"{{{{ '{begin}' }}}}{{% for message in messages %}}{{{{ {opened} }}}}{say}{{{{ '{closes}' }}}}{{% endfor %}}{next}"


def guess_template(folder: str, sight: Sight) -> str:
    """Of ours, by the special tokens that the tokenizer has."""
    has, image = set(sight.added), sight.marker
    if {"<|vision_start|>", "<|vision_end|>"} <= has:
        image = f"<|vision_start|>{image}<|vision_end|>"
    if {"<|begin_of_image|>", "<|end_of_image|>"} <= has:
        image = f"<|begin_of_image|>{image}<|end_of_image|>"
    if {"<|im_start|>", "<|im_end|>"} <= has:
        return turns("<|im_start|>ROLE\\n", "<|im_end|>\\n", image)
    begin = sight.tokenizer.bos_token or ""
    if {"<start_of_turn>", "<end_of_turn>"} <= has:
        return turns("<start_of_turn>ROLE\\n", "<end_of_turn>\\n", image, begin, "model")
    if {"<|turn>", "<turn|>"} <= has:
        return turns("<|turn>ROLE\\n", "<turn|>\\n", image, begin, "model")
    if {"<|user|>", "<|assistant|>"} <= has:
        return turns("<|ROLE|>\\n", "", image, "[gMASK]<sop>" if {"[gMASK]", "<sop>"} <= has else "")
    raise ConfigError(f"{folder} has no chat template, and its tokenizer has no tokens of turns that Saccade knows. Add the chat_template.jinja of this model.")


def one_of(tokens: Collection[str]) -> re.Pattern[str]:
    """Longer ones first."""
    return re.compile("(" + "|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) + ")")


def after_reply(rendered: str) -> str:
    at = rendered.find(STUB_REPLY)
    if at < 0:
        raise ConfigError("The chat template does not print what an assistant said; use another template.")
    return rendered[at + len(STUB_REPLY) :]


def pick_guard(said: Any) -> str:
    text = json.dumps(said, ensure_ascii=False)
    guard = next((one for one in GUARDS if one not in text), None)
    if guard is None:
        raise DataError("A message uses all 32 noncharacters U+FDD0 to U+FDEF; take one of them out of its text.")
    return guard


def piece_of(token: str, id: int, special: Mapping[str, int], letters: Mapping[str, int] | None) -> bytes:
    if token is None:
        return b""
    if special.get(token) == id:
        return token.encode()
    if letters is not None:
        return bytes(letters[letter] for letter in token) if all(letter in letters for letter in token) else token.encode()
    byte = re.fullmatch(r"<0x([0-9A-F]{2})>", token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("▁", " ").encode()


@lru_cache(maxsize=1)
def byte_letters() -> dict[int, str]:
    """The letters in which byte-level vocabularies write bytes: printable ones as they are, the others from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
