"""Finds out where the log of a client, or of a follower, diverges from the log of the leader (KIP-595)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch

if TYPE_CHECKING:
    from klamm.protocol.fetch_messages import FetchPartition
    from klamm.storage.log.log import Log

__all__ = ["diverging_epoch"]


def diverging_epoch(log: Log, wanted: FetchPartition) -> tuple[int, int] | None:
    """Returns the epoch and end offset where the client's log diverges from this log; None if it doesn't.

    Raises OFFSET_OUT_OF_RANGE if the end of the client's last epoch is unknown, or if the fetch offset is below the log
    start offset.
    """
    epoch, end_offset = log.end_offset_for_epoch(LeaderEpoch(wanted.last_fetched_epoch))
    if epoch < 0 or end_offset < 0:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"where epoch {wanted.last_fetched_epoch} of {log} ended is not known"
        )
    if wanted.fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{log} begins at {log.log_start_offset}")
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return epoch, end_offset
    return None
