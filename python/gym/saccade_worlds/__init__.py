"""Saccade's worlds in Python: `gymnasium.make("saccade/World-v0", world="maze_2d/easy")`, or `World(...)` where messages with images are wanted."""

from gymnasium.envs.registration import register, registry

from .client import Server, ServerError, World
from .environment import SaccadeEnv

if "saccade/World-v0" not in registry:
    register(id="saccade/World-v0", entry_point="saccade_worlds:SaccadeEnv")

__all__ = ["SaccadeEnv", "Server", "ServerError", "World"]
