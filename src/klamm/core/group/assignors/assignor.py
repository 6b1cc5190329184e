"""The input and the output of an assignor of the consumer protocol (KIP-848).

An assignor runs on the broker and assigns the whole group at once. It is a pure function: the same specification
results in the same assignment. After Apache Kafka's `org.apache.kafka.coordinator.group.api.assignor`.
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
"""Partitions of one member by topic. Each topic has at least one partition.

The order of the topics, and the order of the partitions according to `partition_order.in_order`, is the order in the
target assignment's record. The record is written in the order of the assignor's result, and read in the order of the
record. Apache Kafka's assignments depend on this order.
"""


class AssignorFailed(KlammError):
    """No assignment is possible for the specification; the heartbeat that needs it gets UNKNOWN_SERVER_ERROR."""


class TopicSpec(NamedTuple):
    """A topic that exists."""

    name: str
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """The racks of each partition's replicas; empty if no broker has a rack."""


class PartitionLoad(NamedTuple):
    """The known traffic of a partition, for the group that is assigned."""

    arrival_rate: float
    """Appended records a second."""
    lag: int
    """Records between the committed offset and the high watermark."""


class PreviousOwner(NamedTuple):
    """The owner of a partition before it moved; kept for a limited time."""

    member_name: str
    """The group instance id of a static member, else its member id."""
    until: Millis
    """When the member lost the partition."""
    member_id: str = ""
    """The member's id at that time."""


class MemberSpec(NamedTuple):
    """One member, with its subscription and its present target."""

    instance_id: str | None
    rack_id: str | None
    topic_ids: Set[TopicId]
    """The existing topics in its subscription, by name or by regular expression."""
    target: Assignment
    """Its part of the present target assignment."""
    may_be_assigned: bool = True
    """False while the member is held back: it gets no partitions, and the other members keep theirs."""


class GroupSpec(NamedTuple):
    """A group that needs a target assignment."""

    members: Mapping[str, MemberSpec]
    """By member id, in the order in which Apache Kafka puts members into a map: the group's present members in
    `java_hash_order.timeline_order`, then the joining member."""
    topics: Mapping[TopicId, TopicSpec]
    """All topics to which at least one member is subscribed."""
    is_homogeneous: bool
    """Whether all members are subscribed to the same topics."""
    loads: Mapping[tuple[TopicId, PartitionIndex], PartitionLoad] = {}
    """The known traffic; partitions without figures are missing."""
    previous_owners: Mapping[tuple[TopicId, PartitionIndex], PreviousOwner] = {}
    """The recent previous owner of each partition that has one."""
    previous_owner_ms: int = 2**31 - 1
    """How long after losing a partition a previous owner is preferred for it."""
    settings: Mapping[str, float] = {}
    """The group's `klamm.consumer.assignor.load.*`, by the rest of the key after that prefix."""
    now: Millis = Millis(0)
    """The present time, on the same clock as the times in `previous_owners`."""


class Assignor(Protocol):
    """A strategy for distributing partitions among the members of a group."""

    @property
    def name(self) -> str:
        """The name that members and configurations use."""

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Returns each member's target by member id; each partition of a subscribed topic has exactly one owner.

        A member whose target does not change may get the same object as in the specification. Raises AssignorFailed.
        """
