"""Decides how far the high watermark of a partition rises: the offset below which every record is committed.

A record is committed when every in-sync replica holds it. The rule is independent of the meaning of "holds": the caller
passes one offset for each in-sync replica. Up to that offset the replica holds the records.

- Written: the log end offset. The record is in the log of the replica, but may not be on its disk (`klamm.fsync=os` and
  `interval`).
- Synced: the offset up to which the log is on the disk (`klamm.fsync=ack`).
- A later kind of topic, whose records are in an object store, passes the offset up to which its objects are durable.

For a follower, the offset is the fetch offset of its last Fetch. While a change of the in-sync replicas is in progress,
the caller passes the followers of both the old and the new set (KIP-497).

Source: `Partition.maybeIncrementLeaderHW` and `isUnderMinIsr` of Apache Kafka 4.0, and KIP-966 for the second one.
"""

from __future__ import annotations

from collections.abc import Collection

from klamm.protocol.types import Offset

__all__ = ["next_high_watermark"]


def next_high_watermark(
    current: Offset,
    leader_offset: Offset,
    follower_offsets: Collection[Offset],
    in_sync_replicas: int,
    min_in_sync_replicas: int,
) -> Offset:
    """Returns the new high watermark, which is never lower than `current` (I5).

    `leader_offset` and `follower_offsets` say how far the leader and the other in-sync replicas hold the records.
    `in_sync_replicas` counts the committed in-sync replicas, including the leader. With fewer of them than
    `min_in_sync_replicas` the high watermark stands still: those records may be lost with the next failure.
    """
    if in_sync_replicas < min_in_sync_replicas:
        return current
    held = leader_offset
    for offset in follower_offsets:
        held = min(held, offset)
    # Each append comes here: `max` would cost.
    return held if held > current else current
