"""Remembers a read of a partition in a fetch session that told the client nothing new, and the state it depended on.

A follower of thousands of partitions sends a Fetch every `replica.fetch.wait.max.ms`, even if nothing is written. Most
partitions of its session have not changed since the last answer. The broker does not read these partitions again, and
leaves them out of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from klamm.broker.partitions.fetch_sessions import CachedPartition
    from klamm.broker.partitions.partition import Partition
    from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse
    from klamm.protocol.types import LeaderEpoch, Offset

__all__ = ["UnchangedRead", "has_no_news"]


class UnchangedRead(NamedTuple):
    """The state on which a read without news depended."""

    partition: Partition
    wanted: FetchPartition
    leader_epoch: LeaderEpoch
    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset

    @classmethod
    def of(cls, partition: Partition, wanted: FetchPartition) -> UnchangedRead:
        """Returns the present state of the partition."""
        state = partition.log.state
        return cls(
            partition,
            wanted,
            partition.leader_epoch,
            state.log_start_offset,
            state.high_watermark,
            state.log_end_offset,
        )

    def still_holds(self, partition: Partition | None, wanted: FetchPartition) -> bool:
        """Returns whether a read of the partition would have the same answer again."""
        if partition is not self.partition or wanted is not self.wanted:
            return False
        state = partition.log.state
        return (
            state.log_end_offset == self.log_end_offset
            and state.high_watermark == self.high_watermark
            and state.log_start_offset == self.log_start_offset
            and state.offline_reason is None
            and partition.leader_epoch == self.leader_epoch
            and partition.leads
        )


def has_no_news(cached: CachedPartition, response: FetchPartitionResponse) -> bool:
    """Returns whether the session's client knows everything that the answer says."""
    return (
        not response.error_code
        and not response.records
        and response.diverging_epoch is None
        and response.preferred_read_replica < 0
        and response.high_watermark == cached.high_watermark
        and response.log_start_offset == cached.log_start_offset
        and not cached.lacks(response)
    )
