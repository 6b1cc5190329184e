"""The states of a classic group, and the table of its transitions.

    Empty ──────────────► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲                     │    ▲      ▲                │                  │
      └── nobody joined ────┘    │      └──── a change ──┘                  │
                                 └─────────────── a change ─────────────────┘

An event that has no row for the state it meets is a bug of the caller, not of the client: clients are refused before.
After Apache Kafka's `ClassicGroupState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["GroupEvent", "GroupState", "TRANSITIONS"]


class GroupState(Enum):
    """Where a classic group stands; the value is the name on the wire."""

    EMPTY = "Empty"
    """No members: a group that is new, that everybody left, or that is used for its offsets only."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again; their JoinGroup requests are parked until all have."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Members know the new generation and wait for what the leader assigns; their SyncGroup requests are parked."""
    STABLE = "Stable"
    """Every member has its assignment, and the log has it too."""
    DEAD = "Dead"
    """The group is gone."""


class GroupEvent(Enum):
    """What moves a classic group."""

    REBALANCE_STARTED = "rebalance started"
    MEMBERS_JOINED = "members joined"
    NOBODY_JOINED = "nobody joined"
    ASSIGNMENT_COMMITTED = "assignment committed"
    UNLOADED = "unloaded"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = MappingProxyType(
    {
        (GroupState.EMPTY, GroupEvent.REBALANCE_STARTED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, GroupEvent.REBALANCE_STARTED): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE_STARTED): GroupState.PREPARING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupEvent.MEMBERS_JOINED): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupEvent.NOBODY_JOINED): GroupState.EMPTY,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNMENT_COMMITTED): GroupState.STABLE,
        (GroupState.EMPTY, GroupEvent.UNLOADED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, GroupEvent.UNLOADED): GroupState.DEAD,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.UNLOADED): GroupState.DEAD,
        (GroupState.STABLE, GroupEvent.UNLOADED): GroupState.DEAD,
    }
)
