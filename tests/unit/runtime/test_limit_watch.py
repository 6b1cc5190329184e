"""Tests when the broker records that a group is limited by its partitions, and that it keeps up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from tests.unit.core.group.history.story import Story, committed, parts

from klamm.core.delivery.commit_text import CommitNote, encode_note
from klamm.core.group.events import Cause, GroupLimited
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.core.group.partition_traffic import PartitionTraffic, Traffic
from klamm.protocol.types import Offset, PartitionIndex
from klamm.runtime.limit_watch import LimitWatch

LOOK_MS = 30_000
REPORTS = 6


class World:
    """A group with the members a and b, one partition each, and the reports of traffic."""

    def __init__(self) -> None:
        self.story = Story()
        self.story.tell(self.story.joined("a"), self.story.joined("b"))
        self.story.settle({"a": parts(0), "b": parts(1)})
        self.story.records.clear()
        self.published: list[GroupLimited] = []
        self.offsets: dict[str, Mapping[PartitionIndex, CommittedOffset]] = {}
        self.now_ms = 0.0
        self.ends = [0, 0]
        self.read = [0, 0]
        self.note = CommitNote()
        """What a worker says of partition 0."""
        self.on_step: Callable[[], None] = lambda: None
        """What happens between two steps of a look."""
        self.watch = LimitWatch(self.story.trackers, lambda group_id: self.offsets, self._publish)

    def _publish(self, partition: PartitionIndex, event: GroupLimited) -> None:
        self.published.append(event)
        self.story.tell(event)

    def look(self, arriving: int, done: int, times: int = 1, traffic: Traffic | None = None) -> None:
        """Lets half a minute pass with these records for partition 0, as many times; partition 1 gets ten a second."""
        for _ in range(times):
            self.now_ms += LOOK_MS
            self.ends[0] += arriving * 30
            self.read[0] = min(self.ends[0], self.read[0] + done * 30)
            self.ends[1] += 300
            self.read[1] += 300
            self.offsets = {
                "events": {PartitionIndex(index): committed(offset) for index, offset in enumerate(self.read)}
            }
            first = self.offsets["events"][PartitionIndex(0)]
            text = encode_note(first.offset, self.note, 4096)
            self.offsets["events"] = {**self.offsets["events"], PartitionIndex(0): first._replace(metadata=text)}
            flows = [PartitionTraffic(Offset(0), Offset(end), 0.0) for end in self.ends]
            for _ in range(REPORTS):
                for _ in self.watch.look(traffic or {"events": flows}, self.now_ms, self.story.at):
                    self.on_step()


def test_a_limit_is_recorded_once_when_two_looks_find_it() -> None:
    """A limit is published by the second look that finds it, and not again while it lasts."""
    world = World()
    world.look(100, 100, times=3)
    world.look(900, 300, times=2)
    assert world.published == []
    world.look(900, 300)
    (limit,) = world.published
    assert (limit.group_id, limit.cause) == ("orders", Cause.LIMITED_BY_PARTITION)
    assert limit.detail.startswith(
        "limited by events-0: 900 records/s arrive, its owner a does 300/s of them, the lag of 54,000 grows by 600/s; "
        "1 of 2 members has no lag that grows; more members do not help"
    )
    world.look(900, 300, times=5)
    assert len(world.published) == 1


def test_a_worker_that_waits_for_one_record_is_not_limited() -> None:
    """The committed offset stands still, but the records beyond it are finished as fast as they arrive."""
    world = World()
    for _ in range(6):
        if end := world.ends[0]:
            world.note = CommitNote(finished=((Offset(1), Offset(end)),), in_flight=1)
        world.look(900, 0)
    assert world.read[0] == 0
    assert world.published == []
    world.look(900, 0, times=3)
    (limit,) = world.published
    assert limit.cause == Cause.LIMITED_BY_PARTITION


@pytest.mark.parametrize("change", ["none", "forgotten", "rebalance"])
def test_a_group_that_changes_during_a_look_is_not_judged(change: str) -> None:
    """A look at a worker's metadata takes several steps. Between them the coordinator may lose the group, or a
    rebalance may begin.
    """
    world = World()
    world.note = CommitNote(in_flight=1)
    world.look(900, 300, times=2)
    if change == "forgotten":
        world.on_step = partial(world.watch.forget, PartitionIndex(0))
    elif change == "rebalance":
        world.on_step = lambda: world.story.tell(world.story.needed())
    world.look(900, 300)
    assert bool(world.published) is (change == "none")


def test_the_end_of_a_limit_is_recorded() -> None:
    """A limit ends when two looks find none, also if lag is left."""
    world = World()
    world.look(900, 300, times=4)
    world.look(100, 300)
    assert len(world.published) == 1
    world.look(100, 300, times=5)
    limit, ended = world.published
    assert (limit.cause, ended.cause) == (Cause.LIMITED_BY_PARTITION, Cause.KEEPS_UP)
    assert ended.detail.startswith("no longer limited: 110 records/s arrive, 310/s are done, the lag is ")
    assert [(record["outcome"], record["causes"][0]["code"]) for record in world.story.records] == [
        ("limited", "limited_by_partition"),
        ("keeps_up", "keeps_up"),
    ]


def test_a_limit_record_leaves_epochs_and_owners_alone() -> None:
    """The record has the present epoch before and after, the present members, and no moves; sequences continue."""
    world = World()
    world.look(900, 300, times=4)
    (record,) = world.story.records
    assert (record["previous_epoch"], record["epoch"], record["sequence"]) == (1, 1, 1)
    assert record["members_before"] == record["members_after"]
    assert (record["moved"], record["assignor"]) == ([], None)
    world.story.tell(world.story.needed(Cause.LEADER_REJOINED, "a"))
    world.story.settle({"a": parts(0), "b": parts(1)})
    assert [each["sequence"] for each in world.story.records] == [1, 2]


def test_too_few_members_are_no_limit_of_the_partitions() -> None:
    """If more members would help, nothing is recorded: that is what the members needed are for."""
    world = World()
    world.story.tell(world.story.removed("b"), world.story.needed(Cause.MEMBER_LEFT, "b"))
    world.story.settle({"a": parts(0, 1)})
    world.look(100, 90, times=6)
    assert world.published == []


def test_a_group_that_hangs_is_not_limited_by_its_partitions() -> None:
    """If no member commits anything, nothing is recorded: the partitions are not the reason."""
    world = World()
    world.look(100, 100, times=2)
    for _ in range(5):
        world.read[1] -= 300  # partition 1 stands still, too
        world.look(900, 0)
    assert world.published == []


def test_a_rebalance_starts_the_measurement_again() -> None:
    """Figures from before and after a rebalance are not compared, and a group in a rebalance is not judged."""
    world = World()
    world.look(900, 300, times=2)
    world.story.tell(world.story.needed(Cause.LEADER_REJOINED, "a"))
    world.look(900, 300, times=3)
    world.story.settle({"a": parts(1), "b": parts(0)})
    world.look(900, 300, times=2)
    assert world.published == []
    world.look(900, 300)
    assert "its owner b does" in world.published[0].detail


def test_a_group_with_partitions_of_other_brokers_is_not_judged() -> None:
    """Without the traffic of all partitions, it is not known whether the others keep up."""
    world = World()
    flows = [PartitionTraffic(Offset(0), Offset(10**9), 0.0), None]
    world.look(900, 300, times=6, traffic={"events": flows})
    assert world.published == []


def test_a_group_whose_coordinator_moved_is_forgotten() -> None:
    """After the partition was forgotten, a limit is measured from the beginning."""
    world = World()
    world.look(900, 300, times=2)
    world.watch.forget(PartitionIndex(0))
    world.look(900, 300, times=2)
    assert world.published == []
