"""Settings of the group coordinator."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Final

__all__ = ["GroupCoordinatorConfig"]

_SHORTEST_INTERVAL_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorConfig:
    """Settings of the group coordinator, with Kafka's defaults; each field's docstring names its key."""

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
    rebalance_batch_ms: int = 0
    """`klamm.group.rebalance.batch.ms`: how long a stable classic group waits for further joins and leaves."""
    offset_metadata_max_bytes: int = 4096
    """`offset.metadata.max.bytes`, counted in characters as Kafka counts."""
    consumer_max_size: int = 2**31 - 1
    """`group.consumer.max.size`"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range", "load")
    """`group.consumer.assignors`: the assignors that members may request; the first is the default."""
    consumer_migration_policy: str = "bidirectional"
    """`group.consumer.migration.policy`: bidirectional, upgrade, downgrade or disabled."""
    consumer_regex_refresh_interval_ms: int = 600_000
    """`group.consumer.regex.refresh.interval.ms`"""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    """`offsets.retention.minutes`"""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`"""
    ephemeral_patterns: tuple[str, ...] = ()
    """`klamm.group.ephemeral.patterns`"""
    ephemeral_retention_ms: int = 3_600_000
    """`klamm.group.ephemeral.retention.ms`"""
    offset_commit_linger_ms: int = -1
    """`klamm.offsets.commit.linger.ms`, or `group.coordinator.append.linger.ms` if that is not set: how long an
    OffsetCommit waits to be written together with others. -1 adapts to the load: commits wait only while the event
    loop is busy."""

    looks_per_step: int = 250
    """How many offsets or groups one step examines, and at most removes: one or two milliseconds. No key."""

    def offsets_retention_of(self, group_id: str) -> int:
        """Returns how long the offsets of a group are kept, in milliseconds."""
        if self.ephemeral_patterns and _matches(self.ephemeral_patterns)(group_id):
            return self.ephemeral_retention_ms
        return self.offsets_retention_ms

    @property
    def expiry_interval_ms(self) -> int:
        """The time between two checks for expired offsets; shorter if ephemeral groups have a short retention."""
        if not self.ephemeral_patterns:
            return self.offsets_retention_check_interval_ms
        return min(self.offsets_retention_check_interval_ms, max(self.ephemeral_retention_ms, _SHORTEST_INTERVAL_MS))


@lru_cache(maxsize=8)
def _matches(patterns: tuple[str, ...]) -> Callable[[str], object]:
    return re.compile("|".join(map(translate, patterns))).match
