"""Tests when a running broker learns that it must stop, from its registration in the metadata."""

from __future__ import annotations

import asyncio

from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.broker.services.cluster.broker_registration import watch_registration
from klamm.metadata.memory_store import MemoryMetadata
from klamm.protocol.types import BrokerId


def test_a_copy_of_the_data_directory_replaces_its_broker() -> None:
    """A process with a copy of the data directory takes the registration over, because it looks like the next run of
    the broker. The first process acknowledges nothing more from that moment on, and stops."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        first, _ = await connect(metadata, 1)
        await first.start_broker(ENDPOINTS)
        events: list[str] = []
        watch_registration(
            first,
            BrokerId(1),
            on_unregistered=lambda: events.append("stops"),
            on_replaced=lambda: events.append("acknowledges nothing"),
        )
        copy, _ = await connect(metadata, 1)
        await copy.start_broker(ENDPOINTS, known_incarnation=first.incarnation)
        await asyncio.sleep(0.01)
        assert events == ["acknowledges nothing", "stops"]
        await copy.close()
        await first.close()

    asyncio.run(scenario())
