"""Builds events of a group in short form, and collects the history records that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from klamm.core.group.events import (
    Cause,
    Event,
    GroupDeleted,
    GroupIsStable,
    GroupLoaded,
    GroupType,
    MemberAssigned,
    MemberJoined,
    MemberPaused,
    MemberRemoved,
    NewEpoch,
    PartitionsByTopic,
    RebalanceNeeded,
    TargetChosen,
)
from klamm.core.group.history.history_record import history_record
from klamm.core.group.history.trackers import GroupTrackers
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

__all__ = ["GROUP", "Story", "committed", "parts"]

GROUP = "orders"
P0 = PartitionIndex(0)
COORDINATOR_EPOCH = LeaderEpoch(4)


def committed(offset: int) -> CommittedOffset:
    """Returns a committed offset; all other fields have defaults."""
    return CommittedOffset(Offset(offset), LeaderEpoch(-1), "", Millis(0), None, TopicId(bytes(16)), Offset(0))


def parts(*indexes: int, topic: str = "events") -> PartitionsByTopic:
    """Returns partitions of one topic."""
    return {topic: frozenset(map(PartitionIndex, indexes))} if indexes else {}


NOTHING = parts()

COMMITTED = {PartitionIndex(index): committed(index * 10) for index in range(10)}


class Story:
    """One group whose events are reported by `tell`, one decision for each call. Tests set `now` by hand."""

    def __init__(self, group_type: GroupType = GroupType.CLASSIC, *, group_id: str = GROUP) -> None:
        self.trackers = GroupTrackers()
        self.group_type = group_type
        self.group_id = group_id
        self.now = 1000
        self.epoch = 0
        self.records: list[dict[str, Any]] = []

    def tell(self, *events: Event) -> None:
        for change in self.trackers.take(P0, events):
            self.records.append(history_record(change, COORDINATOR_EPOCH, {"events": COMMITTED}))

    @property
    def at(self) -> Millis:
        return Millis(self.now)

    # Events at the time `now`

    def needed(
        self, cause: Cause = Cause.MEMBER_JOINED, member_id: str | None = None, *, crash_loop: bool = False
    ) -> Event:
        detail = f"{member_id} {cause.value}"
        return RebalanceNeeded(
            self.group_id, self.group_type, self.epoch, cause, member_id, detail, self.at, crash_loop
        )

    def joined(self, member_id: str, instance_id: str | None = None) -> MemberJoined:
        return MemberJoined(self.group_id, member_id, instance_id, f"client-{member_id}", "/10.0.0.1", self.at)

    def removed(self, member_id: str, cause: Cause = Cause.MEMBER_LEFT) -> Event:
        return MemberRemoved(self.group_id, member_id, cause, "left", self.at)

    def paused(self, member_id: str, kept: PartitionsByTopic = NOTHING) -> Event:
        return MemberPaused(self.group_id, member_id, kept, self.at)

    def new_epoch(self, *member_ids: str, topics: Sequence[str] = ("events",)) -> Event:
        self.epoch += 1
        return NewEpoch(self.group_id, self.group_type, self.epoch, member_ids, self.at, frozenset(topics))

    def target(self, assignments: Mapping[str, PartitionsByTopic], assignor: str = "range") -> Event:
        return TargetChosen(self.group_id, self.group_type, self.epoch, assignor, assignments, self.at)

    def assigned(self, member_id: str, partitions: PartitionsByTopic) -> Event:
        return MemberAssigned(self.group_id, member_id, self.epoch, partitions, self.at)

    def stable(self) -> Event:
        return GroupIsStable(self.group_id, self.group_type, self.epoch, self.at)

    def loaded(self, assignments: Mapping[str, PartitionsByTopic], epoch: int) -> Event:
        self.epoch = epoch
        members = tuple(self.joined(member_id) for member_id in assignments)
        return GroupLoaded(self.group_id, self.group_type, epoch, assignments, self.at, members, frozenset({"events"}))

    def deleted(self, cause: Cause = Cause.ADMIN) -> Event:
        return GroupDeleted(self.group_id, self.at, cause)

    # Complete rebalances

    def settle(self, assignments: Mapping[str, PartitionsByTopic], *, topics: Sequence[str] = ("events",)) -> None:
        """Reports a classic rebalance from the last JoinGroup to the last SyncGroup, with all assignments at once."""
        self.tell(self.new_epoch(*assignments, topics=topics))
        self.tell(
            self.target(assignments),
            *(self.assigned(member_id, partitions) for member_id, partitions in assignments.items()),
            self.stable(),
        )

    def start(self, assignments: Mapping[str, PartitionsByTopic]) -> None:
        """Reports the first rebalance of a group with these members."""
        for member_id in assignments:
            self.tell(self.joined(member_id), self.needed(Cause.MEMBER_JOINED, member_id))
        self.settle(assignments)

    # Records for assertions

    @property
    def last(self) -> dict[str, Any]:
        return self.records[-1]

    def outcomes(self) -> list[tuple[str, int, int]]:
        return [(record["outcome"], record["previous_epoch"], record["epoch"]) for record in self.records]

    def codes(self) -> list[str]:
        return [cause["code"] for cause in self.last["causes"]]

    def moved(self) -> dict[int, tuple[str | None, str | None]]:
        return {move["partition"]: (move["from"], move["to"]) for move in self.last["moved"]}

    def pauses(self) -> dict[str, int]:
        return {pause["member"]: pause["ms"] for pause in self.last["pauses"]}

    def members(self, when: str) -> dict[str, dict[str, list[int]]]:
        return {member["member"]: member["partitions"] for member in self.last[f"members_{when}"]}
