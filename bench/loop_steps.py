"""Runs `klamm ARGUMENTS` and measures the steps of its event loop: python bench/loop_steps.py TARGET serve …

A step is one callback: a readable socket, a timer, the next part of a task. The script measures the processor time of
the loop's thread: the broker's own work, without the time when the machine was busy with other processes. It uses
asyncio's own loop, whose callbacks can be watched; uvloop calls the same callbacks. Writes TARGET.json at the end: the
longest step in milliseconds, how many steps took more than ten, and the longest steps, each with the garbage
collector's share and samples of the stack. On SIGUSR1 it writes the file at once and resets the counts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import threading
import time
from asyncio import events
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = ["main"]

_LIMIT_SECONDS = 0.010
_KEPT = 5
_FRAMES = 6


class LoopSteps:
    """The longest steps so far."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._stacks: list[str] = []
        self._longest: list[tuple[float, float, str, list[str]]] = []
        self._over_limit = 0
        self._collecting_since = 0.0
        self._collected_seconds = 0.0

    def watch(self) -> None:
        """Measures every callback of every loop from now on."""
        run: Callable[[Any], None] = events.Handle._run

        def timed(handle: Any) -> None:
            self._stacks.clear()
            self._collected_seconds = 0.0
            start = time.thread_time()
            run(handle)
            seconds = time.thread_time() - start
            self._over_limit += seconds > _LIMIT_SECONDS
            if len(self._longest) < _KEPT or seconds > self._longest[-1][0]:
                self._keep(seconds, repr(handle))

        events.Handle._run = timed  # type: ignore[assignment, method-assign]
        gc.callbacks.append(self._on_collection)

    def _on_collection(self, phase: str, _info: dict[str, int]) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        if phase == "start":
            self._collecting_since = time.thread_time()
        else:
            self._collected_seconds += time.thread_time() - self._collecting_since

    def sample(self, _number: int, frame: FrameType | None) -> None:
        """Records the current stack of the thread."""
        names: list[str] = []
        while frame is not None and len(names) < _FRAMES:
            path = Path(frame.f_code.co_filename)
            names.append(f"{'/'.join(path.parts[-2:])}:{frame.f_code.co_qualname}")
            frame = frame.f_back
        self._stacks.append(" < ".join(names))

    def write(self) -> None:
        """Writes the measurements to the file and resets them."""
        report = {
            "longest_ms": self._longest[0][0] * 1000 if self._longest else 0.0,
            "over_limit": self._over_limit,
            "longest": [
                {"ms": seconds * 1000, "collector_ms": collected_seconds * 1000, "step": step, "stacks": stacks}
                for seconds, collected_seconds, step, stacks in self._longest
            ],
        }
        part = self._target.with_suffix(".part")
        part.write_text(json.dumps(report, indent=1), encoding="utf-8")
        part.rename(self._target.with_suffix(".json"))
        self._longest, self._over_limit = [], 0

    def _keep(self, seconds: float, step: str) -> None:
        self._longest.append((seconds, self._collected_seconds, step, self._stacks[:10]))
        self._longest.sort(key=lambda kept: -kept[0])
        del self._longest[_KEPT:]


def main() -> None:
    """Measures until the command ends, without the start before the broker listens."""
    steps = LoopSteps(Path(sys.argv[1]).absolute())
    sys.argv = ["klamm", *sys.argv[2:]]
    sys.modules["uvloop"] = None  # type: ignore[assignment]

    from klamm.broker.server import BrokerServer
    from klamm.cli.main import main as klamm

    start = BrokerServer.start

    async def start_and_watch(server: BrokerServer) -> Any:
        addresses = await start(server)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, steps.write)
        steps.watch()
        return addresses

    BrokerServer.start = start_and_watch  # type: ignore[assignment, method-assign]
    signal.signal(signal.SIGPROF, steps.sample)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    try:
        klamm()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        steps.write()


if __name__ == "__main__":
    main()
