"""Gymnasium environments over HTTP, for Saccade's environment `remote`.

    python saccade_gym.py FrozenLake-v1 --actions left,down,right,up --option is_slippery=false
    npx saccade play remote --set url=http://127.0.0.1:8100

Needs only gymnasium and numpy. A model sees an image (the observation where that is one, otherwise what `render` draws) or the observation in words, and
answers with an action in <action> tags. A reply without a readable action costs a turn and changes nothing.

POST /connect {env_config: {env?, options?}, seed?, key?} → {session_id}; POST /call {session_id, method, params, call?} with method system_prompt, reset,
step or close; GET /sessions; GET /health. Bodies are multipart: a part `data` of JSON, images as PNG in parts `images`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import gymnasium as gym

from gym_server.environment import CONTEXT
from gym_server.server import Server, is_loopback
from gym_server.settings import Settings

MIN_KEY_CHARACTERS = 16


def parse_option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"an option is name=value, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main() -> None:
    parser = argparse.ArgumentParser(description="Gymnasium environments over HTTP, for Saccade's environment `remote`.")
    parser.add_argument("envs", nargs="+", help="ids as gymnasium.make takes them, such as FrozenLake-v1 or my_module:MyEnv-v0")
    parser.add_argument("--host", default="127.0.0.1", help="other hosts than this machine need a key in SACCADE_API_KEY")
    parser.add_argument("--port", type=int, default=8100, help="0 for any free port")
    parser.add_argument("--option", action="append", default=[], type=parse_option, metavar="NAME=VALUE", help="for gymnasium.make; repeat")
    parser.add_argument("--client-option", action="append", default=[], metavar="NAME", help="an option that clients may set; repeat")
    parser.add_argument("--actions", default="", help="names of discrete actions, in order, separated by commas")
    parser.add_argument("--task", default="", help="what the model is told to do")
    parser.add_argument("--observe", choices=["image", "text", "both"], default="image")
    parser.add_argument("--max-turns", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=64, help="sessions at a time; each is a process")
    parser.add_argument("--idle-seconds", type=float, default=1800, help="close a session that was not used for so long")
    parser.add_argument("--call-seconds", type=float, default=600, help="end a session whose call hangs for so long")
    given = parser.parse_args()
    key = os.environ.get("SACCADE_API_KEY") or None
    if not is_loopback(given.host) and (key is None or len(key) < MIN_KEY_CHARACTERS):
        parser.error(f"others can reach {given.host}: put a key of at least {MIN_KEY_CHARACTERS} characters into SACCADE_API_KEY")
    for name in given.envs:
        try:
            gym.spec(name)
        except Exception as error:
            parser.error(f"{name}: {error}")
    if CONTEXT.get_start_method() == "forkserver":
        CONTEXT.set_forkserver_preload(["gymnasium", "numpy"])
    settings = Settings(
        envs=given.envs,
        options=dict(given.option),
        client_options=given.client_option,
        actions=[name.strip() for name in given.actions.split(",") if name.strip()],
        **{name: getattr(given, name) for name in ("task", "observe", "max_turns", "sessions", "idle_seconds", "call_seconds")},
    )
    server = Server(given.host, given.port, settings, key)
    host = f"[{given.host}]" if ":" in given.host else given.host
    print(f"http://{host}:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
