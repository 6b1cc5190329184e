"""Tests loading in turns: a large partition delays only the clients of its own groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.unit.runtime.fake_ports import ManualTimers

from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex
from klamm.runtime.alarms import AlarmQueue, Alarms
from klamm.runtime.led_partition import LedPartition, PartitionState
from klamm.runtime.linger import Linger
from klamm.runtime.load_queue import LoadQueue


class World:
    """Partitions whose load steps take a millisecond each."""

    def __init__(self) -> None:
        self.timers = ManualTimers()
        self.finished: list[PartitionIndex] = []
        self.loads: LoadQueue[Any] = LoadQueue(self.timers)

    def add(self, partition: int, steps: int, error: Exception | None = None) -> LedPartition[Any]:
        led = LedPartition(
            PartitionIndex(partition),
            LeaderEpoch(0),
            cast(Any, None),
            Alarms(AlarmQueue(self.timers), lambda key: None),
            Linger(0, self.timers, lambda: None),
        )
        self.loads.add(led, self.steps(led, steps, error))
        return led

    def steps(self, led: LedPartition[Any], count: int, error: Exception | None) -> Iterator[Offset]:
        for offset in range(count):
            self.timers._now_ms += 1
            yield Offset(offset)
        if error is not None:
            raise error
        led.state = PartitionState.ACTIVE
        self.finished.append(led.partition)

    def turn(self) -> None:
        """Runs one turn of the event loop."""
        self.timers.stall(0)


def test_small_partition_is_loaded_in_the_call() -> None:
    """A small partition is loaded within `add`, so that a new partition answers at once."""
    world = World()
    world.add(0, steps=3)
    assert world.finished == [0]


def test_a_step_takes_a_few_milliseconds() -> None:
    """A load step takes a few milliseconds, and then the event loop can serve other requests."""
    world = World()
    world.add(0, steps=10)
    assert world.timers.now_ms() == 4
    world.turn()
    assert world.timers.now_ms() == 8
    world.turn()
    assert world.finished == [0]


def test_partitions_take_turns() -> None:
    """Partitions are loaded in turns, so that a small one does not wait for a large one."""
    world = World()
    world.add(0, steps=1000)
    world.add(1, steps=5)
    world.add(2, steps=2)
    for _ in range(5):
        world.turn()
    assert world.finished == [2, 1]
    world.timers.advance(2000)
    assert world.finished == [2, 1, 0]


def test_partition_that_is_given_up_is_read_no_further() -> None:
    """A partition whose leadership is lost while it loads is read no further."""
    world = World()
    led = world.add(0, steps=1000)
    led.state = PartitionState.CLOSED
    world.turn()
    assert world.timers.now_ms() == 4
    assert world.finished == []


def test_partition_that_cannot_be_read_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """A partition that cannot be read fails with a log line, and the other partitions are loaded."""
    world = World()
    led = world.add(0, steps=5, error=ValueError("a bad record"))
    world.add(1, steps=5)
    world.timers.advance(100)
    assert led.state is PartitionState.FAILED
    assert world.finished == [1]
    assert "cannot be read" in caplog.text


def test_partition_that_comes_within_a_step_has_its_turn() -> None:
    """A partition that is added during a load step, because it must be loaded again, is loaded in its turn."""
    world = World()

    def steps() -> Iterator[Offset]:
        yield Offset(0)
        world.add(1, steps=2)
        yield Offset(1)
        world.finished.append(PartitionIndex(0))

    world.loads.add(world.add(9, steps=0), steps())
    assert world.finished == [9, 0, 1]


def test_stop_ends_it() -> None:
    """After `stop` no partition is read further."""
    world = World()
    world.add(0, steps=1000)
    world.loads.stop()
    world.turn()
    assert world.timers.now_ms() == 4
