"""What all connections together have not been able to send, and what follows from it.

Apache Kafka sends records from the file when the client reads; here what the socket does not take at once is in memory
until then, so a few clients that ask for much and never read could take all there is. The more waits, the smaller new
answers get, and when it is too much, whoever has not read for longest is let go.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from klamm.broker.network.client_connection import Connection

__all__ = ["UnsentAnswers"]

logger = logging.getLogger(__name__)

WANTED_BYTES: Final = 128 * 1024 * 1024
MAXIMUM_BYTES: Final = 256 * 1024 * 1024
SMALLEST_ANSWER_BYTES: Final = 1024 * 1024


class UnsentAnswers:
    """The bytes in the queues of those connections that have stopped reading, longest first."""

    def __init__(self, wanted_bytes: int = WANTED_BYTES, maximum_bytes: int = MAXIMUM_BYTES) -> None:
        self._wanted_bytes = wanted_bytes
        self._maximum_bytes = maximum_bytes
        self._waiting: dict[Connection, int] = {}
        self.total_bytes = 0

    @property
    def room_bytes(self) -> int:
        """How large an answer may be that is as large as one likes: a megabyte always, and more as long as little
        waits."""
        return max(SMALLEST_ANSWER_BYTES, self._wanted_bytes - self.total_bytes)

    def note(self, connection: Connection, size_bytes: int) -> None:
        """Says how much waits for a connection that doesn't read. It keeps its place in the row."""
        self.total_bytes += size_bytes - self._waiting.get(connection, 0)
        self._waiting[connection] = size_bytes
        while self.total_bytes > self._maximum_bytes and len(self._waiting) > 1:
            longest = next(iter(self._waiting))
            logger.warning(
                "closing the connection of %s: it does not read, and %d bytes wait to be sent to all clients",
                longest.peer,
                self.total_bytes,
            )
            self.forget(longest)
            longest.close()

    def forget(self, connection: Connection) -> None:
        """Says that a connection reads again, or is closed."""
        self.total_bytes -= self._waiting.pop(connection, 0)
