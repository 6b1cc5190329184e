"""Fixtures for handlers of topics and of the cluster: a broker with real metadata, but without logs and groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from klamm.broker.handler_context import BrokerContext, ConnectionInfo, RequestContext
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.metadata_store import MetadataStore
from klamm.metadata.service import MetadataService, NewTopic
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.types import Millis

NOT_THERE = cast(Any, None)


class MetadataBroker:
    """A broker with real metadata, which also makes the contexts of requests."""

    def __init__(self, store: MetadataStore, metadata: MetadataService, config: BrokerConfig) -> None:
        self.store = store
        self.metadata = metadata
        self._context = BrokerContext(
            config=config,
            node_id=config.node_id,
            clock=lambda: Millis(0),
            metadata=metadata,
            log_directory=NOT_THERE,
            # The broker leads no partition, so a handler has nothing to wait for.
            partitions=PartitionRegistry(config.node_id, NOT_THERE, NOT_THERE),
            fetch_sessions=NOT_THERE,
            groups=NOT_THERE,
            transactions=NOT_THERE,
            transaction_markers=NOT_THERE,
            transaction_verifier=NOT_THERE,
            ensure_internal_topic=self._ensure_internal_topic,
        )

    async def _ensure_internal_topic(self, name: str) -> None:
        await self.metadata.ensure_topic(NewTopic(name, partitions=50, configs={"cleanup.policy": "compact"}))

    def request(self, api_version: int) -> RequestContext:
        """Returns the context of a request from a client that reaches this broker as reached:1234."""
        connection = ConnectionInfo("10.0.0.1", "10.0.0.1:50000", "reached", 1234)
        return RequestContext(self._context, connection, NOT_THERE, api_version, "a client")


ServeMetadata = Callable[[BrokerConfig], AbstractAsyncContextManager[MetadataBroker]]


@pytest.fixture
def serve_metadata(tmp_path: Path) -> ServeMetadata:
    """Returns a function that starts a broker's metadata, registered as registered:9092 in rack r."""

    @asynccontextmanager
    async def serving(config: BrokerConfig) -> AsyncIterator[MetadataBroker]:
        store = await SqliteStore.open(tmp_path / "metadata.sqlite")
        metadata = await MetadataService.open(store, config)
        await metadata.start_broker({"PLAINTEXT": ("registered", 9092)}, "r")
        try:
            yield MetadataBroker(store, metadata, config)
        finally:
            await metadata.close()

    return serving
