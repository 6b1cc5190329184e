"""What the group coordinator is set to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GroupConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Settings of the group coordinator, with Kafka's defaults; each field says its key."""

    initial_rebalance_delay_ms: int = 3000
    """`group.initial.rebalance.delay.ms`: how long an empty group waits for more members before its first rebalance."""
    min_session_timeout_ms: int = 6000
    """`group.min.session.timeout.ms`"""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`"""
    max_size: int = 2**31 - 1
    """`group.max.size`"""
    new_member_join_timeout_ms: int = 300_000
    """How long a new member's JoinGroup stays parked; no key (Kafka: CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS)."""
    offset_metadata_max_bytes: int = 4096
    """`offset.metadata.max.bytes`, counted in characters as Kafka counts."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """`offsets.retention.minutes`"""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""
