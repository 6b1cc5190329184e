"""What the records of a coordinator partition say, read in the plainest way: the value that each key was given last.

A tombstone takes the value of its key away. An offset that a transaction commits is kept aside until the marker: a
commit puts it there unless a later record has, an abort forgets it. Of klamm nothing is used but the codec of the
records, so that a mistake in klamm's own replay is none here. Source of the rules: `OffsetMetadataManager.replay` and
`GroupMetadataManager.replay` of Apache Kafka 4.3.
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
"""What a record is about; a number is the id of a producer with a transaction."""


class _Commit(NamedTuple):
    """A commit of an offset, and where its record is."""

    record_offset: int
    value: Any


class LogModel:
    """One partition's records, by what they are about."""

    def __init__(self) -> None:
        self._values: dict[str, Values] = {}
        """By group, the latest value of each key; a tombstone takes the key away."""
        self._offsets: dict[_Place, _Commit] = {}
        self._pending: dict[int, dict[_Place, _Commit]] = {}
        self._changed: set[_About] = set()
        """What the records since the last comparison were about."""

    # What is written

    def apply(self, record_offset: int, producer_id: int, record: CoordinatorRecord) -> None:
        """A record was written, in a transaction if a producer is named."""
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
        """The marker of a transaction was written."""
        self._changed.add(producer_id)
        for place, commit in self._pending.pop(producer_id, {}).items():
            self._changed.add(place)
            known = self._offsets.get(place)
            if is_commit and (known is None or known.record_offset < commit.record_offset):
                self._offsets[place] = commit

    def committed(self, place: tuple[str, str, int]) -> tuple[int, int]:
        """What a group has committed for a partition, open transactions aside, and where the record of it is; -1 and -1
        if there is nothing."""
        commit = self._offsets.get(place)
        return (-1, -1) if commit is None else (commit.value.offset, commit.record_offset)

    def is_pending(self, place: tuple[str, str, int]) -> bool:
        """Whether an open transaction has an offset for the partition."""
        return any(place in pending for pending in self._pending.values())

    # What klamm makes of it

    def changes(self, store: GroupStore) -> str | None:
        """Of all that was written since the last time, what klamm's store has else; None for nothing."""
        changed, self._changed = self._changed, set()
        return self._compare(store, changed) if changed else None

    def everything(self, store: GroupStore) -> str | None:
        """Of anything, what klamm's store has else; None for nothing."""
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
                    # Where no record says anything, what klamm has is its own business.
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
    """What the record says, with the names that klamm has for it."""
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
