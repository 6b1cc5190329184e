"""An open connection of the blocking producer."""

from __future__ import annotations

from klamm.client.config import Address
from klamm.client.connection import Connection, Pending

__all__ = ["Wire"]


class Wire:
    """An open connection, and its requests without an answer, oldest first."""

    def __init__(self, address: Address, connection: Connection) -> None:
        self.address = address
        self.connection = connection
        self.pending: list[tuple[int, Pending]] = []
        self.unanswered: list[tuple[int, Pending]] = []
        """Requests that the broker does not answer (`acks=0`), until they are written."""
        self.waits_to_write = False
