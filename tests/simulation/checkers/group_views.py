"""The contents of a group's records and of klamm's store in one form, for each kind of record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.classic.group_metadata import NO_METADATA, GroupMetadata
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.topic_index import TopicIndex
from klamm.core.group.group_store import GroupStore, TopicOffsets
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from klamm.protocol.schema.consumer_group_current_member_assignment_value import TopicPartitions
from klamm.protocol.schema.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from klamm.protocol.schema.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from klamm.protocol.schema.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from klamm.protocol.schema.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey

__all__ = ["GroupKey", "StoreView", "Values", "all_in", "derived", "in_log", "in_store", "key_of", "view"]


class GroupKey(NamedTuple):
    """The subject of a group's record: the kind of the record, the group, and the name in its key."""

    kind: type[Message]
    group_id: str
    name: str

    def __str__(self) -> str:
        return _KINDS[self.kind].words.format(group=self.group_id, name=self.name)


Values = dict[GroupKey, Any]
"""The latest values of one group's records."""


class StoreView(NamedTuple):
    """The parts of a store that are compared."""

    consumer_groups: dict[str, ConsumerGroup]
    groups: dict[str, GroupMetadata]
    topic_index: TopicIndex
    offsets: dict[str, TopicOffsets]
    open_transactions: object
    pending_offsets: object


def view(store: GroupStore) -> StoreView:
    """Returns the parts of a store that are compared."""
    consumer = store.of(ConsumerStore)
    return StoreView(
        consumer.groups,
        store.of(ClassicStore).groups,
        consumer.index,
        store.offsets,
        store.open_transactions,
        store.pending_offsets,
    )


def key_of(key: Any) -> GroupKey:
    """Returns the subject of a record with this key."""
    if isinstance(key, GroupMetadataKey):
        return GroupKey(GroupMetadataKey, key.group, "")
    name: str = getattr(key, "member_id", "") or getattr(key, "regular_expression", "")
    return GroupKey(type(key), key.group_id, name)


def in_log(values: Values, about: GroupKey) -> object:
    """Returns the content of the records, None if there is none. A dictionary has only the fields that the records
    contain.
    """
    return _KINDS[about.kind].in_log(values, about)


def in_store(store: GroupStore, about: GroupKey) -> object:
    """Returns the content of klamm's store, None if there is none."""
    return _KINDS[about.kind].in_store(store, about)


def all_in(store: GroupStore) -> Iterator[GroupKey]:
    """Yields the subjects of all group data in klamm's store."""
    for name, metadata in store.of(ClassicStore).groups.items():
        if metadata != NO_METADATA:
            yield GroupKey(GroupMetadataKey, name, "")
    for group_id, group in store.of(ConsumerStore).groups.items():
        yield GroupKey(ConsumerGroupMetadataKey, group_id, "")
        yield GroupKey(ConsumerGroupPartitionMetadataKey, group_id, "")
        for kind, names in (
            (ConsumerGroupMemberMetadataKey, group.members),
            (ConsumerGroupTargetAssignmentMemberKey, group.target),
            (ConsumerGroupRegularExpressionKey, group.regexes),
        ):
            yield from (GroupKey(kind, group_id, name) for name in names)


# Classic groups


def _classic_in_log(values: Values, about: GroupKey) -> object:
    value = values.get(about)
    if value is None:
        return None
    timestamp = value.current_state_timestamp
    return {
        "generation": value.generation,
        "protocol_type": value.protocol_type or None,
        "protocol_name": value.protocol,
        "leader_id": value.leader,
        "state_timestamp_ms": None if timestamp == -1 else timestamp,
        "members": {
            member.member_id: {
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance_timeout_ms": (
                    member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
                ),
                "session_timeout_ms": member.session_timeout,
                "subscription": member.subscription,
                "assignment": member.assignment,
            }
            for member in value.members
        },
    }


def _classic_in_store(store: GroupStore, about: GroupKey) -> object:
    group = store.of(ClassicStore).groups.get(about.group_id)
    if group is None or group == NO_METADATA:
        return None
    members = {}
    for member in group.members:
        members[member.member_id] = member._asdict()
        del members[member.member_id]["member_id"]
    return group._asdict() | {"members": members}


# Consumer groups

_EPOCHS: Final = (ConsumerGroupMetadataKey, ConsumerGroupTargetAssignmentMetadataKey)


def _epochs_in_log(values: Values, about: GroupKey) -> object:
    if all(key.kind is GroupMetadataKey for key in values):
        return None
    epoch, target = (values.get(about._replace(kind=kind, name="")) for kind in _EPOCHS)
    said: dict[str, object] = {}
    if epoch is not None:
        said |= {"epoch": epoch.epoch, "metadata_hash": epoch.metadata_hash}
    if target is not None:
        said |= {"target_epoch": target.assignment_epoch, "assigned_at_ms": target.assignment_timestamp}
    return said


def _epochs_in_store(store: GroupStore, about: GroupKey) -> object:
    group = store.of(ConsumerStore).groups.get(about.group_id)
    if group is None:
        return None
    return {name: getattr(group, name) for name in ("epoch", "metadata_hash", "target_epoch", "assigned_at_ms")}


def _member_in_log(values: Values, about: GroupKey) -> object:
    metadata = values.get(about._replace(kind=ConsumerGroupMemberMetadataKey))
    current = values.get(about._replace(kind=ConsumerGroupCurrentMemberAssignmentKey))
    if metadata is None and current is None:
        return None
    said: dict[str, object] = {"assigned": {}, "pending_revocation": {}}
    if metadata is not None:
        classic = metadata.classic_member_metadata
        said |= {
            "instance_id": metadata.instance_id,
            "rack_id": metadata.rack_id,
            "client_id": metadata.client_id,
            "client_host": metadata.client_host,
            "rebalance_timeout_ms": metadata.rebalance_timeout_ms,
            "subscribed_topic_names": set(metadata.subscribed_topic_names),
            "subscribed_topic_regex": metadata.subscribed_topic_regex or "",
            "server_assignor": metadata.server_assignor,
            "classic": None
            if classic is None
            else (
                classic.session_timeout_ms,
                tuple((each.name, each.metadata) for each in classic.supported_protocols),
            ),
        }
    if current is not None:
        said |= {
            "member_epoch": current.member_epoch,
            "previous_member_epoch": current.previous_member_epoch,
            "state": current.state,
            "assigned": _partitions(current.assigned_partitions, current.member_epoch),
            "pending_revocation": _partitions(current.partitions_pending_revocation, current.member_epoch),
        }
    return said


def _partitions(topics: Iterable[TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Returns partitions with the epoch in which the member got each (KIP-1251)."""
    found = {}
    for topic in topics:
        epochs = topic.assignment_epochs or [max(member_epoch, 0)] * len(topic.partitions)
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def _member_in_store(store: GroupStore, about: GroupKey) -> object:
    group = store.of(ConsumerStore).groups.get(about.group_id)
    member = None if group is None else group.members.get(about.name)
    return None if member is None else member._asdict()


def _target_in_log(values: Values, about: GroupKey) -> object:
    value = values.get(about)
    return None if value is None else [{topic.topic_id: set(topic.partitions) for topic in value.topic_partitions}]


def _target_in_store(store: GroupStore, about: GroupKey) -> object:
    group = store.of(ConsumerStore).groups.get(about.group_id)
    target = None if group is None else group.target.get(about.name)
    return None if target is None else [dict(target)]


def _regex_in_log(values: Values, about: GroupKey) -> object:
    value = values.get(about)
    return None if value is None else (set(value.topics), value.version, value.timestamp)


def _regex_in_store(store: GroupStore, about: GroupKey) -> object:
    group = store.of(ConsumerStore).groups.get(about.group_id)
    regex = None if group is None else group.regexes.get(about.name)
    return None if regex is None else tuple(regex)


def _legacy_in_log(values: Values, about: GroupKey) -> object:
    return about in values


def _legacy_in_store(store: GroupStore, about: GroupKey) -> object:
    group = store.of(ConsumerStore).groups.get(about.group_id)
    return group is not None and group.has_legacy_metadata


class _Kind(NamedTuple):
    words: str
    """The template for the subject of such a record."""
    in_log: Callable[[Values, GroupKey], object]
    in_store: Callable[[GroupStore, GroupKey], object]


_KINDS: Final[dict[type[Message], _Kind]] = {
    GroupMetadataKey: _Kind("group {group}", _classic_in_log, _classic_in_store),
    ConsumerGroupMetadataKey: _Kind("consumer group {group}", _epochs_in_log, _epochs_in_store),
    ConsumerGroupTargetAssignmentMetadataKey: _Kind("consumer group {group}", _epochs_in_log, _epochs_in_store),
    ConsumerGroupMemberMetadataKey: _Kind("consumer group {group} · member {name}", _member_in_log, _member_in_store),
    ConsumerGroupCurrentMemberAssignmentKey: _Kind(
        "consumer group {group} · member {name}", _member_in_log, _member_in_store
    ),
    ConsumerGroupTargetAssignmentMemberKey: _Kind(
        "consumer group {group} · target of member {name}", _target_in_log, _target_in_store
    ),
    ConsumerGroupRegularExpressionKey: _Kind(
        "consumer group {group} · regular expression {name}", _regex_in_log, _regex_in_store
    ),
    ConsumerGroupPartitionMetadataKey: _Kind(
        "consumer group {group} · legacy metadata", _legacy_in_log, _legacy_in_store
    ),
}


# Data that klamm derives from the records


def derived(store: GroupStore) -> tuple[dict[str, object], dict[str, object]]:
    """Compares the owners, the instances and the subscribed topics that klamm keeps with the same data counted again.

    Returns both sides, with the differences only.
    """
    found: dict[str, object] = {}
    expected: dict[str, object] = {}
    for group_id, group in store.of(ConsumerStore).groups.items():
        topics = {name for member in group.members.values() for name in member.subscribed_topic_names}
        topics.update(name for regex in group.regexes.values() for name in regex.topics)
        pairs: tuple[tuple[str, object, object], ...] = (
            ("owners", _owners(group), _owned(group)),
            (
                "instances",
                set(group.static_members),
                {member.instance_id for member in group.members.values() if member.instance_id is not None},
            ),
            ("topics", {name for name in topics if group_id in store.of(ConsumerStore).index.groups_of(name)}, topics),
        )
        for what, kept, counted in pairs:
            if kept != counted:
                name = f"group {group_id} · {what}"
                found[name], expected[name] = kept, counted
    return found, expected


def _owners(group: ConsumerGroup) -> dict[tuple[bytes, int], str]:
    return {(topic_id, index): name for topic_id, owners in group.owners.items() for index, name in owners.items()}


def _owned(group: ConsumerGroup) -> dict[tuple[bytes, int], str]:
    """Returns the owner of each partition; a member also owns a partition that it has not given up yet. If several
    members own a partition, klamm's owner counts if it is one of them.
    """
    owners = _owners(group)
    found: dict[tuple[bytes, int], str] = {}
    for name, member in group.members.items():
        for assigned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assigned.items():
                for index in partitions:
                    if found.get((topic_id, index)) != owners.get((topic_id, index)):
                        found[topic_id, index] = name
                    else:
                        found.setdefault((topic_id, index), name)
    return found
