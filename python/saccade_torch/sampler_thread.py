"""The thread that owns every sampler of a process and ticks while anything is asked of them."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import deque
from typing import Callable

import torch

from .errors import LAST_WORDS
from .sampler import Sampler


PAUSE = 0.005
"""Seconds until samplers that wait for a slot are asked again."""


class SamplerThread(threading.Thread):
    """Others hand it things to do."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(name="samplers", daemon=True)
        self._device = device
        self._jobs: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._samplers: set[Sampler] = set()
        self.start()

    def do(self, job: Callable[[], None]) -> None:
        with self._wake:
            self._jobs.append(job)
            self._wake.notify()

    def watch(self, sampler: Sampler) -> None:
        self.do(lambda: self._samplers.add(sampler))

    def forget(self, sampler: Sampler) -> None:
        self.do(lambda: self._samplers.discard(sampler))

    def run(self) -> None:
        try:
            self._work()
        except BaseException as problem:
            # Without this thread whoever asks would wait for ever.
            traceback.print_exc()
            print(f"{LAST_WORDS}Sampling broke off ({type(problem).__name__}: {problem}). Please report it.", file=sys.stderr, flush=True)
            os._exit(1)

    def _work(self) -> None:
        if self._device.type == "cuda" and self._device.index is not None:
            # Each thread has a current device of its own.
            torch.cuda.set_device(self._device)
        while True:
            with self._wake:
                while not self._jobs and not any(sampler.busy for sampler in self._samplers):
                    self._wake.wait()
                if not self._jobs and all(sampler.stuck for sampler in self._samplers if sampler.busy):
                    self._wake.wait(PAUSE)
                jobs = list(self._jobs)
                self._jobs.clear()
            for job in jobs:
                try:
                    job()
                except Exception:
                    # Of one call, whose words made no sense; the others go on.
                    traceback.print_exc()
            for sampler in list(self._samplers):
                if not sampler.busy:
                    continue
                try:
                    sampler.tick()
                except Exception as problem:
                    sampler.fail(problem)
