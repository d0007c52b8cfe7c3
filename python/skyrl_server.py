"""SkyRL's Tinker server (skyrl[tinker,jax]), as it comes, under a plain Python: two things that `uv run` would do are done here.

python skyrl_server.py --base-model FOLDER --port 8000 …   (the options of skyrl.tinker.api)
"""

import runpy
import sys
import typing

import typing_extensions

# Python 3.11's own is refused by pydantic.
typing.TypedDict = typing_extensions.TypedDict


def main() -> None:
    if sys.argv[1:2] == ["engine"]:
        sys.argv = ["engine", *sys.argv[2:]]
        runpy.run_module("skyrl.tinker.engine", run_name="__main__", alter_sys=True)
        return
    import uvicorn

    from skyrl.tinker import api, config

    parser = __import__("argparse").ArgumentParser()
    config.add_model(parser, config.EngineConfig)
    parser.add_argument("--port", type=int, default=8000)
    given = vars(parser.parse_args())
    port = given.pop("port")
    # Its engine is a second process, of this interpreter.
    api._build_uv_run_cmd_engine = lambda _, settings: [
        sys.executable,
        __file__,
        "engine",
        *config.config_to_argv(settings),
    ]
    api.app.state.engine_config = config.EngineConfig.model_validate(given)
    uvicorn.run(api.app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
