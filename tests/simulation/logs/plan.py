"""The plan of a world of logs: what the seed decides before the world begins."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from klamm.config.topic_config import LONG_MAX, TopicConfig

__all__ = ["LogPlan", "make_plan"]


class LogPlan(NamedTuple):
    """The topics, and the faults that may occur."""

    topics: dict[str, TopicConfig]
    producers: int
    waits_for_disk: bool
    """Whether a record is committed when it is on the disk (`klamm.fsync=ack`), not already when it is written."""
    has_followers: bool
    """Whether the high watermark reaches the log end only from time to time, as in a cluster with followers."""
    steps: int
    lives: int
    has_kills: bool
    has_power_failures: bool
    has_clean_stops: bool
    has_flips: bool
    has_losses: bool
    """Whether files are lost while the machine is down."""
    has_full_disk: bool
    has_write_errors: bool
    has_failed_syncs: bool
    has_read_errors: bool
    has_cuts: bool
    """Whether a log is truncated from time to time, like the log of a follower."""
    producer_id_expiration_ms: int


def make_plan(random: Random) -> LogPlan:
    """Draws a plan; no plan has all faults."""

    def chance(probability: float) -> bool:
        return random.random() < probability

    topics = {}
    for index in range(random.choice((1, 1, 2))):
        is_compacted = chance(0.5)
        topics["compacted" if is_compacted else f"plain-{index}"] = TopicConfig(
            cleanup_policy=frozenset({"compact"} if is_compacted else {"delete"}),
            segment_bytes=random.choice((400, 1_000, 3_000)),
            index_interval_bytes=random.choice((0, 150, 1_000)),
            flush_messages=random.choice((1, 7, LONG_MAX, LONG_MAX)),
            flush_ms=random.choice((500, LONG_MAX)),
            file_delete_delay_ms=random.choice((0, 1_000)),
            retention_bytes=-1 if is_compacted or chance(0.5) else random.choice((1_000, 2_500)),
            retention_ms=-1 if is_compacted or chance(0.7) else random.choice((1_500, 5_000)),
            min_cleanable_dirty_ratio=random.choice((0.0, 0.0, 0.5)),
            delete_retention_ms=random.choice((0, 2_000, 100_000, 100_000)),
        )
    has_power_failures, has_failed_syncs = chance(0.8), chance(0.3)
    return LogPlan(
        topics=topics,
        producers=random.randint(1, 4),
        waits_for_disk=chance(0.5),
        has_followers=chance(0.4),
        steps=random.choice((20, 40, 70)),
        lives=random.randint(2, 5),
        has_kills=chance(0.5),
        has_power_failures=has_power_failures,
        has_clean_stops=chance(0.4),
        has_flips=chance(0.4),
        has_losses=chance(0.4),
        has_full_disk=chance(0.3),
        has_write_errors=chance(0.3),
        has_failed_syncs=has_failed_syncs,
        has_read_errors=chance(0.3),
        # A power failure may restore the truncated part, which a follower's leader would then have truncated again.
        has_cuts=not (has_power_failures or has_failed_syncs) and chance(0.7),
        producer_id_expiration_ms=random.choice((2_000, 86_400_000)),
    )
