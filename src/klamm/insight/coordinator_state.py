"""Replays the records of a partition of `__consumer_offsets` to groups, their members and offsets.

The state after a record is the state of a coordinator that has read the log up to that record. The replay trusts the
records, from klamm or from Apache Kafka, and does not check them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from klamm.insight.plain_message import Plain, plain, uuid_text
from klamm.insight.words import PartitionKey
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.coordinator_records import decode_group_record
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message

__all__ = [
    "CoordinatorState",
    "ReplayedGroup",
    "ReplayedMember",
    "ReplayedOffset",
    "ReplayedRecord",
    "TopicNames",
    "unknown_topic",
]

TopicNames = Callable[[bytes], str]
"""Returns a topic's name by its id; a text with the id if no topic has it."""

_MEMBER_STATES: Final = {0: "stable", 1: "unrevoked partitions", 2: "unreleased partitions"}
"""From Kafka's `MemberState` of the modern groups."""


@dataclass(slots=True)
class ReplayedOffset:
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int


@dataclass(slots=True)
class ReplayedMember:
    """A member, as far as the records describe it."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None
    """None in the consumer protocol, which has one session timeout for the group."""
    uses_classic_protocol: bool = False
    epoch: int | None = None
    state: str | None = None
    assigned: frozenset[PartitionKey] = frozenset()
    pending_revocation: frozenset[PartitionKey] = frozenset()
    target: frozenset[PartitionKey] = frozenset()
    changed_ms: int | None = None
    """When the record of the member's current assignment was written."""


@dataclass(slots=True)
class ReplayedGroup:
    """A group, as far as the records describe it."""

    group_id: str
    kind: str | None = None
    """classic, consumer, share or streams; None for a group that only has offsets."""
    epoch: int | None = None
    """The generation, or the group epoch."""
    assignment_epoch: int | None = None
    assigned_ms: int | None = None
    """When the current target, or the classic group's assignment, was written."""
    assignor: str | None = None
    leader: str | None = None
    members: dict[str, ReplayedMember] = field(default_factory=dict)
    offsets: dict[PartitionKey, ReplayedOffset] = field(default_factory=dict)
    patterns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The topics that each regular expression matches."""
    others: dict[str, Plain] = field(default_factory=dict)
    """Values of the records of share and streams groups, by the record's name and the rest of the key."""

    @property
    def is_empty(self) -> bool:
        """Whether no records of the group are left."""
        return self.kind is None and not (self.members or self.offsets or self.others or self.patterns)

    def plain(self) -> Plain:
        """Returns the group as plain data for JSON."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), committed in sorted(self.offsets.items()):
            offsets.setdefault(topic, {})[str(partition)] = committed.offset
        return {
            "group": self.group_id,
            "type": self.kind,
            "epoch": self.epoch,
            "assignment_epoch": self.assignment_epoch,
            "assignor": self.assignor,
            "leader": self.leader,
            "members": [_plain_member(member) for _, member in sorted(self.members.items())],
            "patterns": {pattern: list(topics) for pattern, topics in sorted(self.patterns.items())},
            "offsets": offsets,
            "others": self.others,
        }


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


class CoordinatorState:
    """The groups of one partition, whose records are applied in the order of their offsets."""

    def __init__(self, topic_names: TopicNames) -> None:
        self.groups: dict[str, ReplayedGroup] = {}
        self._topic_name = topic_names

    def apply(self, key: bytes, value: bytes | None, timestamp_ms: int) -> ReplayedRecord:
        """Applies a record to the state and returns the decoded record."""
        record = _decode(key, value)
        if record.key is None or record.group_id is None:
            return record
        group = self.groups.setdefault(record.group_id, ReplayedGroup(record.group_id))
        self._apply(group, record, timestamp_ms)
        if group.is_empty:
            del self.groups[record.group_id]
        return record

    def _apply(self, group: ReplayedGroup, record: ReplayedRecord, timestamp_ms: int) -> None:
        key: Any = record.key
        value: Any = record.value
        match record.name:
            case "OffsetCommit" | "LegacyOffsetCommit":
                _apply_offset(group, key, value)
            case "GroupMetadata":
                _apply_classic(group, value, timestamp_ms)
            case "ConsumerGroupMetadata":
                group.kind = _kind(group, "consumer", value)
                group.epoch = value.epoch if value is not None else None
            case "ConsumerGroupPartitionMetadata":
                pass  # the topics' partitions; Kafka no longer writes this record since 4.1
            case "ConsumerGroupMemberMetadata":
                _apply_member(group, key, value)
            case "ConsumerGroupTargetAssignmentMetadata":
                group.assignment_epoch = value.assignment_epoch if value is not None else None
                group.assigned_ms = timestamp_ms if value is not None else None
            case "ConsumerGroupTargetAssignmentMember":
                member = _member(group, key.member_id, value)
                member.target = self._partitions(value.topic_partitions) if value is not None else frozenset()
            case "ConsumerGroupCurrentMemberAssignment":
                self._apply_current(_member(group, key.member_id, value), value, timestamp_ms)
            case "ConsumerGroupRegularExpression":
                if value is None:
                    group.patterns.pop(key.regular_expression, None)
                else:
                    group.patterns[key.regular_expression] = tuple(value.topics)
            case _:
                _apply_other(group, record)

    def _apply_current(self, member: ReplayedMember, value: Any, timestamp_ms: int) -> None:
        if value is None:
            member.epoch = member.state = member.changed_ms = None
            member.assigned = member.pending_revocation = frozenset()
            return
        member.epoch = value.member_epoch
        member.state = _MEMBER_STATES.get(value.state, str(value.state))
        member.assigned = self._partitions(value.assigned_partitions)
        member.pending_revocation = self._partitions(value.partitions_pending_revocation)
        member.changed_ms = timestamp_ms

    def _partitions(self, topics: list[Any]) -> frozenset[PartitionKey]:
        return frozenset((self._topic_name(topic.topic_id), index) for topic in topics for index in topic.partitions)


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


def _kind(group: ReplayedGroup, kind: str, value: object) -> str | None:
    """Returns the group's kind after a record of `kind`. A tombstone of another kind changes nothing, since a group may
    have been converted."""
    if value is not None:
        return kind
    return None if group.kind == kind else group.kind


def _member(group: ReplayedGroup, member_id: str, value: object) -> ReplayedMember:
    """Returns the member. Creates it if the group lacks it; for a tombstone, without adding it to the group."""
    if value is None:
        return group.members.get(member_id) or ReplayedMember(member_id)
    return group.members.setdefault(member_id, ReplayedMember(member_id))


def _apply_offset(group: ReplayedGroup, key: Any, value: Any) -> None:
    if value is None:
        group.offsets.pop((key.topic, key.partition), None)
        return
    group.offsets[key.topic, key.partition] = ReplayedOffset(
        value.offset, getattr(value, "leader_epoch", -1), value.metadata, value.commit_timestamp
    )


def _apply_classic(group: ReplayedGroup, value: Any, timestamp_ms: int) -> None:
    was_classic = group.kind == "classic"
    group.kind = _kind(group, "classic", value)
    if value is None:
        if was_classic:
            group.epoch = group.assignor = group.leader = group.assigned_ms = None
            group.members = {}
        return
    group.epoch, group.assignor, group.leader = value.generation, value.protocol or None, value.leader or None
    group.assigned_ms, group.assignment_epoch = timestamp_ms, None
    group.members = {each.member_id: _classic_member(each, value.protocol_type, timestamp_ms) for each in value.members}


def _classic_member(each: Any, protocol_type: str, timestamp_ms: int) -> ReplayedMember:
    member = ReplayedMember(
        each.member_id,
        each.group_instance_id,
        each.client_id,
        each.client_host,
        rebalance_timeout_ms=each.rebalance_timeout if each.rebalance_timeout >= 0 else each.session_timeout,
        session_timeout_ms=each.session_timeout,
        uses_classic_protocol=True,
        changed_ms=timestamp_ms,
    )
    if protocol_type == "consumer":
        try:
            member.topics = tuple(decode_subscription(each.subscription).topics) if each.subscription else ()
            assignment = decode_assignment(each.assignment).assigned_partitions if each.assignment else []
        except MalformedMessage:
            return member
        member.assigned = frozenset((topic.topic, index) for topic in assignment for index in topic.partitions)
        member.target = member.assigned
    return member


def _apply_member(group: ReplayedGroup, key: Any, value: Any) -> None:
    if value is None:
        group.members.pop(key.member_id, None)
        return
    member = _member(group, key.member_id, value)
    member.instance_id, member.client_id, member.host = value.instance_id, value.client_id, value.client_host
    member.topics = tuple(value.subscribed_topic_names)
    member.pattern = value.subscribed_topic_regex or None
    member.assignor = value.server_assignor or None
    member.rebalance_timeout_ms = value.rebalance_timeout_ms
    member.uses_classic_protocol = value.classic_member_metadata is not None
    classic = value.classic_member_metadata
    member.session_timeout_ms = classic.session_timeout_ms if classic is not None else None


def _apply_other(group: ReplayedGroup, record: ReplayedRecord) -> None:
    """Stores the last value of each key of share and streams groups."""
    name, key = record.name or "", record.key
    kind = name.partition("Group")[0].lower()
    rest = [str(value) for field, value in plain(key).items() if field != "group_id"] if key is not None else []
    place = " ".join([name, *rest])
    if record.value is None:
        group.others.pop(place, None)
    else:
        group.others[place] = plain(record.value)
        epoch = getattr(record.value, "epoch", None)
        if name in ("ShareGroupMetadata", "StreamsGroupMetadata"):
            group.epoch = epoch
        group.kind = kind
    if group.kind == kind and not group.others:
        group.kind = group.epoch = None


def _plain_member(member: ReplayedMember) -> Plain:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.host,
        "topics": list(member.topics),
        "pattern": member.pattern,
        "epoch": member.epoch,
        "state": member.state,
        "assigned": _by_topic(member.assigned),
        "pending_revocation": _by_topic(member.pending_revocation),
        "target": _by_topic(member.target),
    }


def _by_topic(keys: frozenset[PartitionKey]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(keys):
        topics.setdefault(topic, []).append(index)
    return topics


def unknown_topic(topic_id: bytes) -> str:
    """Returns the text that replaces the name of an unknown topic."""
    return f"topic id {uuid_text(topic_id)}"
