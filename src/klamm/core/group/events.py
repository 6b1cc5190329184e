"""Events of groups, as values: the source of log lines, of `__group_history`, and of explanations of a group.

A decision puts its events into `Result.events`. They are published after the decision's records are committed, in the
order of the decisions. No decision depends on an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import NamedTuple, TypeAlias

from klamm.protocol.types import Millis, Offset, PartitionIndex

__all__ = [
    "Cause",
    "Event",
    "GroupDeleted",
    "GroupIsStable",
    "GroupLimited",
    "GroupLoaded",
    "GroupType",
    "MemberAssigned",
    "MemberJoined",
    "MemberPaused",
    "MemberRemoved",
    "NewEpoch",
    "PartitionMove",
    "PartitionsByTopic",
    "RebalanceNeeded",
    "Remark",
    "TargetChosen",
]

PartitionsByTopic: TypeAlias = Mapping[str, Set[PartitionIndex]]


class GroupType(Enum):
    """The protocol of a group; the value is the name on the wire."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Cause(Enum):
    """The reason for a rebalance; the value is the code in `__group_history`."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMED_OUT = "session_timed_out"
    REBALANCE_TIMED_OUT = "rebalance_timed_out"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    STATIC_MEMBER_RETURNED = "static_member_returned"
    LEADER_REJOINED = "leader_rejoined"
    MEMBER_REJOINED = "member_rejoined"
    PARTITIONS_REVOKED = "partitions_revoked"
    ASSIGNMENT_FAILED = "assignment_failed"
    PARTITIONS_ADDED = "partitions_added"
    TOPIC_CREATED = "topic_created"
    TOPIC_DELETED = "topic_deleted"
    COORDINATOR_MOVED = "coordinator_moved"
    LOAD_REBALANCED = "load_rebalanced"
    ASSIGNOR_CHANGED = "assignor_changed"
    PROTOCOL_CHANGED = "protocol_changed"
    MEMBER_HELD_BACK = "member_held_back"
    GROUP_TOO_LARGE = "group_too_large"
    OFFSETS_EXPIRED = "offsets_expired"
    ADMIN = "admin"
    UNKNOWN = "unknown"
    LIMITED_BY_PARTITION = "limited_by_partition"
    LIMITED_BY_PARTITION_COUNT = "limited_by_partition_count"
    LIMITED_BY_OWNER = "limited_by_owner"
    KEEPS_UP = "keeps_up"


class RebalanceNeeded(NamedTuple):
    """A change that requires a new generation or group epoch.

    Several may precede one new epoch; each is one of its causes.
    """

    group_id: str
    group_type: GroupType
    epoch: int
    """The generation or group epoch before the rebalance."""
    cause: Cause
    member_id: str | None
    """The member that caused the rebalance, if one did."""
    detail: str
    """The cause in words, for a human reader."""
    at: Millis
    crash_loop: bool = False
    """Whether the member is in a crash loop: it joins and dies repeatedly without a commit."""


class MemberJoined(NamedTuple):
    """A member joined; it has no assignment yet."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    at: Millis


class MemberRemoved(NamedTuple):
    """A member was removed from the group."""

    group_id: str
    member_id: str
    cause: Cause
    detail: str
    at: Millis


class NewEpoch(NamedTuple):
    """The generation or the group epoch increased."""

    group_id: str
    group_type: GroupType
    epoch: int
    member_ids: tuple[str, ...]
    at: Millis
    topics: frozenset[str] = frozenset()
    """The subscribed topics, if they are known."""


class PartitionMove(NamedTuple):
    """A partition that a new target moves from one member to another."""

    topic: str
    partition: PartitionIndex
    from_member: str | None
    """The present owner, or the last one if it is gone; None if the partition has no owner."""
    to_member: str | None
    """The new owner; None if there is none."""
    committed_offset: Offset | None
    """The offset from which the new owner will read, as known at this moment; None without a commit."""


class TargetChosen(NamedTuple):
    """A new assignment: the leader's in a classic group, the target assignment in a consumer group.

    `assignments` contains every member.
    """

    group_id: str
    group_type: GroupType
    epoch: int
    assignor: str
    """The classic group's protocol name, or the server-side assignor."""
    assignments: Mapping[str, PartitionsByTopic]
    at: Millis
    moved: tuple[PartitionMove, ...] = ()
    """The partitions that this target moves, in a consumer group only; a part of them if there are very many. The
    coordinator can prepare for these moves."""


class MemberPaused(NamedTuple):
    """A classic member rejoined and reads only the partitions in `kept` until its next assignment.

    `kept` contains the owned partitions in its subscription (cooperative assignors), else nothing.
    """

    group_id: str
    member_id: str
    kept: PartitionsByTopic
    at: Millis


class MemberAssigned(NamedTuple):
    """A member received its assignment; in a consumer group, the partitions that it may use from now on."""

    group_id: str
    member_id: str
    epoch: int
    assigned: PartitionsByTopic
    at: Millis


class GroupIsStable(NamedTuple):
    """Every member has the partitions of the target. A group without members is stable at once."""

    group_id: str
    group_type: GroupType
    epoch: int
    at: Millis


class GroupLoaded(NamedTuple):
    """This coordinator loaded the group from the log."""

    group_id: str
    group_type: GroupType
    epoch: int
    assignments: Mapping[str, PartitionsByTopic]
    at: Millis
    members: tuple[MemberJoined, ...] = ()
    """The members. They joined earlier, under another coordinator."""
    topics: frozenset[str] = frozenset()
    """The subscribed topics, if they are known."""


class GroupDeleted(NamedTuple):
    """The group and all its offsets are deleted: by an administrator, or because the offsets expired."""

    group_id: str
    at: Millis
    cause: Cause = Cause.ADMIN
    group_type: GroupType = GroupType.CLASSIC
    epoch: int = 0


class GroupLimited(NamedTuple):
    """A measurement found what limits the group, or that it keeps up again. The group itself has not changed."""

    group_id: str
    cause: Cause
    """KEEPS_UP, or one of the limits."""
    detail: str
    at: Millis


class Remark(NamedTuple):
    """A text for the broker's log that is not part of the group's history."""

    group_id: str
    text: str


Event: TypeAlias = (
    RebalanceNeeded
    | MemberJoined
    | MemberRemoved
    | NewEpoch
    | TargetChosen
    | MemberPaused
    | MemberAssigned
    | GroupIsStable
    | GroupLoaded
    | GroupDeleted
    | GroupLimited
    | Remark
)
