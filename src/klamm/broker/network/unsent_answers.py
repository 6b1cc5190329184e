"""Limits the memory of unsent responses of all connections.

Apache Kafka sends records from the file when the client reads. klamm keeps bytes that the socket does not accept at
once in memory. A few clients that request much and never read could therefore use up the memory. The more bytes wait,
the smaller new responses become. Above a limit, the connection that has not read for longest is closed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from klamm.broker.network.client_connection import Connection

__all__ = ["UnsentAnswers"]

_logger = logging.getLogger(__name__)

_WANTED_BYTES: Final = 128 * 1024 * 1024
_MAXIMUM_BYTES: Final = 256 * 1024 * 1024
_SMALLEST_ANSWER_BYTES: Final = 1024 * 1024


class UnsentAnswers:
    """The bytes in the send queues of connections that have stopped reading, the longest silent first."""

    def __init__(self, wanted_bytes: int = _WANTED_BYTES, maximum_bytes: int = _MAXIMUM_BYTES) -> None:
        self._wanted_bytes = wanted_bytes
        self._maximum_bytes = maximum_bytes
        self._waiting: dict[Connection, int] = {}
        self.total_bytes = 0

    @property
    def room_bytes(self) -> int:
        """Upper limit for a response whose size the broker may choose: at least a megabyte, more while few bytes
        wait."""
        return max(_SMALLEST_ANSWER_BYTES, self._wanted_bytes - self.total_bytes)

    def note(self, connection: Connection, size_bytes: int) -> None:
        """Records how many bytes wait for a connection that doesn't read. The connection keeps its place in the order.

        Closes the connections that have not read for longest while the total exceeds the maximum.
        """
        self.total_bytes += size_bytes - self._waiting.get(connection, 0)
        self._waiting[connection] = size_bytes
        while self.total_bytes > self._maximum_bytes and len(self._waiting) > 1:
            longest = next(iter(self._waiting))
            _logger.warning(
                "closing the connection of %s: it does not read, and %d bytes wait to be sent to all clients",
                longest.peer,
                self.total_bytes,
            )
            self.forget(longest)
            longest.close()

    def forget(self, connection: Connection) -> None:
        """Removes a connection that reads again or is closed."""
        self.total_bytes -= self._waiting.pop(connection, 0)
