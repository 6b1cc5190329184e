"""The input and the result of loading a partition's folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.types import Millis, Offset, TopicPartition
from klamm.storage.segment.segment import Segment, SegmentSettings

__all__ = ["LoadRequest", "LoadedLog"]


def _ignore(size_bytes: int) -> None:
    """Ignores the number of bytes."""


def _nothing() -> None:
    """Does nothing about a loss."""


class LoadRequest(NamedTuple):
    """The facts about a partition that are known before its folder is read."""

    directory: Path
    topic_partition: TopicPartition
    settings: SegmentSettings
    recovery_point: Offset
    noted_log_start_offset: Offset | None
    """The checkpointed log start offset; None if there is none."""
    had_clean_shutdown: bool
    has_gaps: bool
    """Whether a cleaner may have left gaps between offsets."""
    producer_id_expiration_ms: int
    now_ms: Millis
    found_loss: Callable[[], object] = _nothing
    """Called before records are cut away that a killed process can't have left incomplete, on the thread that loads."""
    read_bytes: Callable[[int], object] = _ignore
    """Called with the number of bytes that were read and checked, on the thread that loads."""

    @property
    def log_start_offset(self) -> Offset:
        """The lowest possible log start offset."""
        return self.noted_log_start_offset or Offset(0)


class LoadedLog(NamedTuple):
    """The content of a partition's folder."""

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
    """The offset of the newest usable producer snapshot."""
    offline_reason: str | None = None
    noted_log_start_offset: Offset | None = None
    """The offset from the request, for an offline log, whose start is otherwise unknown."""
    removals: Sequence[Path] = ()
    """Files of deleted segments from an earlier run.

    They can't be removed before the log start offset is checkpointed.
    """
    has_new_epochs: bool = False
    """Whether the leader epochs are not those of the checkpoint file."""

    @classmethod
    def offline(
        cls, request: LoadRequest, reason: str, segments: list[Segment], leader_epochs: LeaderEpochs
    ) -> LoadedLog:
        """Creates the result for an offline partition. Its log ends at the last offset known to be on the disk."""
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
