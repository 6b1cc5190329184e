"""Tests of the group meter, which measures groups by their commits and the traffic of their partitions."""

from __future__ import annotations

import pytest
from tests.support.slices import finish

from klamm.core.group.assignors.load_settings import DEFAULT_LOAD_SETTINGS, LoadSettings
from klamm.core.group.group_meter import GroupFigures, GroupMeter
from klamm.core.group.offsets.committed_offset import CommittedOffset, PartitionOffsets
from klamm.core.group.partition_traffic import PartitionTraffic
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

SECOND = 1000


class Group:
    """A group of two members that reads two partitions of `events`, and the partitions of `others`."""

    def __init__(self) -> None:
        self.meter = GroupMeter()
        self.members = 2
        self.others = PartitionOffsets()
        """Committed offsets of partitions that the group has read to the end."""
        self.are_others_known = True

    def look(
        self, at: int, committed: int, end: int, *, rate: float = 100.0, settings: LoadSettings = DEFAULT_LOAD_SETTINGS
    ) -> GroupFigures:
        """Measures the group at a time, with one committed offset and one end offset for each partition of `events`."""
        traffic = {"events": [PartitionTraffic(Offset(0), Offset(end), rate)] * 2}
        if self.are_others_known:
            traffic["others"] = [PartitionTraffic(Offset(0), each.offset, 0.0) for each in self.others.values()]
        offsets = {"events": committed_everywhere(2, committed), "others": self.others}
        return finish(self.meter.measure("orders", self.members, offsets, traffic, settings=settings, now=Millis(at)))


def committed_everywhere(partitions: int, offset: int) -> PartitionOffsets:
    """Returns the same committed offset for each partition."""
    offsets = PartitionOffsets()
    for partition in range(partitions):
        offsets[PartitionIndex(partition)] = CommittedOffset(
            Offset(offset), LeaderEpoch(-1), "", Millis(0), None, TopicId(bytes(16)), Offset(0)
        )
    return offsets


def test_lag_and_rate_are_sums_over_partitions() -> None:
    """Lag and arrival rate are sums over the partitions from the first measurement on; the pace needs two."""
    assert Group().look(0, 50, 80) == GroupFigures("orders", 2, 60, 200.0, None, None)


def test_the_pace_of_a_busy_group_says_how_many_members_it_needs() -> None:
    """The number of needed members follows from the pace, here 100 records a second for each of two members."""
    group = Group()
    group.look(0, 0, 100_000, rate=300.0)
    figures = group.look(10 * SECOND, 1000, 103_000, rate=50.0)
    assert figures.pace == pytest.approx(100)
    assert figures.members_needed == 2
    patient = LoadSettings(lag_drain_ms=10_000_000)
    assert group.look(10 * SECOND, 1000, 1000, rate=20.0, settings=patient).members_needed == 1


def test_a_group_that_waits_for_records_does_not_slow_down() -> None:
    """A group that has no lag keeps its earlier pace, or has none, because it reads only as fast as records arrive."""
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
    """Offsets or clocks that go back leave the pace unchanged."""
    group = Group()
    group.look(0, 0, 100_000)
    pace = group.look(10 * SECOND, 1000, 100_000).pace
    assert group.look(20 * SECOND, 0, 100_000).pace == pace
    assert group.look(5 * SECOND, 500, 100_000).pace == pace


@pytest.mark.parametrize("has_pace", [True, False])
def test_first_commit_for_a_partition_is_no_progress(has_pace: bool) -> None:
    """The first commit of a partition, which may be at a large offset, is no progress; later commits are."""
    group = Group()
    if has_pace:
        group.look(0, 0, 100_000)
    before = group.look(10 * SECOND, 1000, 100_000).pace
    assert before == (pytest.approx(100) if has_pace else None)
    group.others = committed_everywhere(1, 1_000_000)
    assert group.look(15 * SECOND, 1500, 100_000).pace == before
    after = group.look(25 * SECOND, 3500, 100_000).pace
    assert after == pytest.approx(130 if has_pace else 200)


def test_partitions_that_nothing_is_known_of_for_a_while_are_no_progress() -> None:
    """A partition that another broker leads for some time adds no progress when it comes back."""
    group = Group()
    group.others = committed_everywhere(1, 1_000_000)
    group.look(0, 0, 100_000)
    pace = group.look(10 * SECOND, 1000, 100_000).pace
    group.are_others_known = False
    assert group.look(20 * SECOND, 2000, 100_000).pace == pace
    group.are_others_known = True
    assert group.look(30 * SECOND, 3000, 100_000).pace == pace


def test_looks_that_follow_at_once_say_the_same() -> None:
    """Measurements in quick succession return the same pace, so that two scrapers do not disturb each other."""
    group = Group()
    group.look(0, 0, 100_000)
    pace = group.look(10 * SECOND, 1000, 100_000).pace
    assert group.look(10 * SECOND + 5, 1500, 100_000).pace == pace


def test_groups_that_are_gone_are_forgotten() -> None:
    """A deleted group is forgotten, so a group of the same name starts without a pace."""
    group = Group()
    group.look(0, 0, 100_000)
    group.look(10 * SECOND, 1000, 100_000)
    finish(group.meter.forget_others({"another"}))
    assert group.look(20 * SECOND, 2000, 100_000).pace is None


def test_very_many_groups_are_forgotten_in_several_steps() -> None:
    """Deleted groups are forgotten in steps, and two such runs may overlap."""
    meter = GroupMeter()
    for index in range(2500):
        finish(meter.measure(f"g-{index}", 1, {}, {}, settings=DEFAULT_LOAD_SETTINGS, now=Millis(0)))
    steps, others = meter.forget_others({"g-0"}), meter.forget_others({"g-0"})
    next(steps)
    assert len(list(others)) == 1
    assert len(list(steps)) == 1


@pytest.mark.parametrize(("topics", "partitions"), [(1, 10_000), (10_000, 1), (10, 1001)])
def test_a_look_at_very_many_partitions_takes_several_steps(topics: int, partitions: int) -> None:
    """A measurement of many partitions takes several steps, between which offsets and topics may be removed."""
    traffic = {
        f"events-{topic}": [PartitionTraffic(Offset(0), Offset(30), 1.0)] * partitions for topic in range(topics)
    }
    offsets = {topic: committed_everywhere(partitions, 10) for topic in traffic}
    steps = GroupMeter().measure("orders", 1, offsets, traffic, settings=DEFAULT_LOAD_SETTINGS, now=Millis(0))
    for partition in range(3):
        next(steps)
        first = next(iter(offsets))
        del offsets[first][PartitionIndex(partition if topics == 1 else 0)]
        if topics > 1:
            del offsets[first]
    figures = finish(steps)
    assert figures.arrival_rate == topics * partitions
    assert figures.lag == topics * partitions * 20


def test_a_pace_of_very_many_partitions_is_made_use_of_in_steps() -> None:
    """The number of needed members is also correct if many partitions are counted in steps."""
    meter = GroupMeter()
    traffic = {"events": [PartitionTraffic(Offset(0), Offset(100_000), 1.0)] * 10_000}

    def look(at: int, committed: int) -> GroupFigures:
        offsets = {"events": committed_everywhere(10_000, committed)}
        return finish(
            meter.measure("orders", 10, offsets, traffic, settings=LoadSettings(target_lag=10**12), now=Millis(at))
        )

    look(0, 0)
    figures = look(10 * SECOND, 100)
    assert figures.pace == pytest.approx(10_000)
    assert figures.members_needed == 1
