"""What `klamm pipeline backfill` prints while it runs: what it does, and how many of Spark's tasks are done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from klamm.cli.output import new_console
from klamm.insight.words import span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.live import Live

__all__ = ["BackfillLines"]

_LOOK_INTERVAL_S: Final = 0.5
_PLAIN_INTERVAL_S: Final = 10.0


class BackfillLines:
    """One line about a backfill: refreshed on a terminal, else printed every ten seconds. A context manager."""

    def __init__(self, spark: SparkSession, flow: str, say: Callable[[str], None]) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._flow = flow
        self._say = say
        self._step = "starting"
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._live: Live | None = None
        self._thread = threading.Thread(target=self._work, name="klamm-backfill-lines", daemon=True)

    def __enter__(self) -> Self:
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(console=new_console(), auto_refresh=False, transient=True)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(_PLAIN_INTERVAL_S)  # it may wait for a JVM that ends
        if self._live is not None:
            self._live.stop()

    def report(self, step: str) -> None:
        """Takes what the backfill does now."""
        self._step = step

    def line(self) -> str:
        """Returns the line as it is now."""
        parts = [f"{self._flow}: {self._step}"]
        if tasks := self._tasks():
            parts.append(f"{tasks[0]:,} of {tasks[1]:,} tasks")
        parts.append(span((time.monotonic() - self._began) * 1000))
        return ", ".join(parts)

    def _tasks(self) -> tuple[int, int] | None:
        """Returns how many tasks of the running stages are done, and how many they have."""
        infos = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        present = [info for info in infos if info is not None]
        if not present:
            return None
        return sum(info.numCompletedTasks for info in present), sum(info.numTasks for info in present)

    def _work(self) -> None:
        printed = time.monotonic()
        while not self._is_over.wait(_LOOK_INTERVAL_S):
            try:
                if self._live is not None:
                    from rich.text import Text

                    self._live.update(Text(self.line(), overflow="ellipsis"), refresh=True)
                elif time.monotonic() - printed >= _PLAIN_INTERVAL_S:
                    self._say(self.line())
                    printed = time.monotonic()
            except Exception:
                return  # the JVM has ended, which the backfill tells
