"""Plays episodes on an OpenEnv server with the official client, and prints what it saw: `openenv_play.py URL < plan.json > seen.json`.

The plan is a list of {env, seed, options, frames, replies}; for each, rewards, the end, success and a digest of every frame are printed. `wire` is every
message as it was sent and received.
"""

import base64
import hashlib
import io
import json
import sys

import numpy as np
from openenv.core.generic_client import GenericEnvClient
from PIL import Image


def pixels(shown) -> np.ndarray:
    if isinstance(shown, str):
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(shown.split(",", 1)[1]))).convert("RGB"))
    return np.asarray(shown, dtype=np.uint8)


def digest(shown) -> str:
    seen = np.ascontiguousarray(pixels(shown))
    return f"{seen.shape[1]}x{seen.shape[0]} {hashlib.sha256(seen.tobytes()).hexdigest()}"


class Recorded(GenericEnvClient):
    wire: list = []
    recording = False

    async def _send(self, message):
        if Recorded.recording:
            Recorded.wire.append({"sent": json.loads(json.dumps(message))})
        await super()._send(message)

    async def _receive(self):
        answer = await super()._receive()
        if Recorded.recording:
            kept = json.loads(json.dumps(answer))
            seen = kept.get("data", {}).get("observation", {})
            if "images" in seen:
                seen["images"] = [digest(one) for one in seen["images"]]
            Recorded.wire.append({"received": kept})
        return answer


def play(env, episode):
    Recorded.recording = episode.get("record", False)
    asked = {"env": episode["env"], "seed": episode["seed"], **episode.get("options", {})}
    if "frames" in episode:
        asked["frames"] = episode["frames"]
    result = env.reset(episode_id="e1", **asked)
    frames = [digest(one) for one in result.observation["images"]]
    rewards, success = [], None
    for reply in episode["replies"]:
        result = env.step({"action_str": reply})
        frames += [digest(one) for one in result.observation["images"]]
        rewards.append(result.reward)
        success = result.metadata["success"]
    state = env.state()
    if Recorded.recording:
        for wrong in ({"action": "x"}, {"action_str": 7}):
            try:
                env.step(wrong)
            except RuntimeError:
                pass
    Recorded.recording = False
    return {"frames": frames, "rewards": rewards, "done": result.done, "success": success, "steps": state["step_count"]}


with Recorded(base_url=sys.argv[1]).sync() as env:
    seen = [play(env, episode) for episode in json.load(sys.stdin)]
json.dump({"episodes": seen, "wire": Recorded.wire}, sys.stdout)
