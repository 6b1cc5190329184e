"""The trackers of all groups that one broker coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from klamm.core.group.events import Event, Remark
from klamm.core.group.history.change import Change, MemberThen, UnderWay
from klamm.core.group.history.tracker import GroupTracker
from klamm.protocol.internal_topic_names import HISTORY_TOPIC
from klamm.protocol.types import PartitionIndex

__all__ = ["GroupTrackers"]


class GroupTrackers:
    """One tracker for each group that has members or has had events since it was loaded."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionIndex, dict[str, GroupTracker]] = {}

    def take(self, partition: PartitionIndex, events: Sequence[object]) -> list[Change]:
        """Returns the changes that end with these events of one decision."""
        trackers = self._by_partition.setdefault(partition, {})
        by_group: dict[str, list[Event]] = {}
        for event in events:
            if isinstance(event, Event) and not isinstance(event, Remark):
                by_group.setdefault(event.group_id, []).append(event)
        changes: list[Change] = []
        for group_id, of_group in by_group.items():
            tracker = trackers.get(group_id)
            if tracker is None:
                tracker = trackers[group_id] = GroupTracker(group_id)
            changes += tracker.take(of_group, HISTORY_TOPIC)
            if tracker.is_gone:
                del trackers[group_id]
        return changes

    def under_way(self, group_id: str) -> UnderWay | None:
        """Returns the group's change in progress; None while the group is at rest, or if it is unknown."""
        for trackers in self._by_partition.values():
            tracker = trackers.get(group_id)
            if tracker is not None:
                return tracker.under_way()
        return None

    def at_rest(self) -> Iterator[tuple[PartitionIndex, str, Mapping[str, MemberThen]]]:
        """Yields each group with members and without a change in progress: its partition, its id, and its members.

        Groups may come and go between two steps.
        """
        for partition, trackers in list(self._by_partition.items()):
            for group_id, tracker in list(trackers.items()):
                members = tracker.members_at_rest()
                if members:
                    yield partition, group_id, members

    def members_at_rest(self, partition: PartitionIndex, group_id: str) -> Mapping[str, MemberThen] | None:
        """Returns the members of a group; None if it is unknown or has a change in progress."""
        tracker = self._by_partition.get(partition, {}).get(group_id)
        return None if tracker is None else tracker.members_at_rest()

    def partitions(self) -> list[PartitionIndex]:
        """Returns the partitions that have trackers."""
        return list(self._by_partition)

    def forget(self, partition: PartitionIndex) -> None:
        """Drops the groups of a partition that has another coordinator now."""
        self._by_partition.pop(partition, None)
