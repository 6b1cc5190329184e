"""What the demo shows while it runs: six lanes and what happened, live on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.flights.watch import Watcher

__all__ = ["Screen"]

OTHER_COLUMNS_WIDTH: Final = 71
SHORTEST_BAR: Final = 8
LONGEST_BAR: Final = 40
PLAIN_INTERVAL_S: Final = 5.0
MEMBER_STYLES: Final = {"member-1": "cyan", "member-2": "magenta", "member-3": "green"}


class Screen:
    """Shows the lanes again and again, and each event once, when it happens."""

    def __init__(self, watcher: Watcher, queue: str, flows: Mapping[str, str]) -> None:
        """Takes the group of the queue, and the groups of the pipeline's flows by name."""
        self._watcher = watcher
        self._queue = queue
        self._flows = flows
        self._console = Console(highlight=False, soft_wrap=False)
        self._events: list[str] = []
        self._began_s = time.monotonic()
        self._plain_shown_s = self._began_s
        self._live = (
            Live(console=self._console, refresh_per_second=5, transient=True) if self._console.is_terminal else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._console.print(self._lanes())

    def say(self, text: str) -> None:
        """An event: it stays on the screen."""
        clock = f"{time.monotonic() - self._began_s:6.1f} s  "
        first, *rest = textwrap.wrap(text, self._console.width - len(clock) - 1)
        if self._live is None:
            print("\n".join([clock + first, *(" " * len(clock) + line for line in rest)]), flush=True)
        else:
            lines = [Text.assemble((clock, "dim"), first), *(Text(" " * len(clock) + line) for line in rest)]
            self._console.print(Text("\n").join(lines))

    def show(self, moment_ms: int | None) -> None:
        """The lanes as they are now; `moment_ms` is the replay's clock."""
        title = "" if moment_ms is None else datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%d %B %Y")
        if self._live is not None:
            self._live.update(Group(self._lanes(title)))
        elif title and time.monotonic() - self._plain_shown_s >= PLAIN_INTERVAL_S:
            self._plain_shown_s = time.monotonic()
            for line in self._plain_lanes(title):
                print(line, flush=True)

    def _lanes(self, title: str = "") -> Table:
        table = Table(title=title or None, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
        for header, is_number in (
            ("\nlane", True),
            ("records\n(keys are airports)", False),
            ("\nin/s", True),
            ("queue\nowner", False),
            ("queue\nread/s", True),
            ("queue\nlag", True),
            *((f"{flow}\nlag", True) for flow in self._flows),
        ):
            table.add_column(header, justify="right" if is_number else "left", no_wrap=True)
        bar_width = min(max(self._console.width - OTHER_COLUMNS_WIDTH, SHORTEST_BAR), LONGEST_BAR)
        lanes = self._watcher.latest.lanes
        largest = max(1, *(lane.high_watermark for lane in lanes))
        for index, lane in enumerate(lanes):
            bar = "━" * round(bar_width * lane.high_watermark / largest)
            style = MEMBER_STYLES.get(lane.owner or "", "red")
            table.add_row(
                str(index),
                Text.assemble((f"{bar:<{bar_width}}", style), f" {lane.high_watermark:>7,}"),
                f"{self._watcher.rate(index, None):,.0f}",
                Text(lane.owner or "no owner", style),
                f"{self._watcher.rate(index, self._queue):,.0f}",
                _number(lane.lag(self._queue)),
                *(_number(lane.lag(group)) for group in self._flows.values()),
            )
        return table

    def _plain_lanes(self, title: str) -> list[str]:
        lines = [f"{title}: records, the queue's owner with its rate and lag, lag of {' and '.join(self._flows)}"]
        for index, lane in enumerate(self._watcher.latest.lanes):
            lines.append(
                f"  lane {index}: {lane.high_watermark:>7,} in, {self._watcher.rate(index, None):>6,.0f}/s"
                f" | {lane.owner or 'no owner':8} {self._watcher.rate(index, self._queue):>6,.0f}/s,"
                f" lag {_number(lane.lag(self._queue)):>6}"
                f" | {', '.join(f'{flow} {_number(lane.lag(group)):>6}' for flow, group in self._flows.items())}"
            )
        return lines


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"
