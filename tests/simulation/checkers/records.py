"""What may be written: I18, and of I17 that nothing a group committed goes without a reason.

Each record is looked at as it is written, next to the state that the log had before it. A committed offset lies within
its partition. A tombstone has a reason: the topic was deleted, somebody asked for it, or no member reads the topic and
the offset's time was over. That time runs from the last commit, also from one that says what the one before it said.
Only an empty group goes, and leaves no offset behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.checkers.offsets import OffsetKey, Offsets
from tests.simulation.checkers.shadow import WrittenRecord
from tests.simulation.notes import in_words, shorten
from tests.simulation.violation import Violation

from klamm.core.group.group import Group
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import PartitionIndex, TopicId

if TYPE_CHECKING:
    from tests.simulation.topics import Topics

__all__ = ["Records"]

_CHARACTERS = 300
"""Of a value that are shown."""
_REFRESHES_PER_RETENTION = 10
"""A commit that says nothing new is written all the same after this part of the retention."""


class Records:
    """Looks at each record. `wall_clock` is that of the broker that is writing; `asked_for` names groups and offsets
    that a request asks to remove, while it is being decided.
    """

    def __init__(
        self,
        topics: Topics,
        offsets: Offsets,
        retention_ms: int,
        find: Callable[[PartitionIndex, str], Group | None],
    ) -> None:
        self._topics = topics
        self._offsets = offsets
        self._retention_ms = retention_ms
        self._find = find
        self.asked_groups: set[str] = set()
        self.asked_topics: set[tuple[str, str]] = set()
        self.deleted_topics: set[TopicId] = set()
        """Topics that some coordinator has heard are gone."""
        self.wall_clock: Callable[[], int] = lambda: 0
        self._said_again: dict[OffsetKey, int] = {}
        """When each offset was committed last, on the clock of the broker that accepted it, written anew or not."""
        self._gone: list[tuple[PartitionIndex, str]] = []
        self._had_members: set[str] = set()

    def on_record(self, written: WrittenRecord, store: GroupStore) -> None:
        """A record is about to be replayed into the shadow store."""
        key, value = written.record.key, written.record.value
        if isinstance(key, OffsetCommitKey):
            before = store.offset(key.group, key.topic, PartitionIndex(key.partition))
            if isinstance(value, OffsetCommitValue):
                self._check_commit(key, value)
            elif before is not None:
                self._check_offset_tombstone(key, before, self._find(written.partition, key.group))
                offset_key: OffsetKey = (key.group, before.topic_id, key.partition)
                self._offsets.begin_removal(written.partition, written.offset, offset_key)

    def on_commit_accepted(self, key: OffsetKey, at_ms: int | None) -> None:
        """A commit was acknowledged that was decided at that time on its broker's clock; None for one that names a
        retention time of its own."""
        if at_ms is None:
            self._said_again.pop(key, None)
        else:
            self._said_again[key] = at_ms

    def on_group_gone(self, partition: PartitionIndex, group_id: str) -> None:
        """A group's last record was written: its tombstone."""
        group = self._find(partition, group_id)
        if group is not None and not group.is_empty:
            # It may have changed its protocol; the end of the step will tell.
            self._had_members.add(group_id)
        self._gone.append((partition, group_id))

    def check_gone_groups(self, stores: dict[PartitionIndex, GroupStore]) -> list[str]:
        """After a step: the groups that went. They had no members, and have left no offset."""
        gone = []
        for partition, group_id in self._gone:
            store = stores[partition]
            if store.is_known(group_id):
                continue
            if group_id in self._had_members:
                raise Violation(17, f"group {group_id} was removed, and had members")
            if group_id in store.offsets:
                left = shorten(str(in_words(store.offsets[group_id])), _CHARACTERS)
                raise Violation(17, f"group {group_id} was removed, and its offsets are left: {left}")
            gone.append(group_id)
        self._gone.clear()
        self._had_members.clear()
        return gone

    def _check_commit(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        topic_id = TopicId(value.topic_id)
        end_offset = self._topics.end_offset((topic_id, key.partition))
        if topic_id in self._topics.image.topics_by_id and value.offset > end_offset:
            raise Violation(
                18, f"{key.group} has {value.offset} for {key.topic}-{key.partition}, which ends at {end_offset}"
            )

    def _check_offset_tombstone(self, key: OffsetCommitKey, before: CommittedOffset, group: Group | None) -> None:
        if before.topic_id in self.deleted_topics:
            return
        if key.group in self.asked_groups or (key.group, key.topic) in self.asked_topics:
            return
        # A commit that says nothing new is not written, unless a tenth of the retention is over.
        said_again = self._said_again.get((key.group, before.topic_id, key.partition), before.commit_timestamp_ms)
        since = max(before.commit_timestamp_ms, said_again - self._retention_ms // _REFRESHES_PER_RETENTION)
        if group is not None:
            if not group.is_empty and group.is_subscribed_to(key.topic):
                raise Violation(17, f"{_name(key)} was removed while members read the topic")
            since = min(since, group.expires_from_ms or since)
        age_ms = self.wall_clock() - since
        if age_ms < self._retention_ms:
            raise Violation(17, f"{_name(key)} was removed after {age_ms} ms, and nobody had asked for it")


def _name(key: OffsetCommitKey) -> str:
    return f"the offset of {key.group} for {key.topic}-{key.partition}"
