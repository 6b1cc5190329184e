"""Tests heartbeats in the dispatcher: a cached answer equals the real answer and goes to the same member only."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.support.event_loop import in_loop
from tests.unit.broker.handlers.group_broker import GroupBroker
from tests.unit.broker.handlers.test_membership_handlers import joined

from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.handlers import sync_group
from klamm.broker.network.dispatch import Dispatcher
from klamm.broker.time_slices import InSteps
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.headers import encode_request_header
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "orders"


class Wire:
    """A dispatcher with a group coordinator, and clients that send frames."""

    def __init__(self) -> None:
        self.broker = GroupBroker()
        self.groups = self.broker.world.coordinator
        self.dispatcher = Dispatcher(self.broker._context)
        self.decided = 0
        submit = self.groups._runtime.submit

        def count(*arguments: Any, **options: Any) -> Any:
            self.decided += 1
            return submit(*arguments, **options)

        self.groups._runtime.submit = count  # type: ignore[method-assign]

    def send(
        self, request: Message, version: int, correlation_id: int, *, client_id: str = "app", host: str = "10.0.0.1"
    ) -> tuple[int, bool, bytes]:
        key = ApiKey(int(request.API_KEY or 0))
        frame = encode_request_header(key, version, correlation_id, client_id) + encode(request, version)
        answer = self.dispatcher.dispatch(ConnectionInfo(host, f"{host}:5", "here", 9092), memoryview(frame))
        assert answer is not None
        correlation_id, is_flexible, body = answer
        assert isinstance(body, list)
        return correlation_id, is_flexible, b"".join(body)


@pytest.fixture
def wire() -> Wire:
    return Wire()


def join(wire: Wire, version: int, host: str = "10.0.0.1") -> ConsumerGroupHeartbeatRequest:
    """Joins a member and returns its next heartbeat."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m" if version else "",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["events"],
        topic_partitions=[],
    )
    answer, _ = decode(ConsumerGroupHeartbeatResponse, version, wire.send(request, version, 1, host=host)[2])
    assert answer.error_code == ErrorCode.NONE
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=answer.member_id or "", member_epoch=answer.member_epoch
    )


@pytest.mark.parametrize("version", range(5))
def test_classic_heartbeat_is_repeated_in_its_version(wire: Wire, version: int) -> None:
    """The coordinator decides a repeated heartbeat once, and later answers differ only in the correlation id."""
    member = joined(wire.broker, 3)
    shares = [SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"a")]
    wire.broker.ask(
        sync_group, SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member.member_id, assignments=shares), 3
    )
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member.member_id)
    before = wire.decided
    answers = [wire.send(request, version, correlation_id) for correlation_id in (7, 8, 9)]
    assert answers == [(each, version >= 4, encode(HeartbeatResponse(), version)) for each in (7, 8, 9)]
    assert wire.decided == before + 1


@pytest.mark.parametrize("version", range(2))
def test_consumer_heartbeat_is_repeated_in_its_version(wire: Wire, version: int) -> None:
    """Each cached answer has the member, its epoch and the interval, and the coordinator decides once."""
    request = join(wire, version)
    before = wire.decided
    first, second, third = (wire.send(request, version, correlation_id) for correlation_id in (7, 8, 9))
    assert (first[0], second[0], third[0]) == (7, 8, 9)
    assert first[1:] == second[1:] == third[1:]
    answer, _ = decode(ConsumerGroupHeartbeatResponse, version, third[2])
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, request.member_id, request.member_epoch)
    assert wire.decided == before + 1


def test_nothing_is_repeated_to_others(wire: Wire) -> None:
    """A different client id, address, version or epoch gets no cached answer; the coordinator decides each."""
    request = join(wire, 1)
    wire.send(request, 1, 2)
    before = wire.decided
    wire.send(request, 1, 3, client_id="another")
    wire.send(request, 1, 4, host="10.0.0.2")
    wire.send(request, 0, 5)
    request.member_epoch += 1
    answer, _ = decode(ConsumerGroupHeartbeatResponse, 1, wire.send(request, 1, 6)[2])
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert wire.decided == before + 4


@pytest.mark.parametrize(
    "frame", [b"", b"\x00", b"\x00\x0c", b"\x00\x0c\x00\x04\x00\x00\x00", b"\x01\x0c\x00\x04" + bytes(12)]
)
def test_broken_heartbeats_are_refused_as_before(wire: Wire, frame: bytes) -> None:
    """A heartbeat that is too short or has another API key is refused as malformed."""
    with pytest.raises(MalformedMessage):
        wire.dispatcher.dispatch(ConnectionInfo("10.0.0.1", "10.0.0.1:5", "here", 9092), memoryview(frame))


@in_loop
async def test_first_large_request_of_an_api_waits_for_its_turn() -> None:
    """The first large request of an API waits for its turn, because importing its handler takes long."""
    broker = GroupBroker()
    dispatcher = Dispatcher(broker._context)
    keys = [f"group-{number}" for number in range(1000)]
    request = FindCoordinatorRequest(key_type=9, coordinator_keys=keys)
    frame = encode_request_header(ApiKey.FIND_COORDINATOR, 4, 1, "app") + encode(request, 4)
    connection = ConnectionInfo("10.0.0.1", "10.0.0.1:5", "here", 9092)
    bodies = []
    for _ in range(2):
        answer = dispatcher.dispatch(connection, memoryview(frame))
        assert answer is not None
        assert isinstance(answer[2], InSteps)
        bodies.append(answer[2])
    assert not dispatcher._routes
    for body in bodies:
        parts = await body
        assert parts is not None
        found, _ = decode(FindCoordinatorResponse, 4, b"".join(parts))
        assert [each.key for each in found.coordinators] == keys


@pytest.mark.parametrize("api_key", [-1, int(ApiKey.PUSH_TELEMETRY), 1000])
def test_api_that_is_not_served_ends_the_connection(wire: Wire, api_key: int) -> None:
    """A request of an API that is not served is malformed and ends the connection, since no version of an answer
    exists."""
    frame = struct.pack(">hhihb", api_key, 0, 1, -1, 0)
    with pytest.raises(MalformedMessage, match="is not served"):
        wire.dispatcher.dispatch(ConnectionInfo("10.0.0.1", "10.0.0.1:5", "here", 9092), memoryview(frame))
