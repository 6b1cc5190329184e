"""What is known of a partition before its folder is read, and what was found there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    noted_log_start_offset: Offset | None
    """Where the log begins, as far as it was noted; None if nothing was."""
    had_clean_shutdown: bool
    has_gaps: bool
    """Whether a cleaner may have left gaps between offsets."""
    producer_id_expiration_ms: int
    now_ms: Millis
    read_bytes: Callable[[int], object] = _ignore
    """Told, on the thread that loads, of how much was read and checked."""

    @property
    def log_start_offset(self) -> Offset:
        """Where the log begins at the least."""
        return self.noted_log_start_offset or Offset(0)


class LoadedLog(NamedTuple):
    """What a partition's folder holds."""

    directory: Path
    segments: list[Segment]
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    indexed_offset: Offset
    """The indexes of each segment that ends there or before are on the disk."""
    leader_epochs: LeaderEpochs
    producers: ProducerState
    snapshot_offset: Offset
    """Where the newest usable snapshot of the producers was taken."""
    offline_reason: str | None = None
    noted_log_start_offset: Offset | None = None
    """As in the request, for a log that is offline: what was noted is all that is known of its start."""
    removals: Sequence[Path] = ()
    """Files that an earlier run has let go of, and that can't be removed before the log start offset is noted."""

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
            request.recovery_point,
            leader_epochs,
            ProducerState(request.producer_id_expiration_ms),
            end,
            reason,
            request.noted_log_start_offset,
        )
