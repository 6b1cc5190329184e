"""What a seed decides about a world of logs before it begins."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from klamm.config.topic import LONG_MAX, TopicConfig

__all__ = ["LogPlan", "make_plan"]


class LogPlan(NamedTuple):
    """The topics, and what may happen to them."""

    topics: dict[str, TopicConfig]
    producers: int
    waits_for_disk: bool
    """Whether a record is committed when it is on the disk (`klamm.fsync=ack`), or when it is written."""
    steps: int
    lives: int
    has_kills: bool
    has_power_failures: bool
    has_clean_stops: bool
    has_flips: bool
    has_full_disk: bool
    has_write_errors: bool
    has_failed_syncs: bool


def make_plan(random: Random) -> LogPlan:
    """Some of everything; not all of it in each world."""

    def chance(probability: float) -> bool:
        return random.random() < probability

    topics = {}
    for index in range(random.choice((1, 1, 2))):
        is_compacted = chance(0.4)
        topics["compacted" if is_compacted else f"plain-{index}"] = TopicConfig(
            cleanup_policy=frozenset({"compact"} if is_compacted else {"delete"}),
            segment_bytes=random.choice((400, 1_000, 3_000)),
            index_interval_bytes=random.choice((0, 150, 1_000)),
            flush_messages=random.choice((1, 7, LONG_MAX, LONG_MAX)),
            flush_ms=random.choice((500, LONG_MAX)),
            file_delete_delay_ms=random.choice((0, 1_000)),
            retention_bytes=-1 if is_compacted or chance(0.6) else 2_500,
            min_cleanable_dirty_ratio=random.choice((0.0, 0.5)),
            delete_retention_ms=random.choice((0, 2_000, 100_000)),
        )
    return LogPlan(
        topics=topics,
        producers=random.randint(1, 4),
        waits_for_disk=chance(0.5),
        steps=random.choice((20, 40, 70)),
        lives=random.randint(2, 5),
        has_kills=chance(0.5),
        has_power_failures=chance(0.8),
        has_clean_stops=chance(0.4),
        has_flips=chance(0.4),
        has_full_disk=chance(0.3),
        has_write_errors=chance(0.3),
        has_failed_syncs=chance(0.3),
    )
