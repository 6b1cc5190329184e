"""Tests the demo's output on a terminal of 100 columns."""

from __future__ import annotations

import io
from typing import cast

import pytest
from examples.flights.screen import Screen
from examples.flights.watch import Watcher
from rich.console import Console


class Lane:
    """A lane with the widest numbers of the demo."""

    high_watermark = 336_776
    owner = "member-1"

    def lag(self, group: str) -> int:
        """Returns the full high watermark, as if no record has been read."""
        return self.high_watermark


class Latest:
    """A state with six lanes."""

    lanes = [Lane()] * 6


class FullWatcher:
    """A watcher with the widest values."""

    latest = Latest()

    def rate(self, index: int, group: str | None) -> float:
        """Returns a rate above the demo's maximum, which is a year in 30 seconds."""
        return 99_999.0


@pytest.fixture
def screen() -> Screen:
    shown = Screen(cast(Watcher, FullWatcher()), "queue", {"delays": "flights.delays", "arrivals": "flights.arrivals"})
    shown._console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
    return shown


def shown_by(screen: Screen) -> list[str]:
    """Returns the lines on the terminal."""
    file = screen._console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue().splitlines()


def test_lanes_fit(screen: Screen) -> None:
    """Each lane is one line, and no number is cut."""
    screen._console.print(screen._lanes("31 December 2013"))
    lines = shown_by(screen)
    assert sum("member-1" in line for line in lines) == 6
    assert all(len(line) <= 100 and "…" not in line for line in lines)


def test_plain_lanes_fit(screen: Screen) -> None:
    """The plain lanes, for output without a terminal, fit into 100 columns."""
    assert all(len(line) <= 100 for line in screen._plain_lanes("31 December 2013"))


def test_a_long_event_goes_on_below_its_text(screen: Screen, capsys: pytest.CaptureFixture[str]) -> None:
    """A long event is wrapped below its text, and its words stay whole."""
    screen.say("member-2 died, no heartbeat for 6 s: " + "partitions 2 and 3 went to members 1 and 3, " * 4)
    lines = (capsys.readouterr().out.splitlines()) or shown_by(screen)
    assert len(lines) > 1
    assert all(len(line) <= 100 for line in lines)
    assert all(line.startswith(" " * 10) for line in lines[1:])
