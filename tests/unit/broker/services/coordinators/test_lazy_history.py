"""Tests that the history of groups starts a moment after the first event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from tests.unit.runtime.fake_ports import LaterExecutor, ManualTimers

from klamm.broker.services.coordinators.lazy_history import LazyHistory
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.types import PartitionIndex
from klamm.runtime.history_writer import GroupHistory

P0, P1 = PartitionIndex(0), PartitionIndex(1)


class Listener:
    """Records what a history receives."""

    def __init__(self, timers: ManualTimers | None = None) -> None:
        self.timers = timers
        self.heard: list[tuple[int, Sequence[object] | str]] = []
        self.begun = self.loaded = 0

    def load(self) -> None:
        self.loaded += 1

    def begin(self) -> GroupHistory:
        assert self.loaded == 1, "the code comes first"
        self.begun += 1
        return cast(GroupHistory, self)

    def publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        self.heard.append((partition, events))
        if self.timers is not None:
            self.timers.stall(2)

    def on_resignation(self, partition: PartitionIndex) -> None:
        self.heard.append((partition, "resigned"))

    def on_traffic(self, traffic: Traffic) -> None:
        self.heard.append((-1, "traffic"))

    def stop(self) -> None:
        self.heard.append((-1, "stopped"))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def timers() -> ManualTimers:
    return ManualTimers()


@pytest.fixture
def history(listener: Listener, timers: ManualTimers) -> LazyHistory:
    return LazyHistory(timers, LaterExecutor(timers), load=listener.load, begin=listener.begin)


def test_nothing_begins_as_long_as_nothing_happens(
    history: LazyHistory, listener: Listener, timers: ManualTimers
) -> None:
    """The history does not start without an event; the end of a leadership is no event."""
    history.on_resignation(P0)
    timers.advance(60_000)
    history.stop()
    assert (listener.begun, listener.heard) == (0, [])


def test_what_happens_in_the_first_moment_is_told_in_order(
    history: LazyHistory, listener: Listener, timers: ManualTimers
) -> None:
    """Events of the first moment are delivered in order after the start, and later events at once."""
    history.publish(P0, ["a"])
    history.on_resignation(P0)
    history.publish(P1, ["b"])
    assert listener.begun == 0
    timers.advance(1000)
    assert listener.heard == [(0, ["a"]), (0, "resigned"), (1, ["b"])]
    history.publish(P0, ["c"])
    history.on_resignation(P1)
    history.stop()
    assert listener.heard[3:] == [(0, ["c"]), (1, "resigned"), (-1, "stopped")]
    assert listener.begun == 1


def test_catching_up_lets_others_have_their_turn(timers: ManualTimers) -> None:
    """The backlog is delivered in steps, since there may be thousands of groups after a start; new events wait for
    their place."""
    listener = Listener(timers)
    history = LazyHistory(timers, LaterExecutor(timers), load=listener.load, begin=listener.begin)
    for number in range(5):
        history.publish(P0, [number])
    timers.advance(200)
    assert [events for _, events in listener.heard] == [[0], [1]]
    history.publish(P0, [5])
    history.on_resignation(P0)
    timers.advance(1000)
    assert [events for _, events in listener.heard] == [[0], [1], [2], [3], [4], [5], "resigned"]


def test_stop_within_the_first_moment_is_the_end(
    history: LazyHistory, listener: Listener, timers: ManualTimers
) -> None:
    """A history that is stopped within the first moment never starts."""
    history.publish(P0, ["a"])
    history.stop()
    history.publish(P0, ["b"])
    timers.advance(1000)
    assert listener.begun == 0


def test_history_that_can_not_begin_costs_what_waits_for_it(
    listener: Listener, timers: ManualTimers, caplog: pytest.LogCaptureFixture
) -> None:
    """If the history can't start, the waiting events are dropped with one log line, and the next event tries again."""

    def begin() -> GroupHistory:
        if listener.loaded == 1:
            raise OSError("too many open files")
        return cast(GroupHistory, listener)

    history = LazyHistory(timers, LaterExecutor(timers), load=listener.load, begin=begin)
    history.publish(P0, ["a"])
    timers.advance(1000)
    assert "the history of groups can't begin" in caplog.text
    assert "too many open files" in caplog.text
    assert not history._untold
    history.publish(P0, ["b"])
    timers.advance(1000)
    history.publish(P0, ["c"])
    assert listener.heard == [(0, ["b"]), (0, ["c"])]


def test_traffic_before_the_first_event_is_ignored(
    history: LazyHistory, listener: Listener, timers: ManualTimers
) -> None:
    """Traffic does not start the history; later it is passed on."""
    history.on_traffic({})
    timers.advance(1000)
    assert listener.begun == 0
    history.publish(P0, ["a"])
    timers.advance(1000)
    history.on_traffic({})
    assert listener.heard == [(0, ["a"]), (-1, "traffic")]
