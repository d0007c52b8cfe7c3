"""Saccade's worlds for verifiers 0.4: `vf-eval saccade_verifiers --env.taskset.world maze_2d/easy --env.agent.harness.id saccade_verifiers --env.agent.runtime.type subprocess`.

A task is a seed. The harness plays the whole episode: it asks the model through the endpoint that verifiers gives it, plays each reply in the world, and shows
what comes next, images as `image_url`. The sum of the world's rewards is the reward `world`; `success` is a metric.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import httpx
import verifiers.v1 as vf

from saccade_worlds.client import World


class SaccadeData(vf.TaskData):
    world: str
    options: dict = {}
    seed: int
    url: str | None = None


class SaccadeTask(vf.Task[SaccadeData]):
    """The harness records what the world paid."""


class SaccadeConfig(vf.TasksetConfig):
    world: str = "frozen_lake"
    """Which world, as `saccade envs` lists them."""
    options: dict = {}
    """Options of the world and of its protocol."""
    num_tasks: int = 100
    first_seed: int = 0
    url: str | None = None
    """A server that runs already; by default one is started."""


class SaccadeTaskset(vf.Taskset[SaccadeTask, SaccadeConfig]):
    def load(self) -> Iterator[SaccadeTask]:
        config = self.config
        for seed in range(config.first_seed, config.first_seed + config.num_tasks):
            data = SaccadeData(
                name=f"{config.world}#{seed}",
                prompt=f"Play {config.world}.",
                world=config.world,
                options=config.options,
                seed=seed,
                url=config.url,
            )
            yield SaccadeTask(data, config.task)


class SaccadeHarnessConfig(vf.HarnessConfig):
    pass


def messages_of(data: dict, images: list[bytes]) -> list[dict]:
    """The world's messages, with images inside."""

    def part(one: dict) -> dict:
        if one["type"] != "image_url":
            return one
        png = images[int(one["image_url"]["url"].removeprefix("image:"))]
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(png).decode()}"}}

    return [
        {**message, "content": message["content"] if isinstance(message["content"], str) else [part(one) for one in message["content"]]}
        for message in data["messages"]
    ]


class SaccadeHarness(vf.Harness[SaccadeHarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, **_) -> vf.ProgramResult:
        world = await asyncio.to_thread(World, data.world, data.options, data.url)
        total, success = 0.0, False
        try:
            async with httpx.AsyncClient(timeout=None, headers={"Authorization": f"Bearer {secret}"}) as client:
                seen, images = await asyncio.to_thread(world.reset, data.seed)
                messages = messages_of(seen, images)
                while True:
                    asked = {"model": ctx.model, "messages": messages}
                    answer = await client.post(f"{endpoint.rstrip('/')}/chat/completions", json=asked)
                    if answer.status_code != 200:
                        return vf.ProgramResult(exit_code=1, stdout="", stderr=answer.text)
                    message = answer.json()["choices"][0]["message"]
                    seen, images = await asyncio.to_thread(world.step, message.get("content") or "")
                    total += seen["reward"]
                    if seen["done"]:
                        success = bool(seen.get("success"))
                        break
                    messages += [{"role": "assistant", "content": message.get("content") or ""}, *messages_of(seen, images)]
        finally:
            await asyncio.to_thread(world.close)
        trace.record_reward("world", total, 1.0)
        trace.record_metric("success", float(success))
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


__all__ = ["SaccadeHarness", "SaccadeTaskset"]
