"""What the logs of one data directory share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Lock
from typing import TYPE_CHECKING

from klamm.protocol.types import Offset, TopicPartition
from klamm.storage.file_pool import FilePool
from klamm.storage.segment import SegmentSettings

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig

__all__ = ["LogServices", "segment_settings"]


class LogServices:
    """What a log needs of the directory it is in.

    `run_in_background` runs something slow on the directory's own thread, in the order given.
    `before_truncation` notes durably that a log's recovery point falls to an offset, before the log is cut there: a
    crash in between must not look as if synced records were lost.
    `went_offline` is told, on whichever thread, of a log that works no more; who wants to know sets it.
    """

    __slots__ = (
        "before_truncation",
        "checkpoint_lock",
        "pool",
        "producer_id_expiration_ms",
        "random",
        "run_in_background",
        "went_offline",
    )

    def __init__(
        self,
        pool: FilePool,
        *,
        producer_id_expiration_ms: int,
        run_in_background: Callable[[Callable[[], None]], object],
        before_truncation: Callable[[TopicPartition, Offset], None],
        random: Random,
    ) -> None:
        self.pool = pool
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.run_in_background = run_in_background
        self.before_truncation = before_truncation
        self.random = random
        self.checkpoint_lock = Lock()
        self.went_offline: Callable[[TopicPartition], object] = _ignore


def _ignore(topic_partition: TopicPartition) -> None:
    """Nobody wants to know."""


def segment_settings(config: TopicConfig, services: LogServices) -> SegmentSettings:
    """Returns what a topic's configuration says about its segments.

    `segment.jitter.ms` keeps logs from rolling all at once.
    """
    jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
    return SegmentSettings(
        services.pool,
        index_interval_bytes=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        roll_jitter_ms=services.random.randrange(jitter_ms) if jitter_ms > 0 else 0,
    )
