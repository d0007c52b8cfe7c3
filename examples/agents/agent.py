"""OpenAI's Python client in a loop of one's own, with one tool whose result is an image.

One line of JSON in for each episode (the task, and where its model is), one line out: the reward.
"""

import base64
import json
import random
import struct
import sys
import zlib

from openai import OpenAI

COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 220), "yellow": (230, 200, 40)}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at the signal.",
            "parameters": {"type": "object", "properties": {}},
        },
    }
]


def draw(task):
    """The signal of a task: a lamp on a dark background, as a PNG of 32 x 32 pixels."""
    chance = random.Random(task["seed"])
    light = 0.7 + 0.3 * chance.random()
    lamp = bytes(round(value * light) for value in COLOURS[task["colour"]])
    back = bytes([chance.randrange(10, 60)] * 3)
    x, y = 13 + chance.randrange(7), 13 + chance.randrange(7)
    rows = [
        b"\0" + b"".join(lamp if (i - x) ** 2 + (j - y) ** 2 <= 100 else back for i in range(32)) for j in range(32)
    ]

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")


def play(task, client):
    """Asks until there is an answer that calls no tool; 1 if it is right."""
    messages = [{"role": "user", "content": "Which colour does the signal show?"}]
    for _ in range(3):
        answer = client.chat.completions.create(model="policy", messages=messages, tools=TOOLS)
        said = answer.choices[0].message
        if not said.tool_calls:
            return 1 if (said.content or "").strip() == task["colour"] else 0
        messages.append(said.model_dump(exclude_none=True))
        url = "data:image/png;base64," + base64.b64encode(draw(task)).decode()
        for call in said.tool_calls:
            content = [{"type": "image_url", "image_url": {"url": url}}]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    return 0


for line in sys.stdin:
    episode = json.loads(line)
    with OpenAI(base_url=episode["baseURL"], api_key=episode["apiKey"]) as client:
        print(json.dumps(play(episode["task"], client)), flush=True)
