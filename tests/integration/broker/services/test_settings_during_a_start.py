"""Settings that other brokers change while a broker starts."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.metadata_brokers import ENDPOINTS, UnreliableStore, connect

from klamm.broker.services.broker_services import BrokerServices
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.memory_store import MemoryMetadata
from klamm.protocol.types import BrokerId, Millis

_BROKER = 4


def test_settings_that_change_during_a_start_count_at_once(tmp_path: Path) -> None:
    """A default that is changed after a broker has read the metadata, and before it leads a partition, counts from its
    start on: a leader with a lower min.insync.replicas than the cluster's would commit what may be lost."""
    asyncio.run(_change_during_a_start(tmp_path))


async def _change_during_a_start(path: Path) -> None:
    metadata = MemoryMetadata()
    other, _ = await connect(metadata, 2)
    await other.start_broker(ENDPOINTS)
    store = UnreliableStore(metadata.connect())
    store.held_at[1] = registration = asyncio.Event()

    async def open_store() -> UnreliableStore:
        return store

    services = BrokerServices(BrokerConfig(node_id=BrokerId(1), log_dirs=(path,)), lambda: Millis(1))
    try:
        starting = asyncio.create_task(services.start(open_store, ENDPOINTS))
        await store.held.wait()
        before = services.config.topic_defaults.min_insync_replicas
        await other.alter_configs({(_BROKER, ""): {"min.insync.replicas": "2"}})
        registration.set()
        context = await starting
        assert before == 1
        assert services.config.topic_defaults.min_insync_replicas == 2
        assert context.config.topic_defaults.min_insync_replicas == 2
    finally:
        await services.stop()
        await other.close()
