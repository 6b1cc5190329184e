"""Fixtures with a metadata service on a real SQLite file, as in a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import MetadataService
from klamm.metadata.sqlite_store import SqliteStore

OpenService = Callable[[], AbstractAsyncContextManager[MetadataService]]


@pytest.fixture
def open_service(tmp_path: Path) -> OpenService:
    """Returns a function that opens the test's only service; opening it again simulates a restart."""

    @asynccontextmanager
    async def opened(config: BrokerConfig | None = None) -> AsyncIterator[MetadataService]:
        store = await SqliteStore.open(tmp_path / "metadata.sqlite")
        service = await MetadataService.open(store, config or BrokerConfig())
        try:
            yield service
        finally:
            await service.close()

    return opened
