"""Watches a broker's event loop: measures the processor time of each step.

The processor time of the loop's thread belongs to the broker only. Other processes add nothing to it, except by
evicting the broker's data from the caches.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from tests.interop.broker_process import BrokerProcess
from tests.support.patience import Limit

__all__ = ["WatchedBroker", "loop_thread_s", "processor_slowness"]

_PROGRAM = Path(__file__).parents[2] / "bench" / "loop_steps.py"
_REST_S = 0.005
_IDLE_SHARE = 0.1
_REPORT_S = 60
_POLL_S = 0.002
_MEASUREMENTS = 15
_ITERATIONS = 100_000
_IDLE_S = 0.006
"""The time of these iterations on an idle machine of 2024."""
_SCATTERED = 200_000
_IDLE_FOLLOWING_S = 0.0018
"""The time on the same machine to sum this many numbers at scattered addresses."""


def loop_thread_s(pid: int) -> float:
    """Returns the processor time of a process's first thread in seconds; in a broker, this thread runs the event
    loop."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def processor_slowness() -> float:
    """Returns how many times more processor time some work takes now than on an idle machine; at least 1.

    On a busy machine, waiting for the processor is not counted, but cache misses are. The garbage collector follows
    every reference of a long list, so cache misses slow it most. The function therefore measures two pieces of work.
    """
    scattered = [float(number) for number in range(_SCATTERED)]
    Random(0).shuffle(scattered)
    counting = _median_s(lambda: sum(number & 0xFF for number in range(_ITERATIONS)))
    following = _median_s(lambda: sum(scattered))
    return max(1.0, counting / _IDLE_S, following / _IDLE_FOLLOWING_S)


def _median_s(work: Callable[[], object]) -> float:
    took = []
    for _ in range(_MEASUREMENTS):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return median(took)


class WatchedBroker:
    """A broker process that reports its longest steps."""

    def __init__(self, folder: Path, config: Mapping[str, str]) -> None:
        self._report = folder / "steps.json"
        program = [sys.executable, str(_PROGRAM), str(self._report.with_suffix(""))]
        self.process = BrokerProcess(folder, config, program=program)

    def steps(self) -> Mapping[str, Any]:
        """Waits until the loop is idle, and returns the measurements since the previous call."""
        pid = self.process.pid
        busy = True
        while busy:
            before = loop_thread_s(pid)
            time.sleep(_REST_S)
            busy = loop_thread_s(pid) - before > _REST_S * _IDLE_SHARE
        self._report.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR1)
        limit = Limit(_REPORT_S)
        while not self._report.exists():
            assert not limit.is_over, "the broker does not say what its longest steps were"
            time.sleep(_POLL_S)
        report: Mapping[str, Any] = json.loads(self._report.read_text(encoding="utf-8"))
        return report
