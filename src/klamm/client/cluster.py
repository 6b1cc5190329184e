"""One client's blocking view of one cluster: its metadata (`ClusterView`) and its connections."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from typing import Any, TypeVar

from klamm.client.cluster_view import ClusterView, PartitionLeader, TopicMetadata, error_code
from klamm.client.config import Address, ClientConfig
from klamm.client.connection import Connection, Pending
from klamm.client.errors import ConnectionFailed
from klamm.client.operations import Ask, Pause, Refresh, Steps
from klamm.protocol.message import Message
from klamm.protocol.types import BrokerId

__all__ = ["Cluster", "PartitionLeader", "TopicMetadata", "error_code"]

T = TypeVar("T")


class Cluster(ClusterView):
    """One client's view of one cluster, with one connection to each broker. Not thread-safe.

    Methods that open a connection raise `ConnectionFailed` if that fails, and `AuthenticationFailed` if one side does
    not accept the other.
    """

    def __init__(self, config: ClientConfig) -> None:
        super().__init__(config)
        self._connections: dict[Address, Connection] = {}

    def close(self) -> None:
        """Closes all connections. Safe to call twice. One that another thread opens meanwhile stays open."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    def connection_to(self, broker: BrokerId) -> Connection:
        """Returns the connection to a broker; opens one if there is none."""
        return self.connection_to_address(self.address_of(broker))

    def connection_to_address(self, address: Address) -> Connection:
        """Returns the connection to an address; opens one if there is none."""
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = Connection(address, self.config)
        return connection

    def any_connection(self) -> Connection:
        """Returns a connection to any reachable broker: an open one, else to a known broker or a bootstrap server.

        It is the same one each time, as long as it is open: a caller then sees the changes that it has made.
        """
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        failures = []
        for address in self.addresses():
            try:
                return self.connection_to_address(address)
            except ConnectionFailed as error:
                failures.append(error)
        if len(failures) == 1:
            raise failures[0]
        raise ConnectionFailed(f"none of the brokers can be reached: {'; '.join(map(str, failures))}")

    def turn(self) -> None:
        """Lets `any_connection` return another broker's connection from now on, if another broker can be reached.

        The broker that was asked so far may be cut off from the others, and answer with old metadata.
        """
        asked = next((address for address, each in self._connections.items() if not each.is_closed), None)
        for address in self.addresses():
            if address != asked:
                with contextlib.suppress(ConnectionFailed):
                    self._connections = {address: self.connection_to_address(address), **self._connections}
                    return

    def refresh(self, topics: Iterable[str]) -> None:
        """Fetches the metadata of these topics, and retries until a broker responds.

        Topics that don't exist are forgotten, not created. Raises `GaveUp` when no broker responds, `RequestRefused`
        when a topic may not be described or has an invalid name.
        """
        self.run(self.refreshing(topics))

    def ensure(self, topics: Iterable[str]) -> None:
        """Refreshes those of the topics whose metadata are not cached."""
        if missing := self.missing(topics):
            self.refresh(missing)

    def run(self, steps: Steps[T]) -> T:
        """Executes the steps of an operation, one by one, and returns its result."""
        reply: Any = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = None
            if isinstance(step, Ask):
                reply = self._ask(step)
            elif isinstance(step, Refresh):
                self.refresh(step.topics)
            elif isinstance(step, Pause):
                time.sleep(step.seconds)

    def _ask(self, ask: Ask) -> list[Message | ConnectionFailed]:
        sent: list[tuple[Connection, Pending] | ConnectionFailed] = []
        replies: list[Message | ConnectionFailed] = []
        try:
            for broker, request in ask.questions:
                try:
                    connection = self.any_connection() if broker is None else self.connection_to(broker)
                    sent.append((connection, connection.send(request)))
                except ConnectionFailed as error:
                    sent.append(error)
            for one in sent:
                if isinstance(one, ConnectionFailed):
                    replies.append(one)
                    continue
                try:
                    replies.append(one[0].receive(one[1], ask.answer))
                except ConnectionFailed as error:
                    replies.append(error)
        except BaseException:
            # Nothing will take the other responses.
            for one in sent[len(replies) :]:
                if not isinstance(one, ConnectionFailed):
                    one[0].abandon(one[1])
            raise
        return replies
