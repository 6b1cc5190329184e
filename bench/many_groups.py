"""Ten thousand groups of one member each, created over the wire, and the heartbeats that keep them alive.

A client for each would need tens of thousands of threads. Here a few connections speak for all of them, which the
broker can't distinguish from as many clients behind a proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from bench.wire import Connection, frame, wait_for_coordinator
from klamm.protocol.codec import Message
from klamm.protocol.consumer_protocol import encode_subscription
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.schema.sync_group_response import SyncGroupResponse

__all__ = ["MakeGroups", "make_classic_groups", "make_consumer_groups"]

A = TypeVar("A", JoinGroupResponse, SyncGroupResponse, ConsumerGroupHeartbeatResponse)
MakeGroups = Callable[[str, str, int, Path], None]
"""Takes the address, the topic, the number of groups, and the file for the heartbeats."""

_JOIN_VERSION = 3
"""The last version in which a member without an id joins at once."""
_SYNC_VERSION = 2
_HEARTBEAT_VERSION = 3
_CONSUMER_HEARTBEAT_VERSION = 1


def make_classic_groups(bootstrap_servers: str, topic: str, count: int, heartbeats: Path) -> None:
    """Creates the groups with JoinGroup and SyncGroup, and writes a heartbeat for each into a file, as frames."""
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=[topic]), 0)
    names = [f"group-{number}" for number in range(count)]
    with Connection(bootstrap_servers) as connection:
        wait_for_coordinator(connection)
        joined = connection.ask_all(
            JoinGroupResponse,
            _JOIN_VERSION,
            (
                JoinGroupRequest(
                    group_id=name,
                    session_timeout_ms=300_000,
                    rebalance_timeout_ms=300_000,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
                )
                for name in names
            ),
        )
        members = [
            (name, _checked(answer).member_id, answer.generation_id) for name, answer in zip(names, joined, strict=True)
        ]
        synced = connection.ask_all(
            SyncGroupResponse,
            _SYNC_VERSION,
            (
                SyncGroupRequest(
                    group_id=name,
                    member_id=member_id,
                    generation_id=generation,
                    assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=subscription)],
                )
                for name, member_id, generation in members
            ),
        )
        for answer in synced:
            _checked(answer)
    _write(
        heartbeats,
        _HEARTBEAT_VERSION,
        (
            HeartbeatRequest(group_id=name, member_id=member_id, generation_id=generation)
            for name, member_id, generation in members
        ),
    )


def make_consumer_groups(bootstrap_servers: str, topic: str, count: int, heartbeats: Path) -> None:
    """Creates the groups with the consumer protocol of KIP-848, and writes a heartbeat for each into a file."""
    names = [f"group-{number}" for number in range(count)]
    with Connection(bootstrap_servers) as connection:
        wait_for_coordinator(connection)
        joined = connection.ask_all(
            ConsumerGroupHeartbeatResponse,
            _CONSUMER_HEARTBEAT_VERSION,
            (
                ConsumerGroupHeartbeatRequest(
                    group_id=name,
                    member_id=f"member-of-{name}",
                    member_epoch=0,
                    rebalance_timeout_ms=300_000,
                    subscribed_topic_names=[topic],
                    topic_partitions=[],
                )
                for name in names
            ),
        )
        members = [
            (name, _checked(answer).member_id, answer.member_epoch) for name, answer in zip(names, joined, strict=True)
        ]
    _write(
        heartbeats,
        _CONSUMER_HEARTBEAT_VERSION,
        (
            ConsumerGroupHeartbeatRequest(group_id=name, member_id=str(member_id), member_epoch=epoch)
            for name, member_id, epoch in members
        ),
    )


def _checked(answer: A) -> A:
    code: int = answer.error_code
    if code:
        raise RuntimeError(f"a group could not be made: error {code} in {type(answer).__name__}")
    return answer


def _write(path: Path, version: int, requests: Iterable[Message]) -> None:
    path.write_bytes(b"".join(frame(version, request) for request in requests))
