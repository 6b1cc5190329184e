"""The states of a consumer group and of its members (KIP-848).

A group's state is not stored: it is derived from its epochs and its members. A member's state says how far it is on the
way from its assignment to its target:

    STABLE ──────► UNREVOKED_PARTITIONS ──────► UNRELEASED_PARTITIONS ──────► STABLE
                   keeps its epoch until        has the target's epoch and waits
                   it has revoked               until other members have revoked

After Apache Kafka's `ConsumerGroup.ConsumerGroupState` and `MemberState`.
"""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["ConsumerGroupState", "MemberState"]


class ConsumerGroupState(Enum):
    """The state of a consumer group; the value is the name on the wire."""

    EMPTY = "Empty"
    """No members."""
    ASSIGNING = "Assigning"
    """The group epoch has risen, and there is no target assignment for it yet."""
    RECONCILING = "Reconciling"
    """At least one member has not reached its part of the target yet."""
    STABLE = "Stable"
    """Every member has its part of the target."""
    DEAD = "Dead"
    """The group is gone."""


class MemberState(IntEnum):
    """The progress of a member's reconciliation; the number is the one in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """A state that a later version has written; the member has to start again."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN
