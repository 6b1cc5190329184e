"""Cuts between the brokers of a test's cluster, on connections that the test keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from klamm.broker.network.peer_connections import TcpPeerConnections
from klamm.client.config import Address
from klamm.client.errors import ConnectionFailed
from klamm.config.broker_config import BrokerConfig
from klamm.testing import Cluster
from klamm.testing.cuts import Cuts, CuttableConnections


def _within(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


def test_a_cut_in_one_direction_leaves_the_other(klamm_cluster: Cluster) -> None:
    """An open connection breaks and a new one is refused only from the source to the target of the cut, until it is
    healed."""
    host, port = klamm_cluster.address_of(1).split(":")
    address: Address = (host, int(port))
    cuts = Cuts()
    tcp = TcpPeerConnections(BrokerConfig())
    from_2 = CuttableConnections(2, lambda address: 1, cuts, tcp)
    from_3 = CuttableConnections(3, lambda address: 1, cuts, tcp)

    async def scenario() -> None:
        cut_off, other = await from_2(address, "test"), await from_3(address, "test")
        cuts.cut(2, 1)
        await asyncio.sleep(0)  # the cut closes the connection in the next turn of its loop
        assert cut_off.is_closed
        assert not other.is_closed
        with pytest.raises(ConnectionFailed, match="the test has cut it"):
            await from_2(address, "test")
        cuts.heal(2, 1)
        again = await from_2(address, "test")
        assert not again.is_closed
        for connection in (again, other):
            connection.close()

    _within(scenario())
