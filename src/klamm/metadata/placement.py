"""Chooses the brokers for a new partition: spread over the brokers and their racks, or as the client requested.

Rules and messages are from `ReplicationControlManager` and `StripedReplicaPlacer` of Apache Kafka 4.3. The replicas of
a partition lie on as many racks as there are. As in Kafka's placer, two partitions with the same leader have different
followers if there are enough brokers, so that the work of a broker that has gone falls on several others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

from klamm.metadata.cordoned import is_cordoned
from klamm.metadata.image import MetadataImage
from klamm.metadata.replicas.replica_rules import may_lead
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId

__all__ = ["check_assignment", "place"]

_MAXIMUM_REPLICAS: Final = 10_000


def place(image: MetadataImage, partitions: range, replication_factor: int, shift: int) -> list[tuple[BrokerId, ...]]:
    """Returns the replicas of each of `partitions`, the preferred leader first, with leaders spread evenly over the
    brokers.

    A cordoned broker gets no replica. A broker that is not live, or is about to stop, leads nothing, and gets a replica
    only if its rack has no other broker for it. `shift` moves the first leader, so that topics with few partitions do
    not all lie on the lowest broker. Raises INVALID_REPLICATION_FACTOR if there are not enough brokers.
    """
    racks = {
        broker_id: broker.rack or ""
        for broker_id, broker in image.registrations.items()
        if not is_cordoned(image, broker_id)
    }
    leaders = {broker_id: rack for broker_id, rack in racks.items() if may_lead(image, broker_id)}
    if not leaders:
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if replication_factor > len(racks):
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {len(racks)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    ordered = _by_turns(leaders)
    spare = _by_turns({broker_id: rack for broker_id, rack in racks.items() if broker_id not in leaders})
    return [_replicas(ordered, spare, racks, shift + index, replication_factor) for index in partitions]


def _by_turns(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Returns the brokers ordered so that neighbours lie in different racks, as far as possible."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    in_turns = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker_id for turn in in_turns for broker_id in turn if broker_id is not None]


def _replicas(
    ordered: Sequence[BrokerId],
    spare: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    turn: int,
    replication_factor: int,
) -> tuple[BrokerId, ...]:
    """Returns the replicas of one partition. `spare` brokers have their turn after those that are `ordered`."""
    round_number, place_of_leader = divmod(turn, len(ordered))
    leader = ordered[place_of_leader]
    others = [*ordered[place_of_leader + 1 :], *ordered[:place_of_leader]]
    if others:
        # Each round over all leaders begins with another follower.
        first = round_number % len(others)
        others = [*others[first:], *others[:first]]
    others += spare
    chosen = [leader]
    used = {racks[leader]}
    while len(chosen) < replication_factor:
        broker_id = next((each for each in others if racks[each] not in used), None)
        if broker_id is None:
            used.clear()  # every rack has a replica: another turn over the racks
            broker_id = others[0]
        others.remove(broker_id)
        chosen.append(broker_id)
        used.add(racks[broker_id])
    return tuple(chosen)


def check_assignment(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None, index: int
) -> tuple[BrokerId, ...]:
    """Returns the replicas that a client requested for partition `index`. Raises INVALID_REPLICA_ASSIGNMENT if they are
    invalid.

    Brokers must be registered and not cordoned, and one of them must be live. `replication_factor` is that of the
    topic's other partitions, None for the first.
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
        if is_cordoned(image, BrokerId(broker)):
            raise refuse(f"broker {broker}, but all its log directories are cordoned.")
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
