"""Ten thousand groups of one member each, created over the wire, and the heartbeats that keep them alive.

A client for each would need tens of thousands of threads. Here a few connections speak for all of them, which the
broker can't distinguish from as many clients behind a proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.wire import Connection, find_coordinators, frame
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

__all__ = ["Heartbeats", "MakeGroups", "make_classic_groups", "make_consumer_groups"]

A = TypeVar("A", JoinGroupResponse, SyncGroupResponse, ConsumerGroupHeartbeatResponse)


class Heartbeats(NamedTuple):
    """The heartbeats of groups by coordinator: the addresses, and a file with frames for each, separated by commas."""

    addresses: str
    files: str


MakeGroups = Callable[[str, str, int, Path], Heartbeats]
"""Takes the address of a broker, the topic, the number of groups, and a new folder for the files."""
_Make = Callable[[Connection, str, Sequence[str]], bytes]
"""Makes groups of one coordinator, and returns their heartbeats as frames."""

_JOIN_VERSION = 3
"""The last version in which a member without an id joins at once."""
_SYNC_VERSION = 2
_HEARTBEAT_VERSION = 3
_CONSUMER_HEARTBEAT_VERSION = 1


def make_classic_groups(bootstrap_servers: str, topic: str, count: int, folder: Path) -> Heartbeats:
    """Creates the groups with JoinGroup and SyncGroup."""
    return _make_at_coordinators(bootstrap_servers, topic, count, folder, _classic_groups)


def make_consumer_groups(bootstrap_servers: str, topic: str, count: int, folder: Path) -> Heartbeats:
    """Creates the groups with the consumer protocol of KIP-848."""
    return _make_at_coordinators(bootstrap_servers, topic, count, folder, _consumer_groups)


def _make_at_coordinators(bootstrap_servers: str, topic: str, count: int, folder: Path, make: _Make) -> Heartbeats:
    folder.mkdir()
    files = []
    coordinators = find_coordinators(bootstrap_servers, [f"group-{number}" for number in range(count)])
    for number, (address, names) in enumerate(coordinators.items()):
        with Connection(address) as connection:
            frames = make(connection, topic, names)
        path = folder / str(number)
        path.write_bytes(frames)
        files.append(str(path))
    return Heartbeats(",".join(coordinators), ",".join(files))


def _classic_groups(connection: Connection, topic: str, names: Sequence[str]) -> bytes:
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=[topic]), 0)
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
    return _frames(
        _HEARTBEAT_VERSION,
        (
            HeartbeatRequest(group_id=name, member_id=member_id, generation_id=generation)
            for name, member_id, generation in members
        ),
    )


def _consumer_groups(connection: Connection, topic: str, names: Sequence[str]) -> bytes:
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
    return _frames(
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


def _frames(version: int, requests: Iterable[Message]) -> bytes:
    return b"".join(frame(version, request) for request in requests)
