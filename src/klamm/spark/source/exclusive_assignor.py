"""The assignor `klamm-exclusive`: the oldest member of a group owns everything, the others stand by. Pure.

The group is one of consumers as far as tools are concerned: metadata and assignment are those of Kafka's consumer
protocol, so that the owner is shown with its partitions. What is ours is in their user data. Every assignment has some:
a coordinator does not turn a group with such assignments into one of the new consumer protocol (KIP-848), whose
assignor would know nothing of the exclusive right (`ConsumerGroup.fromClassicGroup` in Kafka).

A member's age is the generation in which it first took part; the coordinator counts those, so that no clocks are
compared. Members of the same age are ranked by their ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.protocol.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment
from klamm.protocol.schema.consumer_protocol_assignment import TopicPartition as AssignedTopic
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.types import PartitionIndex, TopicPartition

__all__ = ["ASSIGNOR", "Standing", "assign", "encode_standing", "owner_in"]

ASSIGNOR: Final = "klamm-exclusive"
_NEWCOMER: Final = -1


@dataclass(frozen=True, slots=True)
class Standing:
    """What a member tells the leader of itself."""

    application_id: str
    partitions: frozenset[TopicPartition] = frozenset()
    """What it reads, or would read."""
    since_generation: int = _NEWCOMER
    """The generation in which it first took part; -1 for one that has not yet."""


def encode_standing(standing: Standing) -> bytes:
    """A member's metadata in JoinGroup."""
    by_topic = _by_topic(standing.partitions)
    said = {"application": standing.application_id, "since": standing.since_generation, "partitions": by_topic}
    return encode_subscription(ConsumerProtocolSubscription(topics=sorted(by_topic), user_data=_to_json(said)))


def assign(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """From the metadata of all members, by member id, the assignment of each."""
    standings = {member_id: _decode_standing(metadata) for member_id, metadata in members.items()}
    owner = min(standings, key=lambda member_id: (_rank(standings[member_id].since_generation), member_id))
    user_data = _to_json({"assignor": ASSIGNOR, "owner": owner})
    return {
        member_id: encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=[
                    AssignedTopic(topic=topic, partitions=partitions)
                    for topic, partitions in _by_topic(standing.partitions if member_id == owner else ()).items()
                ],
                user_data=user_data,
            )
        )
        for member_id, standing in standings.items()
    }


def owner_in(assignment: bytes) -> str | None:
    """The member id of the owner in an assignment of this assignor; None for one that is not of it."""
    try:
        said = _from_json(decode_assignment(assignment).user_data)
    except MalformedMessage:
        return None
    owner = said.get("owner")
    return owner if said.get("assignor") == ASSIGNOR and isinstance(owner, str) else None


def _rank(since_generation: int) -> float:
    return since_generation if since_generation >= 0 else float("inf")


def _decode_standing(metadata: bytes) -> Standing:
    """What a member said; one that can't be understood counts as the youngest and reads nothing."""
    try:
        said = _from_json(decode_subscription(metadata).user_data)
        return Standing(
            application_id=str(said.get("application", "")),
            partitions=frozenset(
                TopicPartition(topic, PartitionIndex(int(partition)))
                for topic, partitions in said.get("partitions", {}).items()
                for partition in partitions
            ),
            since_generation=int(said.get("since", _NEWCOMER)),
        )
    except (MalformedMessage, ValueError, TypeError, AttributeError):
        return Standing("")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(int(partition))
    return by_topic


def _to_json(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":"), sort_keys=True).encode()


def _from_json(data: bytes | memoryview | None) -> dict[str, Any]:
    try:
        said = json.loads(bytes(data or b""))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
