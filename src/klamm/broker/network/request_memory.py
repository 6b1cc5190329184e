"""The memory of all incomplete requests, and the queue of connections that wait for it.

How it works
------------
A broker keeps the beginning of a request until the rest arrives. `queued.max.request.bytes` bounds the memory of all
beginnings together. When the limit is reached, each connection whose request needs more memory stops reading and joins
a queue. Small requests arrive in one piece, need no memory, and are always served. When memory becomes free, the
connections in the queue continue to read.

Incomplete requests alone could use up the limit and never become complete. So while there is no room, one connection of
the queue at a time has the turn: it reads beyond the limit until its request is complete. The connection is closed if
that takes longer than `TURN_S`, or if nothing arrives for a fifth of that time. The request that lacks the fewest bytes
comes first. So the memory in use never exceeds the sum of the limit, one request of the largest size
(`socket.request.max.bytes`), and `BYTES_WITHOUT_ROOM` for each connection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from klamm.broker.network.frame_buffers import Buffer, BufferPool, grow_mapping, new_mapping, shrink_mapping

if TYPE_CHECKING:
    from klamm.broker.network.client_connection import Connection

__all__ = ["BYTES_WITHOUT_ROOM", "RequestMemory"]

_logger = logging.getLogger(__name__)

TURN_S: Final = 5.0
_LOOKS_IN_A_TURN: Final = 10
BYTES_WITHOUT_ROOM: Final = 4096
"""While there is no room, the bytes that are read at once from a connection with no incomplete request. Most requests
other than Produce are smaller."""
_SMALLEST_POOLED: Final = 16 * 1024
_WOKEN_AT_ONCE: Final = 64
"""Number of connections that continue to read in one step of the loop."""
FREED_AT_ONCE: Final = 4 * 1024 * 1024
"""Bytes of a mapping that are freed in one step of the loop: each page takes the kernel time."""


class RequestMemory:
    """The buffers of incomplete requests of one broker. A negative `maximum_bytes` sets no limit, as in Kafka."""

    def __init__(self, maximum_bytes: int = -1, *, turn_s: float = TURN_S, pool: BufferPool | None = None) -> None:
        self._maximum_bytes = maximum_bytes
        self._turn_s = turn_s
        self._pool = pool if pool is not None else BufferPool()
        self._held_bytes = 0
        self._freed: list[Buffer] = []
        """Large unused mappings, which are freed in steps."""
        self._waiting: dict[Connection, None] = {}
        self._is_waking = False
        self._turn_timer: asyncio.TimerHandle | None = None
        self._missing_bytes: list[int] = []
        """Missing bytes of the connection that has the turn: at the beginning of the turn, and at each check since."""
        self._turn: Connection | None = None

    @property
    def held_bytes(self) -> int:
        """The size of all buffers in use."""
        return self._held_bytes

    @property
    def has_room(self) -> bool:
        """Whether the memory in use is below the limit."""
        return self._maximum_bytes < 0 or self._held_bytes < self._maximum_bytes

    def may_read(self, connection: Connection) -> bool:
        """Returns whether a connection may read more of an incomplete request."""
        return self.has_room or self._turn is connection

    # -- buffers

    def take(self, arrived_bytes: int, wanted_bytes: int, reader: Connection) -> Buffer:
        """Returns a buffer for `arrived_bytes` of `wanted_bytes`, with spare room for more if memory allows."""
        buffer: Buffer | None = None
        if arrived_bytes <= _SMALLEST_POOLED:
            buffer = bytearray(arrived_bytes)
        else:
            if not self.may_read(reader):
                wanted_bytes = arrived_bytes
            buffer = self._pool.take(max(arrived_bytes, min(wanted_bytes, 4 * arrived_bytes)))
        if buffer is None:
            buffer = new_mapping(max(arrived_bytes, min(wanted_bytes, arrived_bytes + arrived_bytes // 4)))
        self._held_bytes += len(buffer)
        return buffer

    def grow(self, buffer: Buffer, wanted_bytes: int, reader: Connection) -> Buffer:
        """Returns a larger buffer with the bytes of `buffer`. `buffer` must be full; it is no longer valid."""
        filled_bytes = len(buffer)
        more_bytes = filled_bytes // 4 if self.may_read(reader) else BYTES_WITHOUT_ROOM
        capacity = min(wanted_bytes, filled_bytes + more_bytes)
        if isinstance(buffer, bytearray):
            grown = self._pool.take(min(wanted_bytes, 4 * filled_bytes)) or new_mapping(capacity)
            memoryview(grown)[:filled_bytes] = buffer
            self._pool.give_back(buffer)
        else:
            grown = grow_mapping(buffer, filled_bytes, capacity)
        self._held_bytes += len(grown) - filled_bytes
        return grown

    def give_back(self, buffer: Buffer) -> None:
        """Takes back a buffer. When there is room again, waiting connections continue to read."""
        size = len(buffer)
        if size > FREED_AT_ONCE and not isinstance(buffer, bytearray):
            self._freed.append(buffer)
            if len(self._freed) == 1:
                asyncio.get_running_loop().call_soon(self._free_some)
            return
        self._held_bytes -= size
        if isinstance(buffer, bytearray) and size > _SMALLEST_POOLED:
            self._pool.give_back(buffer)
        self._wake_soon()

    def _free_some(self) -> None:
        mapping = self._freed[-1]
        size = len(mapping)
        left = size - FREED_AT_ONCE
        if left > 0 and shrink_mapping(mapping, left):
            self._held_bytes -= FREED_AT_ONCE
        else:
            self._freed.pop()
            self._held_bytes -= size
        del mapping
        if self._freed:
            asyncio.get_running_loop().call_soon(self._free_some)
        self._wake_soon()

    # -- turns

    def wait(self, connection: Connection) -> None:
        """Adds a connection that has stopped reading to the queue. Its `go_on` is called when it may read."""
        self._waiting[connection] = None
        self._wake_soon()

    def end_turn(self, connection: Connection) -> None:
        """Ends the turn of a connection whose request is complete; does nothing if another connection has the turn."""
        if self._turn is connection:
            if self._turn_timer is not None:
                self._turn_timer.cancel()
            self._turn = self._turn_timer = None
            self._wake_soon()

    def forget(self, connection: Connection) -> None:
        """Removes a closed connection from the queue and ends its turn."""
        self._waiting.pop(connection, None)
        self.end_turn(connection)

    def _wake_soon(self) -> None:
        if self._waiting and not self._is_waking and (self._turn is None or self.has_room):
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for _ in range(_WOKEN_AT_ONCE):
            if not self._waiting or not self.has_room:
                break
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            connection.go_on()
        if self._waiting and self._turn is None and not self.has_room:
            self._turn = min(self._waiting, key=lambda connection: connection.missing_bytes)
            del self._waiting[self._turn]
            self._missing_bytes = []
            self._turn.go_on()
            self._watch_turn()
        elif self.has_room:
            self._wake_soon()

    def _watch_turn(self) -> None:
        """Closes the connection that has the turn if its turn has expired or it receives no bytes.

        Only two successive intervals without new bytes count as silence: the loop may have been busy during one.
        """
        connection = self._turn
        if connection is None:
            return
        looks = self._missing_bytes
        looks.append(connection.missing_bytes)
        if len(looks) <= _LOOKS_IN_A_TURN and not (len(looks) > 2 and looks[-1] == looks[-2] == looks[-3]):
            interval_s = self._turn_s / _LOOKS_IN_A_TURN
            self._turn_timer = asyncio.get_running_loop().call_later(interval_s, self._watch_turn)
            return
        _logger.warning(
            "closing the connection of %s: its request lacks %d bytes that do not come, and others wait for the memory "
            "that it takes (queued.max.request.bytes is %d)",
            connection.peer,
            connection.missing_bytes,
            self._maximum_bytes,
        )
        connection.close()
