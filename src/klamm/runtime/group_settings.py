"""What the group coordinator takes from the broker's configuration."""

from __future__ import annotations

from klamm.config.broker import BrokerConfig
from klamm.core.group.config import GroupConfig

__all__ = ["group_config"]

MINUTE_MS = 60_000


def group_config(config: BrokerConfig) -> GroupConfig:
    """The coordinator's settings as the broker's keys say."""
    return GroupConfig(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
