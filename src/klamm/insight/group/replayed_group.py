"""A group as its records describe it: a value with members and offsets, for pictures and explanations."""

from __future__ import annotations

from dataclasses import dataclass, field

from klamm.insight.plain_message import Plain
from klamm.insight.words import PartitionKey

__all__ = ["ReplayedGroup", "ReplayedMember", "ReplayedOffset"]


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
