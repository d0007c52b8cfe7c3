"""BrowserGym's own loop on the pages that the benchmark plays: reset, random clicks, observation with screenshot, reward.

    python browsergym_loop.py TASK SECONDS        TASK: miniwob/<name>, or pages/<name>#<folder of our pages>

Twice: as it comes, where it waits half a second before every observation and takes the accessibility tree, the DOM and its
properties with each; and without the wait and without all that, with the screenshot alone. MINIWOB_URL names MiniWoB++'s pages, CHROMIUM the browser. Prints one JSON object.
"""

import json
import os
import random
import sys
import time

import browsergym.core.env as env_module
from browsergym.core.action.highlevel import HighLevelActionSet
from browsergym.core.task import AbstractBrowserTask
from playwright.sync_api import BrowserType

launch = BrowserType.launch
# Its window for chats is a browser, too, and takes no such setting.
BrowserType.launch = lambda self, **given: launch(
    self, **{"executable_path": os.environ["CHROMIUM"], "chromium_sandbox": False, **given}
)


class OurPage(AbstractBrowserTask):
    """A page of ours, judged by its own `world`."""

    def __init__(self, seed, address):
        super().__init__(seed)
        self.address, self.episode = address, seed
        self.viewport, self.slow_mo, self.timeout = {"width": 320, "height": 256}, 0, 5000

    def setup(self, page):
        page.goto(self.address)
        page.evaluate(f"world.start({self.episode}, {{ form: 'easy' }})")
        return page.evaluate("world.goal()"), {}

    def validate(self, page, chat_messages):
        score, done = page.evaluate("[world.score(), world.done()]")
        return score, done, "", {}

    def teardown(self):
        pass


def task_of(name):
    if name.startswith("pages/"):
        page, folder = name[len("pages/") :].split("#")
        return OurPage, {"address": f"file://{folder}/{page}.html"}, (320, 256)
    from browsergym.miniwob import ALL_MINIWOB_TASKS

    wanted = "miniwob." + name[len("miniwob/") :]
    return next(task for task in ALL_MINIWOB_TASKS if task.get_task_id() == wanted), {}, (332, 214)


def measure(name, seconds, **settings):
    task, arguments, (width, height) = task_of(name)
    actions = HighLevelActionSet(subsets=["coord"], multiaction=False)
    env = env_module.BrowserEnv(
        task_entrypoint=task,
        task_kwargs=arguments,
        headless=True,
        action_mapping=actions.to_python_code,
        **settings,
    )
    drawn = random.Random(0)
    env.reset(seed=0)
    steps = episodes = 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        env.reset(seed=drawn.randrange(1_000_000))
        episodes += 1
        for _ in range(10):
            _, _, ended, cut, _ = env.step(f"mouse_click({drawn.randrange(width)}, {drawn.randrange(height)})")
            steps += 1
            if ended or cut:
                break
    took = time.perf_counter() - start
    env.close()
    return {"steps": steps / took, "episodes": episodes / took}


name, seconds = sys.argv[1], float(sys.argv[2])
whole = measure(name, seconds)
for extraction in ("_pre_extract", "extract_dom_snapshot", "extract_merged_axtree", "extract_dom_extra_properties", "_post_extract"):
    setattr(env_module, extraction, lambda *_, **__: {})
env_module.extract_focused_element_bid = lambda *_, **__: ""
bare = measure(name, seconds, pre_observation_delay=0)
print(json.dumps({"whole": whole, "bare": bare}))
