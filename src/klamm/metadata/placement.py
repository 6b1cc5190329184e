"""Chooses the brokers for a new partition: spread over the live brokers, or as the client requested.

Rules and messages are from `ReplicationControlManager` and `StripedReplicaPlacer` of Apache Kafka 4.3. Racks are
ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from klamm.metadata.image import MetadataImage
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId

__all__ = ["check_assignment", "place"]

_MAXIMUM_REPLICAS: Final = 10_000


def place(
    brokers: Collection[BrokerId], partitions: range, replication_factor: int, shift: int
) -> list[tuple[BrokerId, ...]]:
    """Returns the replicas of each of `partitions`, the preferred leader first, with leaders spread evenly over the
    brokers.

    `shift` moves the first leader, so that topics with few partitions do not all lie on the lowest broker. Raises
    INVALID_REPLICATION_FACTOR if there are not enough brokers.
    """
    if not brokers:
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if replication_factor > len(brokers):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    ordered = sorted(brokers)
    return [
        tuple(ordered[(shift + index + copy) % len(ordered)] for copy in range(replication_factor))
        for index in partitions
    ]


def check_assignment(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None, index: int
) -> tuple[BrokerId, ...]:
    """Returns the replicas that a client requested for partition `index`. Raises INVALID_REPLICA_ASSIGNMENT if they are
    invalid.

    Brokers must be registered, and one of them must be live. `replication_factor` is that of the topic's other
    partitions, None for the first.
    """
    brokers = image.registrations

    def refuse(reason: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {reason}")

    if not replicas:
        raise refuse("an empty replica list.")
    if len(replicas) > _MAXIMUM_REPLICAS:  # sorting would be slow
        raise refuse(f"{len(replicas)} brokers, but there are only {len(brokers)}.")
    ordered = sorted(replicas)
    for position, broker in enumerate(ordered):
        if broker not in brokers:
            raise refuse(f"broker {broker}, but no such broker is registered.")
        if position and broker == ordered[position - 1]:
            raise refuse(f"the broker {broker} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise refuse(
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )
    if not any(broker in image.brokers for broker in replicas):
        reason = (
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return tuple(BrokerId(broker) for broker in replicas)
