"""What the group coordinator is set to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from klamm.config.broker import BrokerConfig

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
    """How long a new member's parked JoinGroup lasts; no key, as in Kafka (CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS).
    """
    offset_metadata_max_bytes: int = 4096
    """`offset.metadata.max.bytes`, counted in characters as Kafka counts."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """`offsets.retention.minutes`"""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""

    @classmethod
    def from_broker_config(cls, config: BrokerConfig) -> Self:
        """What the broker's configuration says of groups."""
        return cls(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )
