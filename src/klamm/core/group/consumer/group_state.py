"""The states of a consumer group and of its members (KIP-848).

A group's state is not moved: it follows from its epochs and its members. A member's state says how far it is on the way
from what it has to what the target says:

    STABLE ──────► UNREVOKED_PARTITIONS ──────► UNRELEASED_PARTITIONS ──────► STABLE
                   keeps its epoch until        has the target's epoch and
                   it has let go                waits until others have let go

After Apache Kafka's `ConsumerGroup.ConsumerGroupState` and `MemberState`.
"""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["ConsumerGroupState", "MemberState"]


class ConsumerGroupState(Enum):
    """Where a consumer group stands; the value is the name on the wire."""

    EMPTY = "Empty"
    """No members."""
    ASSIGNING = "Assigning"
    """The group epoch has risen, and there is no target assignment for it yet."""
    RECONCILING = "Reconciling"
    """Some member is still on its way to its part of the target."""
    STABLE = "Stable"
    """Every member has its part of the target."""
    DEAD = "Dead"
    """The group is gone."""


class MemberState(IntEnum):
    """How far a member has come; the number is the one in its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """Whatever a later version may have written: the member has to begin anew."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN
