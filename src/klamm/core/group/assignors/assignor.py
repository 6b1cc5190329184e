"""What an assignor of the consumer protocol is told, and what it answers (KIP-848).

An assignor runs on the broker, decides for the whole group at once, and is a pure function: the same specification
gives the same assignment. After Apache Kafka's `org.apache.kafka.coordinator.group.api.assignor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple, Protocol, TypeAlias

from klamm.errors import KlammError
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = [
    "Assignment",
    "Assignor",
    "AssignorFailed",
    "GroupSpec",
    "MemberSpec",
    "PartitionLoad",
    "PreviousOwner",
    "TopicSpec",
]

Assignment: TypeAlias = Mapping[TopicId, frozenset[PartitionIndex]]
"""Partitions of one member by topic. No topic is without partitions.

The order of the topics, and that of the partitions where `partition_order.in_order` tells one, is that of the target
assignment's record: the record is written in the order of the assignor's answer, and read in the order of the record.
Apache Kafka's assignments depend on it.
"""


class AssignorFailed(KlammError):
    """No assignment can be made of what the assignor was told; the heartbeat that asked gets UNKNOWN_SERVER_ERROR."""


class TopicSpec(NamedTuple):
    """A topic that exists."""

    name: str
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """The racks of each partition's replicas; empty where no broker names its rack."""


class PartitionLoad(NamedTuple):
    """What is known of a partition's traffic, for the group that is assigned."""

    arrival_rate: float
    """Records a second that producers append."""
    lag: int
    """Records between the committed offset and the high watermark."""


class PreviousOwner(NamedTuple):
    """Who had a partition before it moved, as long as that is worth knowing."""

    member_name: str
    """The group instance id of a static member, else its member id."""
    until: Millis
    """When the partition left it."""
    member_id: str = ""
    """Its member id then."""


class MemberSpec(NamedTuple):
    """One member, with what it wants and what it was to have until now."""

    instance_id: str | None
    rack_id: str | None
    topic_ids: Set[TopicId]
    """Topics it subscribed to, by name or by regular expression, that exist."""
    target: Assignment
    """Its part of the present target assignment."""
    may_be_assigned: bool = True
    """False while the member is held back: it is told of no partition, and the others keep theirs."""


class GroupSpec(NamedTuple):
    """A group that needs a target assignment."""

    members: Mapping[str, MemberSpec]
    """By member id, in the order in which Apache Kafka would put them into a map: those that the group has already in
    `java_hash_order.timeline_order`, then the one that joins."""
    topics: Mapping[TopicId, TopicSpec]
    """All topics that some member subscribed to."""
    is_homogeneous: bool
    """Whether all members subscribed to the same topics."""
    loads: Mapping[tuple[TopicId, PartitionIndex], PartitionLoad] = {}
    """Traffic, as far as it is known."""
    previous_owners: Mapping[tuple[TopicId, PartitionIndex], PreviousOwner] = {}
    """Who had a partition until recently."""
    previous_owner_ms: int = 2**31 - 1
    """For so long they may come back for it."""
    settings: Mapping[str, float] = {}
    """The group's `klamm.consumer.assignor.load.*`, by what stands for the star."""
    now: Millis = Millis(0)
    """The time on the clock of `previous_owners`."""


class Assignor(Protocol):
    """One way to share partitions."""

    @property
    def name(self) -> str:
        """What members and configurations call it."""

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """The target of every member by member id; each partition of each topic that has a subscriber has one owner.

        A member whose target stays may get the very object that the specification has.

        Raises AssignorFailed.
        """
