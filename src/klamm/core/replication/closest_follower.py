"""Chooses the follower from which a consumer should read: one in the consumer's rack (KIP-392).

Source: `ReplicaManager.findPreferredReadReplica` and `RackAwareReplicaSelector` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from klamm.core.replication.follower_progress import FollowerProgress
from klamm.protocol.types import BrokerId, Offset

__all__ = ["closest_follower"]


def closest_follower(
    rack: str,
    rack_of: Callable[[BrokerId], str | None],
    leader: BrokerId,
    in_sync: Mapping[BrokerId, FollowerProgress],
    fetch_offset: Offset,
) -> BrokerId | None:
    """Returns the in-sync follower in `rack` that holds `fetch_offset` and has copied most; None for the leader.

    The leader is the choice if it is in the rack itself, or if no such follower is. A follower that is not in sync may
    fall behind for as long as consumers read from it, so it is never chosen. `rack_of` returns None for a broker that
    has no rack, or that the consumer can't reach.
    """
    if rack_of(leader) == rack:
        return None
    holding = [
        (progress.end_offset, progress.caught_up_ms, broker_id)
        for broker_id, progress in in_sync.items()
        if progress.log_start_offset <= fetch_offset <= progress.end_offset and rack_of(broker_id) == rack
    ]
    return max(holding)[2] if holding else None
