"""What consumers do at followers of a cluster in this process (KIP-392)."""

from __future__ import annotations

from typing import Final

from klamm.broker.server import BrokerServer
from klamm.testing import Cluster

__all__ = ["RACK_AWARE_SELECTOR", "waiting_reads"]

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of `replica.selector.class` with which leaders name followers."""


def waiting_reads(cluster: Cluster, broker: int) -> int:
    """Returns in how many partitions consumers wait at a broker that follows them."""

    async def count(server: BrokerServer) -> int:
        assert server.context is not None
        return len(server.context.partitions.unled.reads)

    thread = cluster._member(broker).thread
    assert thread is not None
    return thread.run(count)
