"""A client's connection to its group's coordinator: the client finds the coordinator, keeps one connection, and gives
up on late answers.

It follows the Java client's `AbstractCoordinator` and `NetworkClient`. The client closes the connection if a request is
not answered in time, or if the broker answers that it is not the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.loop import Process
from tests.simulation.network import Call, Connection

from klamm.protocol.message import Message

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Client"]

_LOOK_UP_AGAIN_MS = 200


class Client:
    """The connection of one process to its group's coordinator."""

    def __init__(self, world: World, name: str, group_id: str, process: Process) -> None:
        self._world = world
        self.name = name
        self._group_id = group_id
        self._process = process
        self._connection: Connection | None = None
        self._is_looking = False
        self._deadlines: dict[int, float] = {}

    @property
    def is_connected(self) -> bool:
        """Whether a request can be sent now."""
        return self._connection is not None

    def look_up(self) -> None:
        """Looks up the coordinator, unless it is known or the lookup is in progress."""
        if self._connection is None and not self._is_looking:
            self._is_looking = True
            loop = self._world.loop
            loop.call_later(self._world.network.latency(), self._found, self._process)

    def _found(self) -> None:
        self._is_looking = False
        broker = self._world.cluster.coordinator_of(self._group_id)
        if broker is None or broker.process is None:
            self._is_looking = True
            self._world.loop.call_later(_LOOK_UP_AGAIN_MS, self._found, self._process)
            return
        self._connection = Connection(self._world.network, self.name, self._process, broker)
        broker.connect(self._connection)

    def ask(self, request: Message, version: int, timeout_ms: int, answered: Callable[[Message | None], None]) -> None:
        """Sends a request; the answer is None if the connection breaks or the request times out."""
        connection = self._connection
        assert connection is not None
        call = Call(self.name, request, version, lambda answer: None)
        key = id(call)
        call.answer = partial(self._answered, connection, key, answered)
        self._deadlines[key] = self._world.loop.now_ms + timeout_ms
        connection.send(call)

    def _answered(
        self, connection: Connection, key: int, answered: Callable[[Message | None], None], answer: Message | None
    ) -> None:
        self._deadlines.pop(key, None)
        if answer is None and connection is self._connection:
            self._connection = None
        answered(answer)

    def give_up_on_late_answers(self) -> None:
        """Closes the connection if an answer is overdue."""
        now_ms = self._world.loop.now_ms
        if self._connection is not None and any(deadline_ms <= now_ms for deadline_ms in self._deadlines.values()):
            self.disconnect()

    def disconnect(self) -> None:
        """Closes the connection, so that the next lookup finds the coordinator again; pending requests get None."""
        connection, self._connection = self._connection, None
        self._deadlines.clear()
        if connection is not None:
            connection.close()

    def vanish(self) -> None:
        """Drops the connection of a process that has ended: its requests may arrive, but no code waits for answers."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.is_open = False
