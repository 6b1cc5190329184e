"""The actions that a `ProducerMachine` requests from the face, which does the I/O."""

from __future__ import annotations

from typing import NamedTuple

from klamm.client.config import Address

__all__ = ["Action", "Connect", "Disconnect", "Send"]


class Connect(NamedTuple):
    """Open a connection, then call `connected` or `disconnected`."""

    address: Address


class Send(NamedTuple):
    """Send a request on the open connection, after all earlier ones. Then call `received` with its response, or
    `disconnected` if the connection breaks. If `has_response` is false, call `received` when the request is passed to
    the operating system.
    """

    address: Address
    request_id: int
    api_key: int
    version: int
    body: bytes | bytearray
    is_flexible: bool
    has_response: bool


class Disconnect(NamedTuple):
    """Close the connection, because an answer is overdue. The machine has given up the requests of this connection, so
    the face calls no method."""

    address: Address


Action = Connect | Send | Disconnect
