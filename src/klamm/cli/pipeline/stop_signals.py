"""SIGTERM and SIGINT of commands that run flows: the first one ends the flows in order, the second one at once."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from klamm.pipelines.run.pipeline_run import PipelineRun

__all__ = ["end_while_spark_starts", "stop_on_signals"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def end_while_spark_starts() -> None:
    """Lets SIGTERM end the process at once with status 0: no micro-batch runs yet."""
    signal.signal(signal.SIGTERM, _end_before_spark)


def stop_on_signals(running: PipelineRun) -> None:
    """Lets the first signal end the flows after their micro-batches, and the second one at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        running.request_stop()
        print("klamm pipeline: stopping after the micro-batch; a second signal stops at once", file=sys.stderr)
        for each in _SIGNALS:
            signal.signal(each, _end_at_once)

    for number in _SIGNALS:
        signal.signal(number, stop)


def _end_before_spark(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
