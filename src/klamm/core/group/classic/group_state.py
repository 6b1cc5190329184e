"""The states of a classic group, and the table of its transitions.

    Empty ──────────────► PreparingRebalance ──► CompletingRebalance ──► Stable
      ▲                     │    ▲      ▲                │                  │
      └── no one joined ────┘    │      └──── a change ──┘                  │
                                 └─────────────── a change ─────────────────┘

An event without a row for the present state is a bug of the caller: invalid requests are refused earlier.
After Apache Kafka's `ClassicGroupState`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["GroupEvent", "GroupState", "TRANSITIONS"]


class GroupState(Enum):
    """The state of a classic group; the value is the name on the wire."""

    EMPTY = "Empty"
    """No members: the group is new, all members left, or it is used only for its offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must join again; their JoinGroup requests are parked until all have joined."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Members know the new generation and wait for the leader's assignment; their SyncGroup requests are parked."""
    STABLE = "Stable"
    """The assignment is committed; every member has it or gets it with its SyncGroup."""
    DEAD = "Dead"
    """The group is gone."""


class GroupEvent(Enum):
    """An event that changes the state of a classic group."""

    REBALANCE_STARTED = "rebalance started"
    MEMBERS_JOINED = "members joined"
    NO_MEMBER_JOINED = "no member joined"
    ASSIGNMENT_COMMITTED = "assignment committed"
    UNLOADED = "unloaded"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = MappingProxyType(
    {
        (GroupState.EMPTY, GroupEvent.REBALANCE_STARTED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, GroupEvent.REBALANCE_STARTED): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE_STARTED): GroupState.PREPARING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupEvent.MEMBERS_JOINED): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupEvent.NO_MEMBER_JOINED): GroupState.EMPTY,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNMENT_COMMITTED): GroupState.STABLE,
        (GroupState.EMPTY, GroupEvent.UNLOADED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, GroupEvent.UNLOADED): GroupState.DEAD,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.UNLOADED): GroupState.DEAD,
        (GroupState.STABLE, GroupEvent.UNLOADED): GroupState.DEAD,
    }
)
