"""Replays the records of a partition of `__consumer_offsets` to groups, their members and offsets.

The records go through the coordinator's own replay (`GroupStore`), so the state after a record is the state of a
coordinator that has read the log up to that record. This module adds what a coordinator doesn't keep: the times of
records, and the last values of share and streams groups. It also distinguishes an epoch that no record has named yet
from a first epoch, because a replay may begin in the middle of the log. The records of klamm and of Apache Kafka are
the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.classic.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from klamm.core.group.classic.group_metadata import NO_METADATA, GroupMetadata, MemberMetadata
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import NO_TARGET, ConsumerGroupMember
from klamm.core.group.group_store import GroupStore, KindStore
from klamm.insight.group.replayed_group import ReplayedGroup, ReplayedMember, ReplayedOffset
from klamm.insight.plain_message import Plain, plain, uuid_text
from klamm.insight.words import PartitionKey
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.coordinator_records import decode_group_record
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.types import Offset, ProducerId, TopicId

__all__ = [
    "KINDS",
    "CoordinatorState",
    "ReplayedRecord",
    "TopicNames",
    "unknown_topic",
]

TopicNames = Callable[[bytes], str]
"""Returns a topic's name by its id; a text with the id if no topic has it."""

_MEMBER_STATES: Final = {
    MemberState.STABLE: "stable",
    MemberState.UNREVOKED_PARTITIONS: "unrevoked partitions",
    MemberState.UNRELEASED_PARTITIONS: "unreleased partitions",
    MemberState.UNKNOWN: "unknown",
}
_NO_TRANSACTION: Final = ProducerId(-1)
_OTHER_KINDS: Final = {
    "ShareGroupMetadata": "share",
    "ShareGroupMemberMetadata": "share",
    "ShareGroupTargetAssignmentMetadata": "share",
    "ShareGroupTargetAssignmentMember": "share",
    "ShareGroupCurrentMemberAssignment": "share",
    "ShareGroupStatePartitionMetadata": "share",
    "StreamsGroupMetadata": "streams",
    "StreamsGroupMemberMetadata": "streams",
    "StreamsGroupTargetAssignmentMetadata": "streams",
    "StreamsGroupTargetAssignmentMember": "streams",
    "StreamsGroupCurrentMemberAssignment": "streams",
    "StreamsGroupTopology": "streams",
}
"""The kind of the group, by the name of the record. The coordinator does not serve groups of these kinds."""
_RECORDS_WITH_EPOCH: Final = ("ShareGroupMetadata", "StreamsGroupMetadata")


class ReplayedRecord(NamedTuple):
    """A decoded record."""

    type: int | None
    """The record type; None for a key that is too short to have a type."""
    name: str | None
    """The name in Kafka's schema without Key and Value; None for a type that klamm's schema doesn't have."""
    group_id: str | None
    key: Message | None
    value: Message | None
    """None for a tombstone."""
    complaint: str | None = None
    """Why the record can't be decoded."""


@dataclass(slots=True)
class _Seen:
    """What the records of a group say beyond the coordinator's state."""

    generation_ms: int | None = None
    """The time of a classic group's last record."""
    has_epoch: bool = False
    """Whether a record has named the epoch of a consumer group."""
    assigned_ms: int | None = None
    """The time of the record of a consumer group's target; None if there is no such record."""
    changed_ms: dict[str, int] = field(default_factory=dict)
    """The time of the last current assignment, by member of a consumer group."""
    others: dict[str, Plain] = field(default_factory=dict)
    other_kind: str | None = None
    other_epoch: int | None = None


class CoordinatorState:
    """The groups of one partition, whose records are applied in the order of their offsets."""

    def __init__(self, topic_names: TopicNames) -> None:
        self._topic_name = topic_names
        self._store = GroupStore(kind.store() for kind in KINDS)
        self._groups = [(kind, self._store.of(kind.store).groups) for kind in KINDS]
        self._seen: dict[str, _Seen] = {}

    def apply(self, key: bytes, value: bytes | None, timestamp_ms: int, offset: int) -> ReplayedRecord:
        """Applies the record at that offset to the state, and returns the decoded record.

        An offset that a transaction committed counts at once: the caller reads committed records only.
        """
        record = _decode(key, value)
        if record.key is None or record.group_id is None or record.name is None:
            return record
        seen = self._seen.setdefault(record.group_id, _Seen())
        if record.name in _OTHER_KINDS:
            _note_other(seen, record.name, record)
        else:
            self._store.replay(Offset(offset), _NO_TRANSACTION, CoordinatorRecord(record.key, record.value, 0))
            _note(seen, record, timestamp_ms)
        if not self._has(record.group_id):
            del self._seen[record.group_id]
        return record

    def group_ids(self) -> Iterator[str]:
        """Yields the ids of all groups that have records."""
        yield from self._seen

    def group(self, group_id: str) -> ReplayedGroup | None:
        """Returns the group as the records so far describe it; None if there are no records of it, or none are left."""
        seen = self._seen.get(group_id)
        if seen is None:
            return None
        group = ReplayedGroup(
            group_id, seen.other_kind, seen.other_epoch, offsets=self._offsets(group_id), others=dict(seen.others)
        )
        for kind, groups in self._groups:
            if group_id in groups:
                kind.describe(group, groups[group_id], seen, self._topic_name)
        return group

    def _has(self, group_id: str) -> bool:
        seen = self._seen[group_id]
        return (
            any(group_id in groups and kind.has_records(groups[group_id], seen) for kind, groups in self._groups)
            or bool(self._store.offsets_of(group_id))
            or bool(seen.others)
        )

    def _offsets(self, group_id: str) -> dict[PartitionKey, ReplayedOffset]:
        return {
            (topic, partition): ReplayedOffset(
                committed.offset, committed.leader_epoch, committed.metadata, committed.commit_timestamp_ms
            )
            for topic, partitions in self._store.offsets_of(group_id).items()
            for partition, committed in partitions.items()
        }


def _decode(key: bytes, value: bytes | None) -> ReplayedRecord:
    kind = int.from_bytes(key[:2], "big", signed=True) if len(key) >= 2 else None
    try:
        decoded = decode_group_record(key, value)
    except MalformedMessage as error:
        return ReplayedRecord(kind, None, None, None, None, str(error))
    if decoded is None:
        return ReplayedRecord(kind, None, None, None, None, f"this klamm knows no records of type {kind}")
    message: Any = decoded[0]
    name = message.NAME.removesuffix("Key")
    group_id = message.group if hasattr(message, "group") else message.group_id
    return ReplayedRecord(kind, name, group_id, message, decoded[1])


def _note(seen: _Seen, record: ReplayedRecord, timestamp_ms: int) -> None:
    """Keeps what a record of a classic or consumer group says beyond the coordinator's state."""
    key: Any = record.key
    time_ms = None if record.value is None else timestamp_ms
    match record.name:
        case "GroupMetadata":
            seen.generation_ms = time_ms
            if time_ms is not None:  # The store replaces a consumer group of that id.
                seen.has_epoch, seen.assigned_ms, seen.changed_ms = False, None, {}
        case "ConsumerGroupMetadata" if time_ms is None:
            seen.has_epoch, seen.assigned_ms, seen.changed_ms = False, None, {}
        case "ConsumerGroupMetadata":
            seen.has_epoch = True
        case "ConsumerGroupTargetAssignmentMetadata":
            seen.assigned_ms = time_ms
        case "ConsumerGroupCurrentMemberAssignment" if time_ms is not None:
            seen.changed_ms[key.member_id] = time_ms
        case "ConsumerGroupCurrentMemberAssignment" | "ConsumerGroupMemberMetadata" if time_ms is None:
            seen.changed_ms.pop(key.member_id, None)


def _note_other(seen: _Seen, name: str, record: ReplayedRecord) -> None:
    """Keeps the last value of each key of share and streams groups."""
    assert record.key is not None
    rest = [str(value) for field, value in plain(record.key).items() if field != "group_id"]
    place = " ".join([name, *rest])
    if record.value is None:
        seen.others.pop(place, None)
    else:
        seen.others[place] = plain(record.value)
        if name in _RECORDS_WITH_EPOCH:
            seen.other_epoch = getattr(record.value, "epoch", None)
        seen.other_kind = _OTHER_KINDS[name]
    if not seen.others:
        seen.other_kind = seen.other_epoch = None


def _has_classic_records(metadata: GroupMetadata, seen: _Seen) -> bool:
    return metadata is not NO_METADATA


def _describe_classic_group(group: ReplayedGroup, metadata: GroupMetadata, seen: _Seen, topic_name: TopicNames) -> None:
    if metadata is NO_METADATA:
        return
    group.kind = "classic"
    group.epoch, group.assignor = metadata.generation, metadata.protocol_name or None
    group.leader = metadata.leader_id or None
    group.assigned_ms = seen.generation_ms
    for member in metadata.members:
        group.members[member.member_id] = _classic_member(member, metadata.protocol_type, seen.generation_ms)


def _classic_member(durable: MemberMetadata, protocol_type: str | None, changed_ms: int | None) -> ReplayedMember:
    member = ReplayedMember(
        durable.member_id,
        durable.group_instance_id,
        durable.client_id,
        durable.client_host,
        rebalance_timeout_ms=durable.rebalance_timeout_ms,
        session_timeout_ms=durable.session_timeout_ms,
        uses_classic_protocol=True,
        changed_ms=changed_ms,
    )
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        try:
            member.topics = tuple(decode_subscription(durable.subscription).topics) if durable.subscription else ()
            assignment = decode_assignment(durable.assignment).assigned_partitions if durable.assignment else []
        except MalformedMessage:
            return member
        member.assigned = frozenset((topic.topic, index) for topic in assignment for index in topic.partitions)
        member.target = member.assigned
    return member


def _has_consumer_records(durable: ConsumerGroup, seen: _Seen) -> bool:
    return seen.has_epoch or bool(durable.members or durable.target or durable.regexes)


def _describe_consumer_group(group: ReplayedGroup, durable: ConsumerGroup, seen: _Seen, topic_name: TopicNames) -> None:
    if seen.has_epoch:
        group.kind, group.epoch = "consumer", durable.epoch
    group.assignment_epoch = durable.target_epoch if seen.assigned_ms is not None else None
    group.assigned_ms = seen.assigned_ms
    group.patterns = {pattern: tuple(sorted(found.topics)) for pattern, found in durable.regexes.items()}
    for member_id in {**durable.members, **durable.target}:
        durable_member = durable.members.get(member_id) or ConsumerGroupMember(member_id)
        member = _consumer_member(durable_member, seen.changed_ms.get(member_id), topic_name)
        member.target = _partitions(durable.target.get(member_id, NO_TARGET), topic_name)
        group.members[member_id] = member


def _consumer_member(durable: ConsumerGroupMember, changed_ms: int | None, topic_name: TopicNames) -> ReplayedMember:
    return ReplayedMember(
        durable.member_id,
        durable.instance_id,
        durable.client_id,
        durable.client_host,
        topics=tuple(sorted(durable.subscribed_topic_names)),
        pattern=durable.subscribed_topic_regex or None,
        assignor=durable.server_assignor or None,
        rebalance_timeout_ms=durable.rebalance_timeout_ms if durable.rebalance_timeout_ms >= 0 else None,
        session_timeout_ms=durable.classic.session_timeout_ms if durable.classic is not None else None,
        uses_classic_protocol=durable.classic is not None,
        epoch=durable.member_epoch if changed_ms is not None else None,
        state=_MEMBER_STATES[durable.state] if changed_ms is not None else None,
        assigned=_partitions(durable.assigned, topic_name),
        pending_revocation=_partitions(durable.pending_revocation, topic_name),
        changed_ms=changed_ms,
    )


def _partitions(topics: Mapping[TopicId, Iterable[int]], topic_name: TopicNames) -> frozenset[PartitionKey]:
    return frozenset((topic_name(topic_id), index) for topic_id, indexes in topics.items() for index in indexes)


def unknown_topic(topic_id: bytes) -> str:
    """Returns the text that replaces the name of an unknown topic."""
    return f"topic id {uuid_text(topic_id)}"


class _Kind(NamedTuple):
    """One kind of group that the coordinator serves, an entry of the table."""

    store: type[KindStore]
    has_records: Callable[[Any, _Seen], bool]
    """Returns whether a group of the store has records of its own."""
    describe: Callable[[ReplayedGroup, Any, _Seen, TopicNames], None]
    """Fills in what the store, and the times of the records, say about a group."""


KINDS: Final = (
    _Kind(ClassicStore, _has_classic_records, _describe_classic_group),
    _Kind(ConsumerStore, _has_consumer_records, _describe_consumer_group),
)
"""All kinds, in the order of `klamm.core.group.group_kinds`. That table needs all decisions, so it is not imported."""
