"""Settings of one consumer group: the broker's defaults, replaced by the group's own overrides.

Overrides are configs of the resource type `group` (KIP-848, `org.apache.kafka.coordinator.group.GroupConfig`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = ["GroupConfig", "GroupConfigOf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Settings of one consumer group, with Kafka's defaults; each field's docstring names its group key."""

    session_timeout_ms: int = 45_000
    """`consumer.session.timeout.ms`"""
    heartbeat_interval_ms: int = 5_000
    """`consumer.heartbeat.interval.ms`"""
    assignment_interval_ms: int = 1_000
    """`consumer.assignment.interval.ms` (KIP-1263): the time between two target assignments; 0 for no limit."""
    previous_owner_ms: int = 300_000
    """`klamm.consumer.assignor.previous.owner.ms`: how long a returning member is preferred for its old partitions."""
    load: Mapping[str, float] = field(default_factory=dict)
    """`klamm.consumer.assignor.load.*`, by the rest of the key after that prefix."""


GroupConfigOf: TypeAlias = Callable[[str], GroupConfig]
"""Returns the present settings of a group by its id."""
