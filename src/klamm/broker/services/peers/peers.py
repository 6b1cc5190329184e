"""Requests of this broker to other brokers: one connection to each live broker, through a port.

`OpenPeerConnection` is the port: a real broker connects by TCP (`broker/network/peer_connections.py`), the simulator by
its own network. `Peers` decides when to connect, and when not to: a request to a broker that is not live, or that could
not be reached a moment ago, fails at once.

Users that must not delay each other have a `Peers` each, because a broker handles the requests of a connection one
after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from klamm.errors import KlammError
from klamm.protocol.message import Message

if TYPE_CHECKING:
    from klamm.client.config import Address
    from klamm.metadata.image import BrokerImage, MetadataImage
    from klamm.protocol.types import BrokerId

__all__ = ["OpenPeerConnection", "PeerConnection", "PeerUnavailable", "Peers", "no_connection"]

_logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

_FIRST_BACKOFF_S: Final = 0.05
"""Pause after the first failure in a row: Kafka's `reconnect.backoff.ms` between brokers."""
_LONGEST_BACKOFF_S: Final = 1.0
_MAXIMUM_PENDING: Final = 100
"""Requests to one broker that may be unanswered at a time. Their senders have at most a few."""


class PeerUnavailable(KlammError):
    """A request to another broker failed: it may or may not have been handled."""


class PeerConnection(Protocol):
    """An open connection to another broker. `klamm.client.aio.AsyncConnection` is one."""

    @property
    def is_closed(self) -> bool:
        """Whether the connection can't send any more."""

    async def request(self, request: Message, answer: type[M], /) -> M:
        """Sends a request in the highest version that both sides know, and returns its response.

        Raises a KlammError if the connection breaks, is closed, or does not answer within `request.timeout.ms`.
        """

    def close(self) -> None:
        """Closes the connection; its unanswered requests fail. Safe to call twice."""


class OpenPeerConnection(Protocol):
    """Opens connections to other brokers: the port to the network."""

    def __call__(self, address: Address, client_id: str, /) -> Awaitable[PeerConnection]:
        """Returns an open connection. Raises a KlammError if there is none in time."""


async def no_connection(address: Address, client_id: str, /) -> PeerConnection:
    """Opens no connection: the port of a broker that has no network. Raises PeerUnavailable."""
    raise PeerUnavailable(f"no connection to {address[0]}:{address[1]}: this broker has no network")


class Peers:
    """The other brokers, as seen by one sender of requests. Belongs to the event loop on which it is created.

    `image` returns the current metadata. `on_metadata_update` must be called with each change.
    """

    def __init__(
        self,
        node_id: BrokerId,
        listener_name: str,
        image: Callable[[], MetadataImage],
        open_connection: OpenPeerConnection,
        *,
        client_id: str,
        introduce: Callable[[PeerConnection], Awaitable[None]] | None = None,
    ) -> None:
        """Creates the peers. `listener_name` is the listener through which brokers talk.

        `introduce` is awaited with each new connection before its first request; its KlammError closes the connection.
        """
        self._node_id = node_id
        self._listener_name = listener_name
        self._image = image
        self._open_connection = open_connection
        self._client_id = client_id
        self._introduce = introduce
        self._peers: dict[BrokerId, _Peer] = {}
        self._is_stopped = False

    def is_reachable(self, broker_id: BrokerId) -> bool:
        """Returns whether a broker is live and has the listener through which brokers talk."""
        broker = self._image().brokers.get(broker_id)
        return broker is not None and broker.endpoint(self._listener_name) is not None

    async def request(self, broker_id: BrokerId, request: Message, answer: type[M]) -> M:
        """Sends a request to another broker and returns its response.

        Raises PeerUnavailable: at once for a broker that is not live, that could not be reached a moment ago, or that
        has too many unanswered requests; later if the connection fails, or if the broker stops to be live.
        """
        peer = self._find(broker_id)
        if peer.pending >= _MAXIMUM_PENDING:
            raise PeerUnavailable(f"{peer.pending} requests to broker {broker_id} are unanswered")
        peer.pending += 1
        try:
            connection = await peer.connection()
            return await connection.request(request, answer)
        except PeerUnavailable:
            raise
        except KlammError as error:
            raise PeerUnavailable(f"broker {broker_id}: {error}") from error
        finally:
            peer.pending -= 1

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Closes the connections to brokers that are not live any more, or that have started again."""
        if old.brokers is new.brokers:
            return
        for broker_id, peer in list(self._peers.items()):
            broker = new.brokers.get(broker_id)
            if broker is None or not self._is_same_run(broker, peer.broker):
                del self._peers[broker_id]
                peer.close("is not live" if broker is None else "has started again")

    def stop(self) -> None:
        """Closes all connections. Later requests fail."""
        self._is_stopped = True
        while self._peers:
            self._peers.popitem()[1].close("can't be asked: this broker stops")

    def _find(self, broker_id: BrokerId) -> _Peer:
        assert broker_id != self._node_id, "a broker has no connection to itself"
        if self._is_stopped:
            raise PeerUnavailable(f"broker {broker_id} can't be asked: this broker stops")
        broker = self._image().brokers.get(broker_id)
        if broker is None:
            raise PeerUnavailable(f"broker {broker_id} is not live")
        peer = self._peers.get(broker_id)
        if peer is not None and self._is_same_run(broker, peer.broker):
            return peer
        address = broker.endpoint(self._listener_name)
        if address is None:
            raise PeerUnavailable(f"broker {broker_id} has no listener {self._listener_name}")
        if peer is not None:
            peer.close("has started again")
        peer = self._peers[broker_id] = _Peer(broker, lambda: self._open(address))
        return peer

    def _is_same_run(self, broker: BrokerImage, other: BrokerImage) -> bool:
        # Other fields may change while the broker runs. One that is about to stop still answers.
        name = self._listener_name
        return (broker.epoch, broker.incarnation, broker.endpoint(name)) == (
            other.epoch,
            other.incarnation,
            other.endpoint(name),
        )

    async def _open(self, address: Address) -> PeerConnection:
        connection = await self._open_connection(address, self._client_id)
        if self._introduce is not None:
            try:
                await self._introduce(connection)
            except BaseException:
                connection.close()
                raise
        return connection


class _Peer:
    """The connection to one incarnation of a broker."""

    def __init__(self, broker: BrokerImage, open_connection: Callable[[], Awaitable[PeerConnection]]) -> None:
        self.broker = broker
        self.pending = 0
        self._open_connection = open_connection
        self._loop = asyncio.get_running_loop()
        self._connection: PeerConnection | None = None
        self._opening: asyncio.Task[PeerConnection] | None = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._not_before_s = 0.0
        self._gone: str | None = None

    async def connection(self) -> PeerConnection:
        """Returns the open connection, or opens one. Raises PeerUnavailable at once while the back-off lasts."""
        self._require_present()
        if self._connection is not None:
            if not self._connection.is_closed:
                return self._connection
            self._connection = None
        if self._opening is None:
            if self._loop.time() < self._not_before_s:
                raise PeerUnavailable(f"broker {self.broker.id} could not be reached a moment ago")
            self._opening = self._loop.create_task(self._open())
            self._opening.add_done_callback(_retrieve)
        opening = self._opening
        try:
            # Cancelling one waiting request must not cancel the connection for the others.
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                self._require_present()  # the peer has gone; the task of this request continues
            raise

    async def _open(self) -> PeerConnection:
        try:
            connection = await self._open_connection()
        except (KlammError, OSError) as error:
            self._not_before_s = self._loop.time() + self._backoff_s
            _logger.info("broker %d can't be reached, next attempt in %g s: %s", self.broker.id, self._backoff_s, error)
            self._backoff_s = min(2 * self._backoff_s, _LONGEST_BACKOFF_S)
            raise PeerUnavailable(f"broker {self.broker.id}: {error}") from error
        finally:
            self._opening = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._connection = connection
        return connection

    def close(self, reason: str) -> None:
        """Closes the connection, and fails all waiting requests."""
        self._gone = reason
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close()

    def _require_present(self) -> None:
        if self._gone is not None:
            raise PeerUnavailable(f"broker {self.broker.id} {self._gone}")


def _retrieve(opening: asyncio.Task[PeerConnection]) -> None:
    """Retrieves the outcome, for a connection whose requests were all cancelled meanwhile."""
    if not opening.cancelled():
        opening.exception()
