"""What a `ProducerMachine` asks of the face that does its I/O."""

from __future__ import annotations

from typing import NamedTuple

from klamm.client.config import Address

__all__ = ["Action", "Connect", "Disconnect", "Send"]


class Connect(NamedTuple):
    """Open a connection, then call `connected` or `disconnected`."""

    address: Address


class Send(NamedTuple):
    """Send a request on the open connection, after all earlier ones. Then call `received` with its response, or
    `disconnected` if that fails; if `has_response` is false, call `received` once the request is handed to the system.
    """

    address: Address
    request_id: int
    api_key: int
    version: int
    body: bytes | bytearray
    is_flexible: bool
    has_response: bool


class Disconnect(NamedTuple):
    """Close the connection: an answer is overdue. The machine has given up its requests; call nothing."""

    address: Address


Action = Connect | Send | Disconnect
