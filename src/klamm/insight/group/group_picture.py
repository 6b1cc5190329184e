"""A group as its coordinator describes it, for both group protocols and both clients (raw and librdkafka)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import ConsumerGroupDescription

from klamm.client.group_description import ClassicDescription, ConsumerDescription
from klamm.insight.group.member_names import MemberNames
from klamm.insight.words import PartitionKey
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import MalformedMessage

__all__ = ["GroupPicture", "MemberPicture", "librdkafka_state_words", "picture_of", "state_words"]

_STATES: Final = {
    "PreparingRebalance": "preparing-rebalance",
    "CompletingRebalance": "completing-rebalance",
    "NotReady": "not-ready",
}
_LIBRDKAFKA_STATES: Final = {
    "PREPARING_REBALANCING": "preparing-rebalance",
    "COMPLETING_REBALANCING": "completing-rebalance",
}
_CLASSIC_MEMBER: Final = 0
_CONSUMERS: Final = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPicture:
    """A member with its assigned and its target partitions."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    epoch: int | None = None
    """The member epoch in a consumer group; None if the description lacks it."""
    topics: frozenset[str] | None = None
    """The topics that the member subscribes to by name; None if the description lacks them."""
    pattern: str | None = None
    assigned: frozenset[PartitionKey] = frozenset()
    """The partitions that the member owns; in a consumer group including those that it has to revoke."""
    target: frozenset[PartitionKey] = frozenset()
    uses_classic_protocol: bool = False

    @property
    def missing(self) -> frozenset[PartitionKey]:
        """The target partitions that the member does not own yet."""
        return self.target - self.assigned

    @property
    def surplus(self) -> frozenset[PartitionKey]:
        """The partitions that the member has to revoke."""
        return self.assigned - self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPicture:
    """A group at one moment."""

    group_id: str
    kind: str
    """classic or consumer."""
    state: str
    """Kafka's name of the state, as `klamm group list` shows it."""
    epoch: int | None = None
    """The group epoch; a classic group's generation is not described."""
    assignment_epoch: int | None = None
    assignor: str | None = None
    members: tuple[MemberPicture, ...] = ()
    awaited: frozenset[str] | None = None
    """The ids of the members that a classic group's rebalance waits for; None if the description lacks them."""
    change_causes: tuple[str, ...] = ()
    """The causes of the change in progress; empty if no change is in progress, or if the description lacks them."""
    changing_since_ms: int | None = None
    members_needed: int | None = None
    """How many members would reduce the lag and keep it low; None if not described or not known yet."""

    @property
    def partitions(self) -> frozenset[PartitionKey]:
        """All assigned and target partitions of all members."""
        return frozenset().union(*(member.assigned | member.target for member in self.members))

    @property
    def standbys(self) -> tuple[MemberPicture, ...]:
        """Members without assigned or target partitions. A member that is still joining is not a standby."""
        if self.kind == "classic" and self.state != "stable":
            return ()
        return tuple(
            member
            for member in self.members
            if not member.assigned
            and not member.target
            and (member.epoch is None or self.assignment_epoch is None or member.epoch >= self.assignment_epoch)
        )

    @property
    def owners(self) -> dict[PartitionKey, MemberPicture]:
        """The owner of each assigned partition."""
        return {key: member for member in self.members for key in member.assigned}

    def name_members(self, names: MemberNames) -> None:
        """Adds the members to `names`."""
        for member in self.members:
            names.add(member.member_id, member.instance_id, member.client_id)


def picture_of(described: ConsumerDescription | ClassicDescription | ConsumerGroupDescription) -> GroupPicture:
    """Returns the picture for a coordinator's response, as read by the raw client or by librdkafka."""
    if isinstance(described, ConsumerDescription):
        return _of_consumer_group(described)
    return _of_classic_group(described) if isinstance(described, ClassicDescription) else _of_librdkafka(described)


def _of_consumer_group(described: ConsumerDescription) -> GroupPicture:
    return GroupPicture(
        group_id=described.group_id,
        kind="consumer",
        state=state_words(described.group_state),
        epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        assignor=described.assignor_name or None,
        members=_sorted(
            MemberPicture(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.client_host,
                epoch=member.member_epoch,
                topics=frozenset(member.subscribed_topic_names or ()),
                pattern=member.subscribed_topic_regex or None,
                assigned=_partitions(member.assignment.topic_partitions, "topic_name"),
                target=_partitions(member.target_assignment.topic_partitions, "topic_name"),
                uses_classic_protocol=member.member_type == _CLASSIC_MEMBER,
            )
            for member in described.members
        ),
        change_causes=tuple(described.change_causes or ()),
        changing_since_ms=_known(described.changing_since_ms),
        members_needed=_known(described.members_needed),
    )


def _of_classic_group(described: ClassicDescription) -> GroupPicture:
    members = []
    for member in described.members:
        assigned: frozenset[PartitionKey] = frozenset()
        topics = None
        if described.protocol_type == _CONSUMERS:
            assigned = _assignment(bytes(member.member_assignment))
            topics = _subscription(bytes(member.member_metadata))
        members.append(
            MemberPicture(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.client_host,
                topics=topics,
                assigned=assigned,
                target=assigned,
                uses_classic_protocol=True,
            )
        )
    return GroupPicture(
        group_id=described.group_id,
        kind="classic",
        state=state_words(described.group_state),
        assignor=described.protocol_data or None,
        members=_sorted(members),
        awaited=None if described.awaited_members is None else frozenset(described.awaited_members),
        change_causes=tuple(described.change_causes or ()),
        changing_since_ms=_known(described.changing_since_ms),
        members_needed=_known(described.members_needed),
    )


def _known(figure: int) -> int | None:
    return None if figure < 0 else figure


def _of_librdkafka(described: ConsumerGroupDescription) -> GroupPicture:
    """Returns the picture without epochs, subscriptions and the states of consumer groups: librdkafka lacks these."""
    kind = "consumer" if described.type == ConsumerGroupType.CONSUMER else "classic"
    state: Any = described.state or ConsumerGroupState.UNKNOWN
    members = []
    for member in described.members:
        assigned = _partitions(member.assignment.topic_partitions)
        target = member.target_assignment
        members.append(
            MemberPicture(
                member_id=str(member.member_id),
                instance_id=member.group_instance_id,
                client_id=str(member.client_id),
                host=str(member.host),
                assigned=assigned,
                target=_partitions(target.topic_partitions) if target is not None and kind == "consumer" else assigned,
                uses_classic_protocol=kind == "classic",
            )
        )
    return GroupPicture(
        group_id=described.group_id,
        kind=kind,
        state=librdkafka_state_words(state),
        assignor=described.partition_assignor or None,
        members=_sorted(members),
    )


def state_words(name: str) -> str:
    """Returns klamm's name of a state that the protocol names."""
    return _STATES.get(name, name.lower())


def librdkafka_state_words(state: Enum) -> str:
    """Returns klamm's name, which is Kafka's, of a state that librdkafka names."""
    name: str = state.name
    return _LIBRDKAFKA_STATES.get(name, name.lower().replace("_", "-"))


def _sorted(members: Iterable[MemberPicture]) -> tuple[MemberPicture, ...]:
    return tuple(sorted(members, key=lambda member: (member.client_id, member.member_id)))


def _partitions(topics: Iterable[Any], name: str | None = None) -> frozenset[PartitionKey]:
    if name is None:
        return frozenset((each.topic, each.partition) for each in topics)
    return frozenset((getattr(each, name), index) for each in topics for index in each.partitions)


def _assignment(data: bytes) -> frozenset[PartitionKey]:
    try:
        return _partitions(decode_assignment(data).assigned_partitions, "topic") if data else frozenset()
    except MalformedMessage:
        return frozenset()


def _subscription(data: bytes) -> frozenset[str] | None:
    try:
        return frozenset(decode_subscription(data).topics) if data else None
    except MalformedMessage:
        return None
