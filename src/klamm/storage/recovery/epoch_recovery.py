"""The leader epochs of a partition at start: read from the checkpoint or, if that is unreadable, from the batches.

Source: `LeaderEpochFileCache` and `LogSegment.recover` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from pathlib import Path

from klamm.core.log.leader_epoch import EpochEntry, LeaderEpochs
from klamm.protocol.types import LeaderEpoch, Offset
from klamm.storage.checkpoints import LEADER_EPOCH_FILE, MalformedCheckpoint, read_leader_epochs
from klamm.storage.recovery.producer_recovery import segment_headers
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.segment import Segment

__all__ = ["load_leader_epochs", "note_epoch"]

_logger = logging.getLogger(__name__)


def load_leader_epochs(directory: Path, segments: list[Segment]) -> tuple[LeaderEpochs, tuple[EpochEntry, ...] | None]:
    """Returns the leader epochs from the partition's checkpoint, or from its batches if the checkpoint is malformed;
    and the entries of the checkpoint, None for a malformed one.

    Reading the batches stops at the first bad one; recovery decides what follows it. Raises OSError.
    """
    try:
        stored = tuple(read_leader_epochs(directory / LEADER_EPOCH_FILE))
    except MalformedCheckpoint as error:
        _logger.warning("%s: the epochs are read from the log instead", error)
    else:
        return LeaderEpochs(stored), stored
    epochs = LeaderEpochs()
    for segment in segments:
        try:
            for _, header in segment_headers(segment):
                note_epoch(epochs, header.partition_leader_epoch, header.base_offset)
        except BadBatch:
            break
    return epochs, None


def note_epoch(epochs: LeaderEpochs, epoch: LeaderEpoch, offset: Offset) -> None:
    """Assigns the epoch of a batch, with the batch's base offset as its start, if it is newer than all known epochs."""
    if epoch > epochs.latest_epoch:
        epochs.assign(epoch, offset)
