"""How a group is doing, measured by its commits and by what flows through its partitions."""

from __future__ import annotations

import pytest

from klamm.core.group.assignors.load_settings import DEFAULT_LOAD_SETTINGS, LoadSettings
from klamm.core.group.committed_offset import CommittedOffset, PartitionOffsets
from klamm.core.group.group_meter import GroupFigures, GroupMeter
from klamm.core.group.traffic import PartitionTraffic
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

SECOND = 1000


class Group:
    """A group of two members that reads two partitions; the meter looks when it is told to."""

    def __init__(self) -> None:
        self.meter = GroupMeter()
        self.members = 2

    def look(
        self, at: int, committed: int, end: int, *, rate: float = 100.0, settings: LoadSettings = DEFAULT_LOAD_SETTINGS
    ) -> GroupFigures:
        """At that time each partition is committed so far and ends there."""
        offsets = PartitionOffsets()
        for partition in (PartitionIndex(0), PartitionIndex(1)):
            offsets[partition] = CommittedOffset(
                Offset(committed), LeaderEpoch(-1), "", Millis(0), None, TopicId(bytes(16)), Offset(0)
            )
        traffic = {"events": [PartitionTraffic(Offset(0), Offset(end), rate)] * 2}
        return self.meter.measure(
            "orders", self.members, {"events": offsets}, traffic, settings=settings, now=Millis(at)
        )


def test_lag_and_rate_are_sums_over_partitions() -> None:
    """From the first look on; what a member manages takes two."""
    assert Group().look(0, 50, 80) == GroupFigures("orders", 2, 60, 200.0, None, None)


def test_the_pace_of_a_busy_group_says_how_many_members_it_needs() -> None:
    """Two members got through 100 records a second each; a partition is never more than one member's."""
    group = Group()
    group.look(0, 0, 100_000, rate=300.0)
    figures = group.look(10 * SECOND, 1000, 103_000, rate=50.0)
    assert figures.pace == pytest.approx(100)
    assert figures.members_needed == 2
    patient = LoadSettings(lag_drain_ms=10_000_000)
    assert group.look(10 * SECOND, 1000, 1000, rate=20.0, settings=patient).members_needed == 1


def test_a_group_that_waits_for_records_does_not_slow_down() -> None:
    """It reads no faster than records come; what it can do is known from before, or not at all."""
    group = Group()
    group.look(0, 0, 0)
    assert group.look(10 * SECOND, 100, 100).pace is None
    group.look(20 * SECOND, 200, 50_000)
    busy = group.look(30 * SECOND, 10_200, 50_000).pace
    group.look(40 * SECOND, 50_000, 50_000)
    assert busy is not None
    idle = group.look(50 * SECOND, 50_010, 50_010).pace
    assert idle is not None
    assert idle >= busy


def test_offsets_and_clocks_that_go_back_are_passed_over() -> None:
    """After a reset of offsets the pace is what it was."""
    group = Group()
    group.look(0, 0, 100_000)
    pace = group.look(10 * SECOND, 1000, 100_000).pace
    assert group.look(20 * SECOND, 0, 100_000).pace == pace
    assert group.look(5 * SECOND, 500, 100_000).pace == pace


def test_looks_that_follow_at_once_say_the_same() -> None:
    """Two scrapers do not disturb each other."""
    group = Group()
    group.look(0, 0, 100_000)
    pace = group.look(10 * SECOND, 1000, 100_000).pace
    assert group.look(10 * SECOND + 5, 1500, 100_000).pace == pace


def test_groups_that_are_gone_are_forgotten() -> None:
    """One of the same name begins anew."""
    group = Group()
    group.look(0, 0, 100_000)
    group.look(10 * SECOND, 1000, 100_000)
    group.meter.forget_others({"another"})
    assert group.look(20 * SECOND, 2000, 100_000).pace is None
