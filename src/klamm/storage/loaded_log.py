"""What is known of a partition before its folder is read, and what was found there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.types import Millis, Offset, TopicPartition
from klamm.storage.segment import Segment, SegmentSettings

__all__ = ["LoadRequest", "LoadedLog"]


def _ignore(size_bytes: int) -> None:
    """Nobody counts."""


class LoadRequest(NamedTuple):
    """What is known of a partition before its folder is read."""

    directory: Path
    topic_partition: TopicPartition
    settings: SegmentSettings
    recovery_point: Offset
    log_start_offset: Offset
    had_clean_shutdown: bool
    has_gaps: bool
    """Whether a cleaner may have left gaps between offsets."""
    producer_id_expiration_ms: int
    now_ms: Millis
    read_bytes: Callable[[int], object] = _ignore
    """Told, on the thread that loads, of how much was read and checked."""


class LoadedLog(NamedTuple):
    """What a partition's folder holds."""

    directory: Path
    segments: list[Segment]
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    leader_epochs: LeaderEpochs
    producers: ProducerState
    snapshot_offset: Offset
    """Where the newest usable snapshot of the producers was taken."""
    offline_reason: str | None = None

    @classmethod
    def offline(
        cls, request: LoadRequest, reason: str, segments: list[Segment], leader_epochs: LeaderEpochs
    ) -> LoadedLog:
        """A partition that can't be served: its log ends where the disk was last known to hold it."""
        end = Offset(max(request.recovery_point, request.log_start_offset))
        return cls(
            request.directory,
            segments,
            request.log_start_offset,
            end,
            request.recovery_point,
            leader_epochs,
            ProducerState(request.producer_id_expiration_ms),
            end,
            reason,
        )
