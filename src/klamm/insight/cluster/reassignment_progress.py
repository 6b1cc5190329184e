"""How far reassignments came: what the added replicas still have to copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from klamm.insight.cluster.moving_partitions import Moving, reassignments_in_progress
from klamm.insight.cluster.replica_positions import PartitionPositions, replica_positions
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.partition_states import PartitionState, partition_states
from klamm.insight.words import PartitionKey

__all__ = ["MoveProgress", "moves_in_progress"]


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """A partition that moves, and how far its added replicas came."""

    moving: Moving
    lag: int | None
    """The offsets that the added replicas are behind the leader, in sum; None if one of them is not known."""
    copied_bytes: int
    """The bytes of the added replicas."""
    size_bytes: int | None
    """The bytes that the added replicas will have, as the leader has them now; None if the leader does not tell it."""


def moves_in_progress(
    requests: ClusterRequests, keys: Collection[PartitionKey] | None = None
) -> dict[PartitionKey, MoveProgress]:
    """Returns the reassignments in progress among these partitions, or all. Raises ClusterError."""
    moving = {key: each for key, each in reassignments_in_progress(requests).items() if keys is None or key in keys}
    topics = partition_states(requests, {topic for topic, _ in moving}, leaves_out_missing=True)
    states = {state.key: state for topic in topics.values() for state in topic.partitions if state.key in moving}
    positions = replica_positions(requests, states.values())
    return {key: _progress(each, states, positions) for key, each in moving.items() if key in states}


def _progress(
    moving: Moving, states: Mapping[PartitionKey, PartitionState], positions: Mapping[PartitionKey, PartitionPositions]
) -> MoveProgress:
    leader = states[moving.key].leader
    known = positions[moving.key]
    added = [known.of(broker) for broker in moving.adding]
    lags = [each.lag if each is not None else None for each in added]
    source = known.of(leader) if leader is not None else None
    return MoveProgress(
        moving,
        None if None in lags else sum(lag for lag in lags if lag is not None),
        sum(each.size_bytes or 0 for each in added if each is not None),
        None if source is None or source.size_bytes is None else source.size_bytes * len(moving.adding),
    )
