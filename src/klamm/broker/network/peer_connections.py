"""Connections to other brokers by TCP, with klamm's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.services.peers.peers import PeerConnection
from klamm.client.aio import AsyncConnection
from klamm.client.config import Address, ClientConfig

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig

__all__ = ["TcpPeerConnections"]


class TcpPeerConnections:
    """Implements `OpenPeerConnection` with the time limits of the broker's configuration."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    async def __call__(self, address: Address, client_id: str, /) -> PeerConnection:
        """Returns an open connection with negotiated versions. Raises ConnectionFailed."""
        config = ClientConfig(
            bootstrap_servers=(address,),
            client_id=client_id,
            request_timeout_ms=self._config.request_timeout_ms,
            socket_connection_setup_timeout_ms=self._config.socket_connection_setup_timeout_ms,
        )
        return await AsyncConnection.open(address, config)
