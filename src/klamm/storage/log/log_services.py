"""The services that the logs of one data directory share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from klamm.protocol.types import Offset, TopicPartition
from klamm.storage.segment.file_pool import FilePool
from klamm.storage.segment.segment import SegmentSettings

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig

__all__ = ["LogOffsets", "LogServices", "segment_settings"]


class LogOffsets(NamedTuple):
    """The offsets of one log in the checkpoints."""

    recovery_point: Offset
    log_start_offset: Offset
    high_watermark: Offset


class LogServices:
    """The services of a data directory for its logs.

    `run_in_background` runs slow work on the directory's background thread, in the order of the calls.
    `before_truncation` writes the offsets that a truncated log will have to the checkpoints, and returns when they are
    on the disk: after a crash it must not look as if synced records were lost. `disk_failed` is called, on any thread,
    after a failed write or sync.
    `went_offline` is called, on any thread, with a log that goes offline; an observer may replace it.
    """

    __slots__ = (
        "before_truncation",
        "checkpoint_lock",
        "disk_failed",
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
        before_truncation: Callable[[TopicPartition, LogOffsets], None],
        disk_failed: Callable[[], None],
        random: Random,
    ) -> None:
        self.pool = pool
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.run_in_background = run_in_background
        self.before_truncation = before_truncation
        self.disk_failed = disk_failed
        self.random = random
        self.checkpoint_lock = Lock()
        self.went_offline: Callable[[TopicPartition], object] = _ignore


def _ignore(topic_partition: TopicPartition) -> None:
    """Ignores the partition."""


def segment_settings(config: TopicConfig, services: LogServices) -> SegmentSettings:
    """Returns the segment settings of a topic's configuration.

    `segment.jitter.ms` prevents all logs from rolling at the same time.
    """
    jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
    return SegmentSettings(
        services.pool,
        index_interval_bytes=config.index_interval_bytes,
        max_index_bytes=config.segment_index_bytes,
        roll_jitter_ms=services.random.randrange(jitter_ms) if jitter_ms > 0 else 0,
    )
