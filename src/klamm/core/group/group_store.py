"""The durable state of a group shard: groups and committed offsets, exactly as a replay of the log produces them.

Each kind of group has a store of its own for its groups (`KindStore`). The offsets of all kinds are kept here. Only
`replay` and `replay_end_transaction_marker` change the state. Offsets committed in a transaction are pending, and
become visible with the transaction's marker. After Apache Kafka's `OffsetMetadataManager.replay` and
`GroupMetadataManager.replay`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.events import GroupType
from klamm.core.group.offsets.committed_offset import CommittedOffset, PartitionOffsets
from klamm.core.group.offsets.offset_records import committed_offset
from klamm.protocol.message import Message
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import Offset, PartitionIndex, ProducerId

__all__ = ["EndedGroup", "GroupStore", "KindStore", "TopicOffsets"]

TopicOffsets = dict[str, PartitionOffsets]
"""Committed offsets of one group, by topic and partition; neither level is ever empty."""

_NO_OFFSETS: Mapping[str, PartitionOffsets] = {}

_PartitionKey = tuple[str, str, PartitionIndex]

# Tuples, because `isinstance` is slower with a union.
_OFFSET_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)
_OFFSET_VALUES: Final = (OffsetCommitValue, LegacyOffsetCommitValue)

_DURABLE: Final = ("stores", "offsets", "open_transactions", "pending_offsets")


class KindStore(Protocol):
    """The durable groups of one kind. Two stores that replayed the same records are equal."""

    group_type: ClassVar[GroupType]
    """The kind of the groups."""
    keys: ClassVar[frozenset[type[Message]]]
    """The key types of the kind's records."""
    group_key: ClassVar[type[Message]]
    """The key type of the record that a group has as long as it exists; the tombstone of this record ends the group."""

    @property
    def groups(self) -> Mapping[str, object]:
        """All groups of this kind by id; always the same mapping. No id is in the stores of two kinds."""

    @staticmethod
    def group_id(key: Any) -> str:
        """Returns the group id in the key of a record."""

    def replay(self, key: Any, value: Any) -> bool:
        """Applies one record, whose key type is one of `keys`; returns whether the record created its group."""

    def drop(self, group_id: str) -> None:
        """Removes an existing group, because a record of another kind has its id now."""


class EndedGroup(NamedTuple):
    """A group whose last record, a tombstone, was replayed."""

    group_type: GroupType
    group_id: str


S = TypeVar("S", bound=KindStore)


# A plain tuple, because a named one is slower to unpack.
_Reader: TypeAlias = tuple[Callable[[Any, Any], bool], KindStore, bool]
"""The replay of one record type: the method `replay` of a store, the store, and whether each group has such a record
as long as the group exists."""


class GroupStore:
    """The state in the log of one coordinator partition. Two stores that replayed the same log are equal.

    `stores` are empty stores, one for each kind; `klamm.core.group.group_kinds` makes them.
    """

    __slots__ = (
        "_classic",
        "_groups",
        "_last_ended",
        "_readers",
        "converted",
        "offsets",
        "open_transactions",
        "pending_offsets",
        "stores",
    )

    def __init__(self, stores: Iterable[KindStore]) -> None:
        self.stores: dict[GroupType, KindStore] = {store.group_type: store for store in stores}
        """The groups of each kind."""
        self.offsets: dict[str, TopicOffsets] = {}
        """Committed offsets by group."""
        self.pending_offsets: dict[ProducerId, dict[_PartitionKey, CommittedOffset]] = {}
        """Offsets of transactions without a marker yet."""
        self.open_transactions: dict[str, dict[str, dict[PartitionIndex, set[ProducerId]]]] = {}
        """The transactions with a pending offset, by group, topic and partition; no level is ever empty."""
        self.converted: set[str] = set()
        """Groups that were of another kind directly before, according to the latest records in the log.

        A hint for loading a group: a downgrade asked its members to join again. Compaction may remove the hint.
        """
        self._classic = self.of(ClassicStore)
        self._groups = tuple(store.groups for store in self.stores.values())
        self._last_ended: tuple[GroupType, str, int] = GroupType.CLASSIC, "", 0
        self._readers: dict[type[Message], _Reader] = {
            key: (store.replay, store, key is store.group_key) for store in self.stores.values() for key in store.keys
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupStore):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _DURABLE)

    __hash__ = None  # type: ignore[assignment]

    # Reading

    def of(self, kind: type[S]) -> S:
        """Returns the store of that kind."""
        store = self.stores[kind.group_type]
        assert isinstance(store, kind)
        return store

    def is_known(self, group_id: str) -> bool:
        """Returns whether the group exists, of any kind."""
        for groups in self._groups:  # noqa: SIM110 - faster than any(), and called for each of very many groups
            if group_id in groups:
                return True
        return False

    def group_ids(self) -> list[str]:
        """Returns the ids of all groups, kind by kind."""
        return [*chain.from_iterable(self._groups)]

    def offset(self, group_id: str, topic: str, partition: PartitionIndex) -> CommittedOffset | None:
        """Returns the group's committed offset for the partition, without those of open transactions."""
        offsets = self.offsets_of(group_id).get(topic)
        return None if offsets is None else offsets.get(partition)

    def offsets_of(self, group_id: str) -> Mapping[str, PartitionOffsets]:
        """Returns all committed offsets of the group, without those of open transactions."""
        return self.offsets.get(group_id, _NO_OFFSETS)

    def offset_count(self, group_id: str) -> int:
        """Returns the number of the group's offsets, those of open transactions included. Cheap."""
        transactions = self.open_transactions.get(group_id)
        pending = 0 if transactions is None else sum(map(len, transactions.values()))
        return pending + sum(map(len, self.offsets_of(group_id).values()))

    def has_open_transaction(self, group_id: str, topic: str, partition: PartitionIndex) -> bool:
        """Returns whether an open transaction has a pending offset for the partition."""
        return partition in self.open_transactions.get(group_id, {}).get(topic, {})

    def partitions_in_transactions(self, group_id: str) -> Iterator[tuple[str, PartitionIndex]]:
        """Yields the partitions for which open transactions have pending offsets."""
        for topic, partitions in self.open_transactions.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition

    # Replay

    def replay(self, offset: Offset, producer_id: ProducerId, record: CoordinatorRecord) -> EndedGroup | None:
        """Applies one record; returns the group that the record ended, if it is the tombstone of a group.

        Raises TypeError for a record type that does not belong to groups.
        """
        key, value = record.key, record.value
        reader = self._readers.get(type(key))
        if reader is not None:
            # Checked first, because a new target has one record per member, all replayed at once.
            replay, store, is_group_record = reader
            if replay(key, value):
                self._drop_others(store, store.group_id(key))
            return self._note_group_record(store, key, offset, value is None) if is_group_record else None
        if isinstance(key, _OFFSET_KEYS):
            partition = PartitionIndex(key.partition)
            if value is None:
                self._drop_offset(key.group, key.topic, partition)
                return None
            assert isinstance(value, _OFFSET_VALUES)
            committed = committed_offset(offset, value)
            self.note_group(key.group)
            if producer_id == -1:
                self.offsets_for(key.group, key.topic)[partition] = committed
            else:
                self._hold_offset(producer_id, (key.group, key.topic, partition), committed)
            return None
        raise TypeError(f"not a record of groups: {type(key).__name__}")

    def _drop_others(self, store: KindStore, group_id: str) -> None:
        """Removes the group of another kind that has the id of a new group.

        A group whose first records were offsets was stored as a simple group. Compaction may remove tombstones.
        """
        for other in self.stores.values():
            if other is not store and group_id in other.groups:
                other.drop(group_id)

    def _note_group_record(
        self, store: KindStore, key: Message, offset: Offset, is_tombstone: bool
    ) -> EndedGroup | None:
        group_id, group_type = store.group_id(key), store.group_type
        self.converted.discard(group_id)
        if is_tombstone:
            self._last_ended = group_type, group_id, offset
            return EndedGroup(group_type, group_id)
        ended_type, *ended = self._last_ended
        if ended == [group_id, offset - 1] and ended_type is not group_type:
            self.converted.add(group_id)
        return None

    def replay_end_transaction_marker(self, producer_id: ProducerId, committed: bool) -> None:
        """Makes the transaction's pending offsets visible, or drops them if it was aborted.

        A later commit outside of the transaction wins: commits are ordered by the offsets of their records.
        """
        pending = self.pending_offsets.pop(producer_id, {})
        for (group_id, topic, partition), offset in pending.items():
            self._close_transaction(producer_id, group_id, topic, partition)
            if committed:
                partitions = self.offsets_for(group_id, topic)
                existing = partitions.get(partition)
                if existing is None or offset.record_offset > existing.record_offset:
                    partitions[partition] = offset

    def note_group(self, group_id: str) -> None:
        """Registers the group of a replayed offset: a group without a record of its own is a simple group."""
        if not self.is_known(group_id):
            self._classic.add_simple_group(group_id)

    def offsets_for(self, group_id: str, topic: str) -> PartitionOffsets:
        """Returns the group's offsets for the topic, for a replay to add to; creates the entry if it is missing."""
        topics = self.offsets.get(group_id)
        if topics is None:
            topics = self.offsets[group_id] = {}
        offsets = topics.get(topic)
        if offsets is None:
            # Interned, because each group's records contain their own copy of the topic's name.
            offsets = topics[sys.intern(topic)] = PartitionOffsets()
        return offsets

    def _hold_offset(self, producer_id: ProducerId, key: _PartitionKey, committed: CommittedOffset) -> None:
        group_id, topic, partition = key
        self.pending_offsets.setdefault(producer_id, {})[key] = committed
        self.open_transactions.setdefault(group_id, {}).setdefault(topic, {}).setdefault(partition, set()).add(
            producer_id
        )

    def _drop_offset(self, group_id: str, topic: str, partition: PartitionIndex) -> None:
        topics = self.offsets.get(group_id)
        if topics is not None and topic in topics:
            if partition in topics[topic]:
                del topics[topic][partition]
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self.offsets[group_id]
        # A tombstone also removes the partition's pending offsets of transactions.
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
