"""Chooses the brokers for a new partition: spread over the live brokers and their racks, or as the client requested.

Rules and messages are from `ReplicationControlManager` and `StripedReplicaPlacer` of Apache Kafka 4.3. The replicas of
a partition lie on as many racks as there are. As in Kafka's placer, two partitions with the same leader have different
followers if there are enough brokers, so that the work of a broker that has gone falls on several others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

from klamm.metadata.image import MetadataImage
from klamm.metadata.replicas.replica_rules import may_lead
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId

__all__ = ["check_assignment", "place"]

_MAXIMUM_REPLICAS: Final = 10_000


def place(
    brokers: Mapping[BrokerId, str | None], partitions: range, replication_factor: int, shift: int
) -> list[tuple[BrokerId, ...]]:
    """Returns the replicas of each of `partitions`, the preferred leader first, with leaders spread evenly over the
    brokers.

    `brokers`: the rack of each broker that may be used. `shift` moves the first leader, so that topics with few
    partitions do not all lie on the lowest broker. Raises INVALID_REPLICATION_FACTOR if there are not enough brokers.
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
    ordered = _by_turns(brokers)
    return [_replicas(ordered, brokers, shift + index, replication_factor) for index in partitions]


def _by_turns(brokers: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """Returns the brokers ordered so that neighbours lie in different racks, as far as possible."""
    racks: dict[str, list[BrokerId]] = {}
    for broker_id in sorted(brokers):
        racks.setdefault(brokers[broker_id] or "", []).append(broker_id)
    in_turns = zip_longest(*(racks[rack] for rack in sorted(racks)))
    return [broker_id for turn in in_turns for broker_id in turn if broker_id is not None]


def _replicas(
    ordered: Sequence[BrokerId], racks: Mapping[BrokerId, str | None], turn: int, replication_factor: int
) -> tuple[BrokerId, ...]:
    count = len(ordered)
    round_number, place = divmod(turn, count)
    leader = ordered[place]
    # Each round over all leaders begins with another follower.
    first = round_number % (count - 1) if count > 1 else 0
    others = [ordered[(place + 1 + (first + step) % (count - 1)) % count] for step in range(count - 1)]
    chosen = [leader]
    used = {racks[leader] or ""}
    while len(chosen) < replication_factor:
        broker_id = next((each for each in others if (racks[each] or "") not in used), None)
        if broker_id is None:
            used.clear()  # every rack has a replica: another turn over the racks
            broker_id = others[0]
        others.remove(broker_id)
        chosen.append(broker_id)
        used.add(racks[broker_id] or "")
    return tuple(chosen)


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
    if not any(may_lead(image, BrokerId(broker)) for broker in replicas):
        reason = (
            f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
            "controlled shutdown."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return tuple(BrokerId(broker) for broker in replicas)
