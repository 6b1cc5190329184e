"""The connections of a producer as the machine sees them: their state, their requests, and when to open them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from klamm.client.cluster_view import ClusterView
from klamm.client.config import Address
from klamm.client.conversation import Offers, common_version
from klamm.client.producer.actions import Action, Connect, Disconnect
from klamm.client.producer.backoff import Backoff
from klamm.client.producer.batch import PendingBatch
from klamm.client.producer.lane import PartitionLane
from klamm.client.producer.transaction_requests import TransactionRequest
from klamm.protocol.types import Millis, TopicId

__all__ = ["Link", "LinkState", "Links", "MetadataUnderWay", "ProduceUnderWay", "SentBatch", "UnderWay"]


class LinkState(Enum):
    """The state of a connection."""

    CLOSED = auto()
    CONNECTING = auto()
    OPEN = auto()


class SentBatch(NamedTuple):
    """A batch in a request."""

    lane: PartitionLane
    batch: PendingBatch
    topic_id: TopicId | None


class ProduceUnderWay(NamedTuple):
    """A Produce request without an answer."""

    batches: list[SentBatch]


class MetadataUnderWay(NamedTuple):
    """A Metadata request without an answer."""

    topics: list[str]


class UnderWay(NamedTuple):
    """A request without an answer."""

    deadline: Millis
    version: int
    request: ProduceUnderWay | MetadataUnderWay | TransactionRequest


_NOTHING: Final = Offers({}, {}, -1)
_AT_ONCE: Final = Millis(0)


@dataclass(slots=True)
class Link:
    """The connection to one address."""

    address: Address
    state: LinkState = LinkState.CLOSED
    offers: Offers = _NOTHING
    under_way: dict[int, UnderWay] = field(default_factory=dict)
    """By request id, oldest first."""
    produce_requests: int = 0
    """How many of them are Produce requests."""
    failures: int = 0
    """Connections in a row that could not be opened, or broke before any answer."""
    not_before: Millis = _AT_ONCE
    """When it may be opened again."""
    muted_until: Millis = _AT_ONCE
    """When the next request may be sent: the broker throttles this client (KIP-219)."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.state is LinkState.OPEN

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        """Returns the highest version that both sides know. Raises `UnsupportedByBroker` if there is none."""
        host, port = self.address
        return common_version(self.offers.versions, f"{host}:{port}", api_key, name, lowest=lowest, highest=highest)


class Links:
    """All connections of one producer."""

    def __init__(self, view: ClusterView, backoff: Backoff, actions: list[Action]) -> None:
        self._view = view
        self._backoff = backoff
        self._actions = actions
        self._links: dict[Address, Link] = {}
        self._turn = 0

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    def to(self, address: Address) -> Link:
        """Returns the connection to an address."""
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(address)
        return link

    def ready(self, address: Address | None, now: Millis) -> Link | None:
        """Returns the open connection to an address (None: to any broker); None if it has to be opened first, which
        begins, or if the broker throttles this client."""
        if address is None:
            link = self._any(now)
            if link is None:
                return None
        else:
            link = self.to(address)
        if link.state is LinkState.CLOSED and link.not_before <= now:
            link.state = LinkState.CONNECTING
            self._actions.append(Connect(link.address))
        return link if link.is_open and link.muted_until <= now else None

    def _any(self, now: Millis) -> Link | None:
        """Returns an open connection, else one that is being opened, else one that may be opened.

        It takes turns: a broker that is cut off from the others answers with old metadata.
        """
        for state in (LinkState.OPEN, LinkState.CONNECTING):
            found = [link for link in self._links.values() if link.state is state and link.muted_until <= now]
            if found:
                self._turn += 1
                return found[self._turn % len(found)]
        known = [self._view.address_of(broker) for broker in self._view.brokers()]
        addresses = list(dict.fromkeys([*known, *self._view.config.bootstrap_servers]))
        for turn in range(len(addresses)):
            link = self.to(addresses[(self._turn + turn) % len(addresses)])
            if link.not_before <= now:
                self._turn += turn + 1
                return link
        return None

    def opened(self, link: Link, offers: Offers) -> None:
        """Notes that a connection is open."""
        link.state, link.offers = LinkState.OPEN, offers

    def closed(self, link: Link, now: Millis) -> list[UnderWay]:
        """Notes that a connection is closed, or could not be opened. Returns the requests that get no answer."""
        link.state = LinkState.CLOSED
        link.failures += 1
        link.not_before = Millis(now + self._backoff.pause_ms(link.failures))
        lost, link.under_way, link.produce_requests = list(link.under_way.values()), {}, 0
        return lost

    def overdue(self, now: Millis) -> list[Link]:
        """Returns the connections whose oldest request should have been answered, and asks to close them."""
        found = [
            link
            for link in self._links.values()
            if link.under_way and next(iter(link.under_way.values())).deadline <= now
        ]
        self._actions += [Disconnect(link.address) for link in found]
        return found

    def skip(self, pause_ms: Millis, address: Address, unwritten: int) -> None:
        """Adds a pause of the face to the time of the newest `unwritten` requests of a connection."""
        under_way = self.to(address).under_way
        for request_id in list(under_way)[len(under_way) - unwritten :]:
            request = under_way[request_id]
            under_way[request_id] = request._replace(deadline=Millis(request.deadline + pause_ms))

    def next_time(self, now: Millis) -> list[float]:
        """Returns the times at which a request is overdue, or a connection may be used again."""
        times: list[float] = []
        for link in self._links.values():
            if link.under_way:
                times.append(next(iter(link.under_way.values())).deadline)
            times += [time for time in (link.not_before, link.muted_until) if time > now]
        return times
