"""Connections between clients and brokers, and their faults.

A connection is TCP: it delivers data in order, and a broker answers its requests one at a time. So loss, duplicates and
reordering look as they do to real clients. A broken connection loses requests, answers, or both. A client that gives up
on a request repeats it on another connection, while the first request may still arrive. In addition, a request may be
delivered twice, as if a client had repeated it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from tests.simulation.loop import EventLoop, Process

from klamm.protocol.codec import decode, encode
from klamm.protocol.message import Message
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest

__all__ = ["Call", "Connection", "Network", "Server"]


_ONLY_ONCE: Final = ConsumerGroupHeartbeatRequest
"""A consumer group heartbeat that overtakes a later one breaks the protocol. Its answer may contain an assignment that
the member gets only once, and its content is outdated. KIP-848 relies on the connection for the order. So a late
heartbeat never arrives here after its client has given up on it.
"""
_TRANSACTIONAL: Final = (AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest)
_VERSION_2_FROM: Final = 5


class Call:
    """One request, and its answer."""

    __slots__ = ("answer", "client_id", "connection", "is_duplicate", "request", "tag", "version")

    def __init__(
        self, client_id: str, request: Message, version: int, answer: Callable[[Message | None], None]
    ) -> None:
        self.client_id = client_id
        self.request = request
        self.version = version
        self.answer = answer
        """Called with the answer, or with None when the connection has broken."""
        self.connection: Connection | None = None
        self.is_duplicate = False
        self.tag: object = None
        """Data that a checker keeps from the request to its answer."""


class Server(Protocol):
    """The server of a connection."""

    @property
    def broker_id(self) -> int: ...

    @property
    def process(self) -> Process | None:
        """The process of the broker, or None while the broker is down."""

    def handle(self, call: Call) -> None:
        """Handles a request; `Connection.respond` takes the answer, in this call or later."""


def _is_only_once(call: Call) -> bool:
    """Returns whether a late copy of the request must not arrive. That also applies to requests of version 1
    transactions: they would become part of the next transaction, and version 2 prevents that (KIP-890).
    """
    request = call.request
    return isinstance(request, _ONLY_ONCE) or (isinstance(request, _TRANSACTIONAL) and call.version < _VERSION_2_FROM)


class Connection:
    """One connection of one client."""

    def __init__(self, network: Network, client_name: str, client: Process, server: Server) -> None:
        self._network = network
        self._client = client
        self.client_name = client_name
        self.server = server
        self.is_open = True
        self._server_process = server.process
        self._sent: dict[int, Call] = {}
        self._queue: deque[Call] = deque()
        self._is_busy = False
        self._last_arrival_ms = 0.0
        self._last_answer_ms = 0.0

    def send(self, call: Call) -> None:
        """Sends a request; its `answer` is called exactly once, unless the client dies."""
        call.connection = self
        self._sent[id(call)] = call
        network = self._network
        loop = network.loop
        if network.is_lost(self, to_server=True):
            return
        self._last_arrival_ms = max(self._last_arrival_ms, loop.now_ms + network.latency())
        loop.call_at(self._last_arrival_ms, partial(self._arrive, call), self._server_process, is_message=True)
        if loop.chance(network.duplicate_rate) and not _is_only_once(call):
            self._send_twice(call)
        if loop.chance(network.reset_rate):
            loop.call_later(loop.between(0, 20), self.reset)

    def _send_twice(self, call: Call) -> None:
        loop = self._network.loop
        copy = Call(call.client_id, self._network.copy(call.request, call.version), call.version, lambda answer: None)
        copy.connection = self
        copy.is_duplicate = True
        loop.call_at(
            loop.now_ms + loop.between(0, 3_000),
            partial(self.server.handle, copy),
            self._server_process,
            is_message=True,
        )

    def _arrive(self, call: Call) -> None:
        self._queue.append(call)
        if not self._is_busy:
            self._serve()

    def _serve(self) -> None:
        while self._queue and not self._is_busy:
            call = self._queue.popleft()
            if self.is_open or not _is_only_once(call):
                self._is_busy = True
                self.server.handle(call)

    def respond(self, call: Call, response: Message) -> None:
        """Takes the broker's answer, and serves the next request of the connection."""
        if call.is_duplicate:
            return
        self._is_busy = False
        network = self._network
        loop = network.loop
        if self.is_open and not network.is_lost(self, to_server=False):
            self._last_answer_ms = max(self._last_answer_ms, loop.now_ms + network.latency())
            loop.call_at(self._last_answer_ms, partial(self._deliver, call, response), self._client, is_message=True)
        if self._queue:
            loop.call_at(loop.now_ms, self._serve, self._server_process, is_message=True)

    def _deliver(self, call: Call, response: Message) -> None:
        if self._sent.pop(id(call), None) is not None:
            call.answer(self._network.copy(response, call.version) if self._network.encodes else response)

    def reset(self) -> None:
        """Breaks the connection: pending requests may arrive, pending answers do not. The client notices the break."""
        if not self.is_open:
            return
        self.is_open = False
        loop = self._network.loop
        loop.call_later(loop.between(0, 5), self._lose, self._client)
        if loop.chance(0.5):
            self._queue.clear()

    def _lose(self) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection for the client: every request without an answer gets None."""
        self.is_open = False
        sent, self._sent = self._sent, {}
        for call in sent.values():
            call.answer(None)


class Network:
    """The latency and the faults of all connections."""

    def __init__(self, loop: EventLoop, *, encodes: bool) -> None:
        self.loop = loop
        self.encodes = encodes
        """Whether messages are encoded as bytes: that is slower, and also tests the codecs."""
        self.latency_ms = (1, 10)
        self.slow_rate = 0.0
        """Probability that a message takes seconds."""
        self.loss_rate = 0.0
        """Probability that a message is lost while the connection seems open."""
        self.reset_rate = 0.0
        self.duplicate_rate = 0.0
        self.cut: set[tuple[str, int, bool]] = set()
        """Pairs of client and broker without connection, to the broker (True) or back (False)."""

    def heal(self) -> None:
        """Ends all faults of the network."""
        self.slow_rate = self.loss_rate = self.reset_rate = self.duplicate_rate = 0.0
        self.latency_ms = (1, 10)
        self.cut.clear()

    def latency(self) -> int:
        """Returns how long a message takes."""
        loop = self.loop
        if loop.chance(self.slow_rate):
            return loop.between(100, 8_000)
        low, high = self.latency_ms
        return loop.between(low, high)

    def is_lost(self, connection: Connection, *, to_server: bool) -> bool:
        """Returns whether a message is lost."""
        if self.cut and (connection.client_name, connection.server.broker_id, to_server) in self.cut:
            return True
        return self.loop.chance(self.loss_rate)

    def copy(self, message: Message, version: int) -> Message:
        """Returns the message as the receiver decodes it."""
        return decode(type(message), version, encode(message, version))[0]
