"""A plain model of a coordinator partition's records: the last value of each key.

A tombstone removes the value of its key. An offset that a transaction commits is kept aside until the marker. A commit
marker then applies the offset unless a later record exists, and an abort marker drops it. The model uses only klamm's
codec of the records, so it cannot repeat a mistake of klamm's replay. Source of the rules:
`OffsetMetadataManager.replay` and `GroupMetadataManager.replay` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.simulation.checkers.group_views import GroupKey, Values, all_in, derived, in_log, in_store, key_of
from tests.simulation.difference import difference

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.protocol.message import Message
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.types import PartitionIndex, ProducerId

__all__ = ["LogModel"]

_Place = tuple[str, str, int]
"""Group, topic and partition."""
_About = _Place | GroupKey | int
"""The subject of a record; a number is the id of a producer with a transaction."""


class _Commit(NamedTuple):
    """A committed offset, and the position of its record."""

    record_offset: int
    value: Any


class LogModel:
    """The records of one partition, by their subjects."""

    def __init__(self) -> None:
        self._values: dict[str, Values] = {}
        """By group, the latest value of each key; a tombstone removes the key."""
        self._offsets: dict[_Place, _Commit] = {}
        self._pending: dict[int, dict[_Place, _Commit]] = {}
        self._changed: set[_About] = set()
        """The subjects of the records since the last comparison."""

    # Written records

    def apply(self, record_offset: int, producer_id: int, record: CoordinatorRecord) -> None:
        """Applies a record. `producer_id` is -1 for a record outside of transactions."""
        key: Any = record.key
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            self._apply_commit((key.group, key.topic, key.partition), producer_id, record_offset, record.value)
            return
        about = key_of(key)
        self._changed.add(about)
        values = self._values.setdefault(about.group_id, {})
        if record.value is None:
            values.pop(about, None)
        else:
            values[about] = record.value

    def _apply_commit(self, place: _Place, producer_id: int, record_offset: int, value: Message | None) -> None:
        self._changed.add(place)
        if value is None:
            self._offsets.pop(place, None)
            for pending_of, pending in self._pending.items():
                if pending.pop(place, None) is not None:
                    self._changed.add(pending_of)
        elif producer_id < 0:
            self._offsets[place] = _Commit(record_offset, value)
        else:
            self._changed.add(producer_id)
            self._pending.setdefault(producer_id, {})[place] = _Commit(record_offset, value)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Applies the marker of a transaction."""
        self._changed.add(producer_id)
        for place, commit in self._pending.pop(producer_id, {}).items():
            self._changed.add(place)
            known = self._offsets.get(place)
            if is_commit and (known is None or known.record_offset < commit.record_offset):
                self._offsets[place] = commit

    def committed(self, place: tuple[str, str, int]) -> tuple[int, int]:
        """Returns the committed offset of a group and the position of its record, without open transactions; (-1, -1)
        if there is no committed offset.
        """
        commit = self._offsets.get(place)
        return (-1, -1) if commit is None else (commit.value.offset, commit.record_offset)

    def is_pending(self, place: tuple[str, str, int]) -> bool:
        """Returns whether an open transaction has an offset for the partition."""
        return any(place in pending for pending in self._pending.values())

    # Comparisons with klamm's store

    def changes(self, store: GroupStore) -> str | None:
        """Returns how klamm's store differs in what was written since the last comparison; None for no difference."""
        changed, self._changed = self._changed, set()
        return self._compare(store, changed) if changed else None

    def everything(self, store: GroupStore) -> str | None:
        """Returns how klamm's store differs in anything; None for no difference."""
        about: set[_About] = {key for values in self._values.values() for key in values}
        about.update(self._offsets, self._pending, store.pending_offsets, all_in(store))
        for group_id, topics in store.offsets.items():
            about.update((group_id, topic, index) for topic, partitions in topics.items() for index in partitions)
        return self._compare(store, about) or _report(*derived(store))

    def _compare(self, store: GroupStore, changed: Iterable[_About]) -> str | None:
        found: dict[str, object] = {}
        expected: dict[str, object] = {}
        for about in changed:
            if isinstance(about, int):
                one: object = _pending_in(store, about)
                other: object = {_place(place): _offset(each) for place, each in self._pending.get(about, {}).items()}
            elif isinstance(about, GroupKey):
                one, other = in_store(store, about), in_log(self._values.get(about.group_id, {}), about)
                if isinstance(one, dict) and isinstance(other, dict):
                    # Fields that no record contains are not compared.
                    one = {name: each for name, each in one.items() if name in other}
            else:
                group_id, topic, index = about
                one = store.offset(group_id, topic, PartitionIndex(index))
                commit = self._offsets.get(about)
                other = None if commit is None else _offset(commit)
            if one != other:
                name = _name(about)
                found[name], expected[name] = one, other
        return _report(found, expected)


def _report(found: dict[str, object], expected: dict[str, object]) -> str | None:
    return difference(found, expected, names=("klamm", "the log")) if found else None


def _name(about: _About) -> str:
    if isinstance(about, int):
        return f"pending offsets of producer {about}"
    if isinstance(about, GroupKey):
        return str(about)
    return f"offset of {_place(about)}"


def _place(place: _Place) -> str:
    group_id, topic, index = place
    return f"group {group_id} for {topic}-{index}"


def _offset(commit: _Commit) -> CommittedOffset:
    """Returns the content of the record with klamm's field names."""
    value = commit.value
    expires = getattr(value, "expire_timestamp", -1)
    said: dict[str, Any] = {
        "offset": value.offset,
        "leader_epoch": getattr(value, "leader_epoch", -1),
        "metadata": value.metadata,
        "commit_timestamp_ms": value.commit_timestamp,
        "expire_timestamp_ms": None if expires == -1 else expires,
        "topic_id": getattr(value, "topic_id", bytes(16)),
        "record_offset": commit.record_offset,
    }
    return CommittedOffset(**said)


def _pending_in(store: GroupStore, producer_id: int) -> dict[str, CommittedOffset]:
    pending = store.pending_offsets.get(ProducerId(producer_id), {})
    return {_place(place): committed for place, committed in pending.items()}
