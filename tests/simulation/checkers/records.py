"""The rules for written records: I18, and the part of I17 that no committed offset is removed without a reason.

Each record is checked when it is written, against the state of the log before it. A committed offset lies within its
partition. A tombstone has a reason: the topic was deleted, a request asked for it, or no member reads the topic and the
offset has expired. The expiry time runs from the last commit, even if that commit did not change the offset. Only an
empty group is deleted, and all its offsets with it.
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
"""Maximum length of a shown value."""
_REFRESHES_PER_RETENTION = 10
"""A commit of an unchanged offset is written again after this part of the retention."""


class Records:
    """The checks of each record. `wall_clock` is the clock of the broker that writes. `asked_groups` and `asked_topics`
    name what the request under decision wants to remove.
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
        """Topics whose deletion a coordinator knows."""
        self.wall_clock: Callable[[], int] = lambda: 0
        self._said_again: dict[OffsetKey, int] = {}
        """The time of each offset's last commit, on the clock of the broker that accepted it, even if nothing was
        written.
        """
        self._gone: list[tuple[PartitionIndex, str]] = []
        self._had_members: set[str] = set()

    def on_record(self, written: WrittenRecord, store: GroupStore) -> None:
        """Checks a record that is about to be replayed into the shadow store."""
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
        """Records an acknowledged commit. `at_ms` is the time of its decision on the broker's clock; None if the commit
        has its own retention time.
        """
        if at_ms is None:
            self._said_again.pop(key, None)
        else:
            self._said_again[key] = at_ms

    def on_group_gone(self, partition: PartitionIndex, group_id: str) -> None:
        """Records that the tombstone of a group was written."""
        group = self._find(partition, group_id)
        if group is not None and not group.is_empty:
            # The group may have changed its protocol; `check_gone_groups` decides that after the step.
            self._had_members.add(group_id)
        self._gone.append((partition, group_id))

    def check_gone_groups(self, stores: dict[PartitionIndex, GroupStore]) -> list[str]:
        """Returns the groups that were deleted in this step. Raises Violation if one had members or left an offset."""
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
        # A commit of an unchanged offset is not written until a tenth of the retention is over.
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
