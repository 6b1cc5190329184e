"""The assignor `klamm-exclusive`: the oldest member of a group owns all partitions, the others stand by. No I/O.

To tools the group looks like a group of consumers: metadata and assignment have the form of Kafka's consumer protocol,
so that the owner is shown with its partitions. klamm's own data are in their user data. Every assignment has user data:
a coordinator does not convert a group with such assignments to the new consumer protocol (KIP-848), whose assignor does
not know the exclusive right (`ConsumerGroup.fromClassicGroup` in Kafka).

A member's age is the first generation that it joined. The coordinator counts the generations, so that no clocks are
compared. Members of the same age are ordered by their ids.
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

__all__ = ["ASSIGNOR", "MemberData", "assign", "encode_member_data", "owner_in"]

ASSIGNOR: Final = "klamm-exclusive"
_NEWCOMER: Final = -1


@dataclass(frozen=True, slots=True)
class MemberData:
    """The data that a member sends to the leader."""

    application_id: str
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions that the member reads, or would read as the owner."""
    since_generation: int = _NEWCOMER
    """The first generation that the member joined; -1 before that."""


def encode_member_data(data: MemberData) -> bytes:
    """Encodes a member's metadata for JoinGroup."""
    by_topic = _by_topic(data.partitions)
    content = {"application": data.application_id, "since": data.since_generation, "partitions": by_topic}
    return encode_subscription(ConsumerProtocolSubscription(topics=sorted(by_topic), user_data=_to_json(content)))


def assign(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the assignment of each member, from the metadata of all members by member id."""
    all_data = {member_id: _decode_member_data(metadata) for member_id, metadata in members.items()}
    owner = min(all_data, key=lambda member_id: (_rank(all_data[member_id].since_generation), member_id))
    user_data = _to_json({"assignor": ASSIGNOR, "owner": owner})
    return {
        member_id: encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=[
                    AssignedTopic(topic=topic, partitions=partitions)
                    for topic, partitions in _by_topic(data.partitions if member_id == owner else ()).items()
                ],
                user_data=user_data,
            )
        )
        for member_id, data in all_data.items()
    }


def owner_in(assignment: bytes) -> str | None:
    """Returns the owner's member id in an assignment; None for an assignment by another assignor."""
    try:
        content = _from_json(decode_assignment(assignment).user_data)
    except MalformedMessage:
        return None
    owner = content.get("owner")
    return owner if content.get("assignor") == ASSIGNOR and isinstance(owner, str) else None


def _rank(since_generation: int) -> float:
    return since_generation if since_generation >= 0 else float("inf")


def _decode_member_data(metadata: bytes) -> MemberData:
    """Decodes a member's metadata. A member with malformed metadata counts as the youngest and reads nothing."""
    try:
        content = _from_json(decode_subscription(metadata).user_data)
        return MemberData(
            application_id=str(content.get("application", "")),
            partitions=frozenset(
                TopicPartition(topic, PartitionIndex(int(partition)))
                for topic, partitions in content.get("partitions", {}).items()
                for partition in partitions
            ),
            since_generation=int(content.get("since", _NEWCOMER)),
        )
    except (MalformedMessage, ValueError, TypeError, AttributeError):
        return MemberData("")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(int(partition))
    return by_topic


def _to_json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def _from_json(data: bytes | memoryview | None) -> dict[str, Any]:
    try:
        content = json.loads(bytes(data or b""))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
