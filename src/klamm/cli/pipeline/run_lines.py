"""What `klamm pipeline run` prints while it runs: a line for each flow, or a line of JSON for each micro-batch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from klamm.cli.output import new_console
from klamm.insight.words import span
from klamm.pipelines.status.flow_status import FlowStatus
from klamm.pipelines.status.query_reports import BatchReport

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["JsonLines", "PlainLines", "ScreenLines", "flow_line", "lines_for"]

_PLAIN_INTERVAL_S: Final = 10.0


def flow_line(status: FlowStatus) -> str:
    """Returns one line about a flow: its state, rate, lag, watermark, dead letters and the estimate of its end."""
    figures = status.figures
    parts = [f"{status.flow}: {status.state}"]
    if figures.batch_id is not None:
        parts.append(f"micro-batch {figures.batch_id}")
    if figures.records_per_second is not None:
        parts.append(f"{figures.records_per_second:,.0f} records/s")
    if figures.lag_records is not None:
        age = "" if not figures.lag_seconds else f" ({span(figures.lag_seconds * 1000)})"
        parts.append(f"lag {figures.lag_records:,}{age}")
    if figures.remaining_seconds:
        parts.append(f"done in {span(figures.remaining_seconds * 1000)}")
    if figures.watermark is not None:
        parts.append(f"watermark {figures.watermark}")
    if figures.bad_records:
        parts.append(f"{figures.bad_records:,} bad")
    if figures.late_rows:
        parts.append(f"{figures.late_rows:,} late")
    restarts = sum(query.restarts for query in status.queries.values())
    if restarts:
        parts.append(f"restarted {restarts}×")  # noqa: RUF001 (the sign for times)
    if status.error is not None and status.state != "failed":
        parts.append(status.error)
    return ", ".join(parts)


class PlainLines:
    """A line for each flow when its state changes, and every ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._states: dict[str, tuple[str, str | None]] = {}
        self._printed_at: dict[str, float] = {}

    def batch(self, status: FlowStatus, role: str, report: BatchReport) -> None:
        """Prints nothing: a line for each micro-batch would be too many."""

    def show(self, statuses: Sequence[FlowStatus]) -> None:
        """Prints the flows whose line is due."""
        now = self._clock()
        for status in statuses:
            state = (status.state, status.error)
            is_due = now - self._printed_at.get(status.flow, now) >= _PLAIN_INTERVAL_S and not status.is_final
            if state != self._states.get(status.flow) or is_due:
                print(flow_line(status), flush=True)
                self._states[status.flow], self._printed_at[status.flow] = state, now

    def close(self) -> None:
        """Does nothing."""


class ScreenLines:
    """A line for each flow, refreshed in place on a terminal."""

    def __init__(self) -> None:
        self._live: Live | None = None

    def batch(self, status: FlowStatus, role: str, report: BatchReport) -> None:
        """Shows nothing: the next refresh does."""

    def show(self, statuses: Sequence[FlowStatus]) -> None:
        """Refreshes the lines."""
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=new_console(), auto_refresh=False)
            self._live.start()
        self._live.update(Text("\n".join(map(flow_line, statuses)), overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        """Leaves the last lines on the screen."""
        if self._live is not None:
            self._live.stop()


class JsonLines:
    """One line of JSON for each finished micro-batch."""

    def batch(self, status: FlowStatus, role: str, report: BatchReport) -> None:
        """Prints the line."""
        place = {"pipeline": status.pipeline, "environment": status.environment, "flow": status.flow, "query": role}
        print(json.dumps({**place, **report.as_json()}), flush=True)

    def show(self, statuses: Sequence[FlowStatus]) -> None:
        """Prints nothing."""

    def close(self) -> None:
        """Does nothing."""


def lines_for(*, as_json: bool) -> PlainLines | ScreenLines | JsonLines:
    """Returns what prints a run's lines on standard output."""
    if as_json:
        return JsonLines()
    return ScreenLines() if sys.stdout.isatty() else PlainLines()
