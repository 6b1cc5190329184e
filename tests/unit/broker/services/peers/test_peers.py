"""Tests the connections to other brokers, with connections that the test answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from tests.support.event_loop import in_loop

from klamm.broker.services.peers import peers as peers_module
from klamm.broker.services.peers.peers import PeerConnection, Peers, PeerUnavailable, no_connection
from klamm.client.config import Address
from klamm.client.errors import AuthenticationFailed, ConnectionFailed
from klamm.metadata.image import BrokerImage, Endpoint, MetadataImage
from klamm.protocol.message import Message
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.types import BrokerId

OWN, OTHER = BrokerId(1), BrokerId(2)
ANSWER = HeartbeatResponse()


class Connection:
    """A connection whose requests wait until the test answers or closes it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_closed = False
        self.requests: list[asyncio.Future[Message]] = []

    async def request(self, request: Message, answer: type[Any], /) -> Any:
        self.requests.append(asyncio.get_running_loop().create_future())
        return await self.requests[-1]

    def close(self) -> None:
        self.is_closed = True
        for request in self.requests:
            if not request.done():
                request.set_exception(ConnectionFailed("closed"))


class World:
    """The peers of broker 1, with one other broker, and a network that the test controls."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.connections: list[Connection] = []
        self.refused = 0
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.is_refusing = False
        self.introduced: list[PeerConnection] = []
        self.is_believed = True
        self.peers = Peers(OWN, "BROKERS", lambda: self.image, self._open, client_id="test", introduce=self._introduce)
        self.show([broker(epoch=1)])

    async def _open(self, address: Address, client_id: str, /) -> PeerConnection:
        await self.may_open.wait()
        if self.is_refusing:
            self.refused += 1
            raise ConnectionFailed("refused")
        self.connections.append(Connection(address))
        return self.connections[-1]

    async def _introduce(self, connection: PeerConnection) -> None:
        self.introduced.append(connection)
        if not self.is_believed:
            raise AuthenticationFailed("no broker")

    def show(self, brokers: Iterable[BrokerImage]) -> None:
        """Makes these other brokers live."""
        old, self.image = self.image, MetadataImage(brokers={each.id: each for each in brokers})
        self.peers.on_metadata_update(old, self.image)

    def ask(self) -> asyncio.Task[HeartbeatResponse]:
        """Starts a request to the other broker."""
        return asyncio.ensure_future(self.peers.request(OTHER, HeartbeatRequest(), HeartbeatResponse))


def broker(*, epoch: int, listener: str = "BROKERS") -> BrokerImage:
    return BrokerImage(OTHER, "h", 1, None, epoch, {listener: Endpoint("other", epoch)}, f"run {epoch}")


async def settle() -> None:
    """Lets all tasks run until they wait for the test."""
    for _ in range(10):
        await asyncio.sleep(0)


@in_loop
async def test_requests_share_a_connection_to_the_listener_of_the_brokers() -> None:
    """Requests at the same time and later ones use one connection, to the listener through which brokers talk."""
    world = World()
    asked = [world.ask(), world.ask()]
    await settle()
    (connection,) = world.connections
    assert connection.address == ("other", 1)
    for request in connection.requests:
        request.set_result(ANSWER)
    assert await asyncio.gather(*asked) == [ANSWER, ANSWER]
    later = world.ask()
    await settle()
    connection.requests[-1].set_result(ANSWER)
    await later
    assert len(world.connections) == 1


@in_loop
async def test_each_connection_is_introduced_once_before_its_requests() -> None:
    """A connection whose introduction fails is closed, and its requests fail; the others are used afterwards."""
    world = World()
    world.is_believed = False
    with pytest.raises(PeerUnavailable, match="no broker"):
        await world.ask()
    (refused,) = world.connections
    assert refused.is_closed
    assert not refused.requests
    world.is_believed = True
    world.show([broker(epoch=2)])
    asked = [world.ask(), world.ask()]
    await settle()
    world.connections[1].requests[0].set_result(ANSWER)
    world.connections[1].requests[1].set_result(ANSWER)
    assert await asyncio.gather(*asked) == [ANSWER, ANSWER]
    assert world.introduced == world.connections


@in_loop
async def test_no_request_waits_for_a_broker_that_is_not_live() -> None:
    """A request to a broker that is not live, or lacks the listener, fails at once; no connection is tried."""
    world = World()
    for brokers in ([], [broker(epoch=1, listener="CLIENTS")]):
        world.show(brokers)
        assert not world.peers.is_reachable(OTHER)
        with pytest.raises(PeerUnavailable):
            await world.ask()
    assert not world.connections


@in_loop
async def test_a_broker_that_leaves_fails_its_requests() -> None:
    """When a broker stops to be live, its connection closes and the unanswered requests fail."""
    world = World()
    asked = world.ask()
    await settle()
    world.show([])
    with pytest.raises(PeerUnavailable, match="closed"):
        await asked
    assert world.connections[0].is_closed


@in_loop
async def test_a_broker_that_leaves_while_it_is_connected_to() -> None:
    """When a broker stops to be live before the connection is open, the waiting requests fail at once."""
    world = World()
    world.may_open.clear()
    asked = world.ask()
    await settle()
    world.show([])
    with pytest.raises(PeerUnavailable, match="is not live"):
        await asked


@in_loop
async def test_a_broker_that_starts_again_gets_a_new_connection() -> None:
    """A new incarnation of a broker is another peer: the old connection closes, requests go to the new address."""
    world = World()
    first = world.ask()
    await settle()
    world.show([broker(epoch=2)])
    with pytest.raises(PeerUnavailable):
        await first
    second = world.ask()
    await settle()
    assert [each.address for each in world.connections] == [("other", 1), ("other", 2)]
    world.connections[1].requests[0].set_result(ANSWER)
    assert await second == ANSWER


@in_loop
async def test_a_broker_that_is_about_to_stop_is_still_asked() -> None:
    """A clean stop is announced before it begins. Requests that are in flight are answered, and later ones use the same
    connection, until the broker is not live any more."""
    world = World()
    first = world.ask()
    await settle()
    world.show([broker(epoch=1)._replace(is_stopping=True, latest_run="run 1")])
    second = world.ask()
    await settle()
    (connection,) = world.connections
    assert not connection.is_closed
    for request in connection.requests:
        request.set_result(ANSWER)
    assert (await first, await second) == (ANSWER, ANSWER)


@in_loop
async def test_a_broken_connection_is_replaced() -> None:
    """After a connection broke, the next request opens a new one."""
    world = World()
    asked = world.ask()
    await settle()
    world.connections[0].close()
    with pytest.raises(PeerUnavailable):
        await asked
    again = world.ask()
    await settle()
    world.connections[1].requests[0].set_result(ANSWER)
    assert await again == ANSWER


@pytest.mark.parametrize(("backoff_s", "attempts"), [(3600.0, 1), (0.0, 2)])
def test_a_broker_that_can_not_be_reached_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch, backoff_s: float, attempts: int
) -> None:
    """While the back-off after a failed connection lasts, requests fail without another attempt."""
    monkeypatch.setattr(peers_module, "_FIRST_BACKOFF_S", backoff_s)

    async def scenario() -> None:
        world = World()
        world.is_refusing = True
        for _ in range(2):
            with pytest.raises(PeerUnavailable):
                await world.ask()
        assert world.refused == attempts

    asyncio.run(scenario())


@in_loop
async def test_one_request_that_is_cancelled_leaves_the_connection_to_the_others() -> None:
    """Cancelling a request that waits for the connection does not cancel the connection."""
    world = World()
    world.may_open.clear()
    cancelled, other = world.ask(), world.ask()
    await settle()
    cancelled.cancel()
    world.may_open.set()
    await settle()
    world.connections[0].requests[0].set_result(ANSWER)
    assert await other == ANSWER
    assert cancelled.cancelled()


@in_loop
async def test_unanswered_requests_are_limited() -> None:
    """A broker that does not answer costs a limited number of requests; further ones fail at once."""
    world = World()
    asked = [world.ask() for _ in range(peers_module._MAXIMUM_PENDING)]
    await settle()
    with pytest.raises(PeerUnavailable, match="unanswered"):
        await world.ask()
    world.peers.stop()
    assert all(isinstance(each, PeerUnavailable) for each in await asyncio.gather(*asked, return_exceptions=True))
    with pytest.raises(PeerUnavailable, match="stops"):
        await world.ask()


@in_loop
async def test_a_broker_without_a_network_has_no_connections() -> None:
    """The port of a broker without a network fails each request."""
    with pytest.raises(PeerUnavailable):
        await no_connection(("other", 1), "test")
