"""Tests alarms: they are cheap to move, dropped lazily, and extended after a stall."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from tests.unit.runtime.fake_ports import ManualTimers

from klamm.core.coordinator.shard_contract import TimerKey, TimerKind
from klamm.runtime.alarms import AlarmQueue, Alarms

KIND = TimerKind("alarm")
A, B = TimerKey(KIND, "a"), TimerKey(KIND, "b")


class Bell:
    """Alarms that record the times at which they ring."""

    def __init__(self) -> None:
        self.timers = ManualTimers()
        self.queue = AlarmQueue(self.timers)
        self.rung: list[tuple[TimerKey, float]] = []
        self.alarms = Alarms(self.queue, lambda key: self.rung.append((key, self.timers.now_ms())))


def test_alarm_rings_once_at_its_time() -> None:
    """An alarm rings at its time, not earlier, and only once."""
    bell = Bell()
    bell.alarms.arm(A, 1200)
    bell.timers.advance(1199)
    assert bell.rung == []
    bell.timers.advance(10_000)
    assert bell.rung == [(A, 1200)]
    assert len(bell.alarms) == 0


def test_alarms_ring_in_the_order_of_their_times() -> None:
    """Alarms ring in the order of their times, regardless of the order in which they were armed."""
    bell = Bell()
    bell.alarms.arm(A, 300)
    bell.alarms.arm(B, 200)
    bell.timers.advance(1000)
    assert bell.rung == [(B, 200), (A, 300)]


def test_alarm_that_moves_later_rings_later() -> None:
    """An alarm that each heartbeat moves later rings at its last time only, and has one entry in the heap."""
    bell = Bell()
    for _ in range(100):
        bell.alarms.arm(A, 1000)
        bell.timers.advance(90)
    assert bell.rung == []
    assert len(bell.queue._heap) == 1
    bell.timers.advance(910)
    assert bell.rung == [(A, 99 * 90 + 1000)]


def test_alarm_that_moves_earlier_rings_earlier_and_once() -> None:
    """An alarm that moves earlier rings once, as when a new member's five minutes become a session of seconds."""
    bell = Bell()
    bell.alarms.arm(A, 5000)
    bell.alarms.arm(A, 700)
    bell.timers.advance(10_000)
    assert bell.rung == [(A, 700)]


def test_cancelled_alarm_does_not_ring() -> None:
    """A cancelled alarm does not ring unless it is armed again."""
    bell = Bell()
    bell.alarms.arm(A, 100)
    bell.alarms.arm(B, 100)
    bell.alarms.cancel(A)
    bell.alarms.cancel(TimerKey(KIND, "never"))
    bell.timers.advance(500)
    assert bell.rung == [(B, 100)]
    bell.alarms.arm(A, 100)
    bell.timers.advance(500)
    assert bell.rung == [(B, 100), (A, 600)]


def test_alarm_may_move_or_cancel_those_that_ring_with_it() -> None:
    """An alarm may move or cancel another alarm that is due at the same time, before the other one rings."""
    bell = Bell()

    def fire(key: TimerKey) -> None:
        bell.rung.append((key, bell.timers.now_ms()))
        if key == A and len(bell.rung) == 1:
            bell.alarms.arm(B, 50)
            bell.alarms.cancel(TimerKey(KIND, "c"))

    bell.alarms.fire = fire
    for key in (A, B, TimerKey(KIND, "c")):
        bell.alarms.arm(key, 10)
    bell.timers.advance(500)
    assert bell.rung == [(A, 10), (B, 60)]


def test_all_alarms_of_an_owner_can_be_cancelled() -> None:
    """`cancel_all` cancels the alarms of one owner; alarms of other owners still ring."""
    bell = Bell()
    other: list[TimerKey] = []
    others = Alarms(bell.queue, other.append)
    bell.alarms.arm(A, 10)
    others.arm(A, 10)
    bell.alarms.cancel_all()
    bell.timers.advance(100)
    assert (bell.rung, other) == ([], [A])


def test_stall_extends_all_alarms() -> None:
    """A stall of ten seconds extends all alarms, because the broker could receive no heartbeat in that time."""
    bell = Bell()
    bell.alarms.arm(A, 6000)
    bell.timers.advance(1000)
    bell.timers.stall(10_000)
    assert bell.rung == []
    bell.timers.advance(4400)
    assert bell.rung == []
    bell.timers.advance(1000)
    assert [key for key, _ in bell.rung] == [A]


def test_nothing_rings_in_the_moment_after_a_stall() -> None:
    """No alarm rings right after a stall, even if it was due before, because the sockets must be read first."""
    bell = Bell()
    bell.alarms.arm(A, 100)
    bell.timers.stall(3000)
    assert bell.rung == []
    bell.alarms.arm(A, 6000)
    bell.timers.advance(5999)
    assert bell.rung == []


def test_alarm_armed_right_after_a_stall_is_not_extended_by_it() -> None:
    """A stall does not extend an alarm that is armed after the stall, but before the queue's next wake-up."""
    bell = Bell()
    bell.alarms.arm(B, 100)
    bell.timers.call_at(50, lambda: bell.alarms.arm(A, 6000))
    bell.timers.stall(20_000)
    bell.timers.advance(5999)
    assert A not in [key for key, _ in bell.rung]
    bell.timers.advance(502)
    assert A in [key for key, _ in bell.rung]


def test_busy_loop_is_not_a_stall() -> None:
    """A wake-up that is a little late is not a stall, and the due alarms ring."""
    bell = Bell()
    bell.alarms.arm(A, 100)
    bell.timers.stall(400)
    assert bell.rung == [(A, 400)]


def test_stopped_queue_wakes_no_more() -> None:
    """After `stop` (the broker shuts down) no alarm rings."""
    bell = Bell()
    bell.alarms.arm(A, 100)
    bell.queue.stop()
    bell.timers.advance(1000)
    assert bell.rung == []


def test_many_alarms_at_once_let_others_have_their_turn() -> None:
    """Many alarms that are due together ring in portions, so that other callbacks run in between. No alarm is lost."""
    bell = Bell()

    def fire(key: TimerKey) -> None:
        bell.rung.append((key, bell.timers.now_ms()))
        bell.timers._now_ms += 1
        if key == TimerKey(KIND, detail="0"):
            bell.alarms.cancel(TimerKey(KIND, detail="98"))
            bell.alarms.arm(TimerKey(KIND, detail="99"), 500)

    bell.alarms.fire = fire
    for number in range(100):
        bell.alarms.arm(TimerKey(KIND, detail=str(number)), 10)
    turns: list[int] = []
    for at_ms in range(12, 62, 10):
        bell.timers.call_at(at_ms, lambda: turns.append(len(bell.rung)))
    bell.timers.advance(1000)
    assert all(0 < after - before < 20 for before, after in pairwise(turns))
    assert [key for key, _ in bell.rung] == [
        *(TimerKey(KIND, detail=str(number)) for number in range(98)),
        TimerKey(KIND, detail="99"),
    ]


class Dependent:
    """An object that counts how often it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


def ring(bell: Bell) -> None:
    bell.timers.advance(1_000)


def cancel(bell: Bell) -> None:
    bell.alarms.cancel(A)


def cancel_all(bell: Bell) -> None:
    bell.alarms.cancel_all()


def tie_something_else(bell: Bell) -> None:
    alarm = bell.alarms.armed(A)
    assert alarm is not None
    alarm.tie(Dependent())


@pytest.mark.parametrize("ending", [ring, cancel, cancel_all, tie_something_else])
def test_what_is_tied_to_an_alarm_is_called_off_with_it(ending: Callable[[Bell], None]) -> None:
    """An object that is tied to an alarm is cancelled once when the alarm ends, and not when the alarm only moves."""
    bell, tied = Bell(), Dependent()
    bell.alarms.arm(A, 1_000)
    alarm = bell.alarms.armed(A)
    assert alarm is not None
    alarm.tie(tied)
    bell.alarms.arm(A, 900)
    assert tied.cancelled == 0
    ending(bell)
    assert tied.cancelled == 1
    bell.alarms.cancel(A)
    assert tied.cancelled == 1
    assert bell.alarms.armed(A) is None
