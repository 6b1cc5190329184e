"""What happens in groups, as values: the source of log lines, of `__group_history`, and of whatever explains a group.

A decision leaves its events in `Result.events`. They are published after the decision's records are committed, in the
order of the decisions, and never decide anything themselves.
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
    """Which protocol a group speaks; the value is the name on the wire."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Cause(Enum):
    """Why a group rebalances; the value is the code in `__group_history`."""

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


class RebalanceNeeded(NamedTuple):
    """Something happened that the present generation or epoch does not answer.

    Several may come before one new epoch: each is a cause of it.
    """

    group_id: str
    group_type: GroupType
    epoch: int
    """The generation or group epoch before."""
    cause: Cause
    member_id: str | None
    """The member that caused it, if one did."""
    detail: str
    """The cause in words, for people."""
    at: Millis
    crash_loop: bool = False
    """Whether the member comes and dies, again and again, without ever committing anything."""


class MemberJoined(NamedTuple):
    """Somebody is a member now, and not yet with an assignment."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    at: Millis


class MemberRemoved(NamedTuple):
    """Somebody is no member any more."""

    group_id: str
    member_id: str
    cause: Cause
    detail: str
    at: Millis


class NewEpoch(NamedTuple):
    """The generation, or the group epoch, has risen."""

    group_id: str
    group_type: GroupType
    epoch: int
    member_ids: tuple[str, ...]
    at: Millis
    topics: frozenset[str] = frozenset()
    """What the members have subscribed to, as far as that is known."""


class PartitionMove(NamedTuple):
    """A partition that is to go from one member to another."""

    topic: str
    partition: PartitionIndex
    from_member: str | None
    """Who has it until now, or had it last and is gone; None if nobody has."""
    to_member: str | None
    """Who is to have it; None if nobody is left."""
    committed_offset: Offset | None
    """Where the new owner will go on reading, as far as it is known at this moment."""


class TargetChosen(NamedTuple):
    """It is settled who is to have what: the leader's assignment in a classic group, the target in a consumer group.

    `assignments` names every member.
    """

    group_id: str
    group_type: GroupType
    epoch: int
    assignor: str
    """The classic group's protocol name, or the server-side assignor."""
    assignments: Mapping[str, PartitionsByTopic]
    at: Millis
    moved: tuple[PartitionMove, ...] = ()
    """What changes hands by it, in a consumer group; there the coordinator knows it, and can get ready. Of very
    much, a part."""


class MemberPaused(NamedTuple):
    """A classic member has come to join again and stopped with all but `kept` until it is assigned again.

    `kept` is what its subscription names as owned (cooperative assignors), else nothing.
    """

    group_id: str
    member_id: str
    kept: PartitionsByTopic
    at: Millis


class MemberAssigned(NamedTuple):
    """A member was told what it has now; of a consumer group, what it may use from now on."""

    group_id: str
    member_id: str
    epoch: int
    assigned: PartitionsByTopic
    at: Millis


class GroupIsStable(NamedTuple):
    """Every member has what the target says. A group without members is stable at once."""

    group_id: str
    group_type: GroupType
    epoch: int
    at: Millis


class GroupLoaded(NamedTuple):
    """This coordinator has taken the group over, as the log left it."""

    group_id: str
    group_type: GroupType
    epoch: int
    assignments: Mapping[str, PartitionsByTopic]
    at: Millis
    members: tuple[MemberJoined, ...] = ()
    """Who the members are; they joined before, under another coordinator."""
    topics: frozenset[str] = frozenset()
    """What the members have subscribed to, as far as that is known."""


class GroupDeleted(NamedTuple):
    """The group is gone with all it committed: an administrator has said so, or everything in it was old."""

    group_id: str
    at: Millis
    cause: Cause = Cause.ADMIN
    group_type: GroupType = GroupType.CLASSIC
    epoch: int = 0


class Remark(NamedTuple):
    """Something worth a line in the log that no history needs."""

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
    | Remark
)
