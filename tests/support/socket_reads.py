"""Reads of a fixed size from a socket, whose bytes may come in pieces."""

from __future__ import annotations

import socket

__all__ = ["receive_exactly"]


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Returns the next `size` bytes. Fails the test if the connection is closed before."""
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        assert piece, f"the broker closed the connection after {len(data)} of {size} bytes"
        data += piece
    return data
