"""What one consumer group is set to: the broker's defaults, with the group's own overrides on top.

Overrides are configs of the resource type `group` (KIP-848, `org.apache.kafka.coordinator.group.GroupConfig`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["GroupConfig", "GroupConfigOf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Settings of one consumer group, with Kafka's defaults; each field says its group key."""

    session_timeout_ms: int = 45_000
    """`consumer.session.timeout.ms`"""
    heartbeat_interval_ms: int = 5_000
    """`consumer.heartbeat.interval.ms`"""
    assignment_interval_ms: int = 1_000
    """`consumer.assignment.interval.ms` (KIP-1263): time between two target assignments, 0 for none."""
    previous_owner_ms: int = 300_000
    """`klamm.consumer.assignor.previous.owner.ms`: how long a member that comes back finds its partitions preferred."""
    load: Mapping[str, float] = field(default_factory=dict)
    """`klamm.consumer.assignor.load.*`, by what stands for the star."""


GroupConfigOf: TypeAlias = Callable[[str], GroupConfig]
"""The settings of a group by its id, at this moment."""
