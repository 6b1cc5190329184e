"""Requests of classic consumers with a share of one topic, and a classic group to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver

from klamm.core.group.classic.group_state import GroupState
from klamm.protocol.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.consumer_protocol_subscription import TopicPartition as Owned
from klamm.protocol.schema.join_group_response import JoinGroupResponse

__all__ = ["assignment", "classic_pair", "joined", "protocols", "synced"]


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    """Returns an encoded assignment, as a leader sends it for a member."""
    topics = [TopicPartition(topic=EVENTS, partitions=list(partitions))] if partitions else []
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data))


def protocols(
    *has: int, names: Sequence[str] = (EVENTS,), protocol: str = "range", rack: str | None = None
) -> list[tuple[str, bytes]]:
    """Returns the protocols of a JoinGroup request from a member that owns these partitions."""
    said = ConsumerProtocolSubscription(
        topics=list(names), owned_partitions=[Owned(topic=EVENTS, partitions=list(has))] if has else [], rack_id=rack
    )
    return [(protocol, encode_subscription(said))]


def classic_pair(driver: ConsumerDriver, **join: Any) -> list[str]:
    """Creates a stable classic group of two members with three partitions each; returns the ids, the leader first."""
    ids = [driver.member_id(protocols=protocols(), **join) for _ in range(2)]
    tickets = [driver.join(member_id, protocols=protocols(), **join) for member_id in ids]
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    assert [driver.joined(ticket).generation_id for ticket in tickets] == [1, 1]
    driver.sync(ids[0], 1, {ids[0]: assignment(0, 1, 2), ids[1]: assignment(3, 4, 5)})
    driver.sync(ids[1], 1)
    assert driver.state() is GroupState.STABLE
    return ids


def joined(driver: ConsumerDriver, member_id: str, *has: int, **join: Any) -> JoinGroupResponse:
    """Sends a JoinGroup request of a classic member that owns these partitions, and returns the answer."""
    return driver.joined(driver.join(member_id, protocols=protocols(*has), **join))


def synced(driver: ConsumerDriver, member_id: str, generation: int) -> dict[str, list[int]]:
    """Sends a SyncGroup request, and returns the assignment by topic."""
    answer = driver.synced(driver.sync(member_id, generation))
    assert answer.error_code == ErrorCode.NONE
    message = decode_assignment(answer.assignment)
    return {topic.topic: list(topic.partitions) for topic in message.assigned_partitions}
