"""The durable state of a group shard: groups and committed offsets, exactly as a replay of the log says.

Only `replay` and `replay_end_transaction_marker` change it. Offsets committed in a transaction stay aside until its
marker; they are never visible before. After Apache Kafka's `OffsetMetadataManager.replay` and
`GroupMetadataManager.replay`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from klamm.core.coordinator.contract import CoordinatorRecord
from klamm.core.group.metadata import NO_METADATA, GroupMetadata
from klamm.core.group.records import CommittedOffset, committed_offset, group_metadata
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import Offset, PartitionIndex, ProducerId

__all__ = ["GroupStore", "TopicOffsets"]

TopicOffsets = dict[str, dict[PartitionIndex, CommittedOffset]]
"""Committed offsets of one group, by topic and partition; neither level is ever empty."""

_NO_OFFSETS: Mapping[str, dict[PartitionIndex, CommittedOffset]] = {}

_PartitionKey = tuple[str, str, PartitionIndex]


class GroupStore:
    """What the log of one coordinator partition says. Two stores that replayed the same log are equal."""

    __slots__ = ("groups", "offsets", "open_transactions", "pending_offsets")

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadata] = {}
        """All groups; one that only ever had offsets has NO_METADATA."""
        self.offsets: dict[str, TopicOffsets] = {}
        """Committed offsets by group."""
        self.pending_offsets: dict[ProducerId, dict[_PartitionKey, CommittedOffset]] = {}
        """Offsets of transactions that have no marker yet."""
        self.open_transactions: dict[str, dict[str, dict[PartitionIndex, set[ProducerId]]]] = {}
        """Which transactions have a pending offset, by group, topic and partition; no level is ever empty."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupStore):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    # Reading

    def offset(self, group_id: str, topic: str, partition: PartitionIndex) -> CommittedOffset | None:
        """What the group committed for the partition, open transactions aside."""
        return self.offsets_of(group_id).get(topic, {}).get(partition)

    def offsets_of(self, group_id: str) -> Mapping[str, dict[PartitionIndex, CommittedOffset]]:
        """All that the group committed, open transactions aside."""
        return self.offsets.get(group_id, _NO_OFFSETS)

    def has_open_transaction(self, group_id: str, topic: str, partition: PartitionIndex) -> bool:
        """Whether a transaction that is not finished has an offset for the partition."""
        return partition in self.open_transactions.get(group_id, {}).get(topic, {})

    def partitions_in_transactions(self, group_id: str) -> Iterator[tuple[str, PartitionIndex]]:
        """The partitions that transactions which are not finished have offsets for."""
        for topic, partitions in self.open_transactions.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition

    # Replay

    def replay(self, offset: Offset, producer_id: ProducerId, record: CoordinatorRecord) -> None:
        """Apply one record. A record of a type that does not belong to classic groups raises TypeError."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            partition = PartitionIndex(key.partition)
            if value is None:
                self._drop_offset(key.group, key.topic, partition)
                return
            assert isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
            committed = committed_offset(offset, value)
            # A group that has offsets and no record of its own is a simple group.
            self.groups.setdefault(key.group, NO_METADATA)
            if producer_id == -1:
                self.offsets.setdefault(key.group, {}).setdefault(key.topic, {})[partition] = committed
            else:
                self._hold_offset(producer_id, (key.group, key.topic, partition), committed)
        elif isinstance(key, GroupMetadataKey):
            if value is None:
                self.groups.pop(key.group, None)
                return
            assert isinstance(value, GroupMetadataValue)
            self.groups[key.group] = group_metadata(value)
        else:
            raise TypeError(f"not a record of classic groups: {type(key).__name__}")

    def replay_end_transaction_marker(self, producer_id: ProducerId, committed: bool) -> None:
        """Make the transaction's offsets visible, or forget them.

        An offset that was committed later, outside of the transaction, stands: offsets are ordered by their records.
        """
        pending = self.pending_offsets.pop(producer_id, {})
        for (group_id, topic, partition), offset in pending.items():
            self._close_transaction(producer_id, group_id, topic, partition)
            if committed:
                partitions = self.offsets.setdefault(group_id, {}).setdefault(topic, {})
                existing = partitions.get(partition)
                if existing is None or offset.record_offset > existing.record_offset:
                    partitions[partition] = offset

    def _hold_offset(self, producer_id: ProducerId, key: _PartitionKey, committed: CommittedOffset) -> None:
        group_id, topic, partition = key
        self.pending_offsets.setdefault(producer_id, {})[key] = committed
        self.open_transactions.setdefault(group_id, {}).setdefault(topic, {}).setdefault(partition, set()).add(
            producer_id
        )

    def _drop_offset(self, group_id: str, topic: str, partition: PartitionIndex) -> None:
        topics = self.offsets.get(group_id)
        if topics is not None and topic in topics:
            topics[topic].pop(partition, None)
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self.offsets[group_id]
        # A tombstone takes what transactions hold for the partition with it.
        for producer_id in list(self.open_transactions.get(group_id, {}).get(topic, {}).get(partition, ())):
            pending = self.pending_offsets[producer_id]
            del pending[group_id, topic, partition]
            if not pending:
                del self.pending_offsets[producer_id]
            self._close_transaction(producer_id, group_id, topic, partition)

    def _close_transaction(self, producer_id: ProducerId, group_id: str, topic: str, partition: PartitionIndex) -> None:
        topics = self.open_transactions[group_id]
        partitions = topics[topic]
        producers = partitions[partition]
        producers.remove(producer_id)
        if not producers:
            del partitions[partition]
        if not partitions:
            del topics[topic]
        if not topics:
            del self.open_transactions[group_id]
