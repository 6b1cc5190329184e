"""Decides which followers of a partition are in sync: for how long a slow one stays, and when a new one may join.

The leader proposes a change of the in-sync replicas to the metadata, which accept it or not. From the proposal until
its outcome is known, the high watermark waits for the replicas of both sets (`maximal`, KIP-497). Otherwise a record
could be committed that a replica lacks although the metadata count it as in sync, and therefore elect it.

Source: `Partition.maybeExpandIsr`, `maybeShrinkIsr` and `isReplicaIsrEligible` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.core.replication.follower_progress import FollowerProgress
from klamm.protocol.types import BrokerId, Offset

__all__ = ["is_eligible", "may_join", "maximal", "out_of_sync"]


def maximal(committed: Iterable[BrokerId], proposed: Iterable[BrokerId] | None) -> frozenset[BrokerId]:
    """Returns the replicas for which the high watermark waits: the committed ones, and those of a proposal whose
    outcome is not known.
    """
    return frozenset(committed) if proposed is None else frozenset((*committed, *proposed))


def is_eligible(progress: FollowerProgress, live_epoch: int | None) -> bool:
    """Returns whether a follower may be in sync: it is live, and it is the run of its broker that has fetched
    (KIP-903).

    `live_epoch` is the epoch of the broker's present run; None if it is not live, or is about to stop (KIP-841).
    """
    return live_epoch is not None and live_epoch == progress.broker_epoch


def may_join(
    progress: FollowerProgress, live_epoch: int | None, high_watermark: Offset, epoch_start_offset: Offset
) -> bool:
    """Returns whether a follower that is not in sync holds enough to become so.

    It must hold every committed record, and every record that the log had when the leader was elected: the high
    watermark of a new leader may be lower than the one that clients have seen.
    """
    return (
        is_eligible(progress, live_epoch)
        and progress.end_offset >= high_watermark
        and progress.end_offset >= epoch_start_offset
    )


def out_of_sync(
    followers: Mapping[BrokerId, FollowerProgress],
    in_sync: Iterable[BrokerId],
    leader_end_offset: Offset,
    now_ms: float,
    max_lag_ms: float,
) -> list[BrokerId]:
    """Returns the in-sync followers that have not held the whole log for longer than `max_lag_ms`."""
    return [
        broker_id
        for broker_id in in_sync
        if broker_id in followers and not followers[broker_id].is_caught_up(leader_end_offset, now_ms, max_lag_ms)
    ]
