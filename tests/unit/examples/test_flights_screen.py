"""What the demo shows on a terminal of 100 columns."""

from __future__ import annotations

import io
from typing import cast

import pytest
from examples.flights.screen import Screen
from examples.flights.watch import Watcher
from rich.console import Console


class Lane:
    """A lane with the widest numbers that the demo comes to."""

    high_watermark = 336_776
    owner = "member-1"

    def lag(self, group: str) -> int:
        """Everything is still to be read."""
        return self.high_watermark


class Latest:
    """Six of them."""

    lanes = [Lane()] * 6


class FullWatcher:
    """What a watcher sees."""

    latest = Latest()

    def rate(self, index: int, group: str | None) -> float:
        """More than there are in a second, at a year in 30 seconds."""
        return 99_999.0


@pytest.fixture
def screen() -> Screen:
    shown = Screen(cast(Watcher, FullWatcher()), "queue", "spark-delays")
    shown._console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
    return shown


def shown_by(screen: Screen) -> list[str]:
    """The lines on the terminal."""
    file = screen._console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def test_lanes_fit(screen: Screen) -> None:
    """Each is one line, with every number whole."""
    screen._console.print(screen._lanes("31 December 2013"))
    lines = shown_by(screen)
    assert sum("member-1" in line for line in lines) == 6
    assert all(len(line) <= 100 and "…" not in line for line in lines)


def test_plain_lanes_fit(screen: Screen) -> None:
    """Where there is no terminal."""
    assert all(len(line) <= 100 for line in screen._plain_lanes("31 December 2013"))


def test_a_long_event_goes_on_below_its_text(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    """Words stay whole, and the clock stands alone."""
    screen.say("member-2 died, no heartbeat for 6 s: " + "partitions 2 and 3 went to members 1 and 3, " * 4)
    lines = (capsys.readouterr().out.splitlines()) or shown_by(screen)
    assert len(lines) > 1
    assert all(len(line) <= 100 for line in lines)
    assert all(line.startswith(" " * 10) for line in lines[1:])
