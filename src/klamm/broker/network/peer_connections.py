"""Connections to other brokers by TCP, with klamm's own client."""

from __future__ import annotations

from typing import Final

from klamm.broker.services.peers import PeerConnection
from klamm.client.aio import AsyncConnection
from klamm.client.config import Address, ClientConfig

__all__ = ["TcpPeerConnections"]

_SETUP_TIMEOUT_MS: Final = 10_000


class TcpPeerConnections:
    """Implements `OpenPeerConnection` with the time limits of the broker's configuration."""

    def __init__(self, *, request_timeout_ms: int, connection_setup_timeout_ms: int = _SETUP_TIMEOUT_MS) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._connection_setup_timeout_ms = connection_setup_timeout_ms

    async def __call__(self, address: Address, client_id: str, /) -> PeerConnection:
        """Returns an open connection with negotiated versions. Raises ConnectionFailed."""
        config = ClientConfig(
            bootstrap_servers=(address,),
            client_id=client_id,
            request_timeout_ms=self._request_timeout_ms,
            socket_connection_setup_timeout_ms=self._connection_setup_timeout_ms,
        )
        return await AsyncConnection.open(address, config)
