"""A stop of a broker waits for all threads of the broker."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from klamm.broker.server import BrokerServer
from klamm.protocol.compression import OpenedData
from klamm.testing import Broker


class _Batch:
    """A batch for `BatchOpener`."""

    records_count = cost = max_bytes = compressed_bytes = 1

    def open_within(self, max_bytes: int) -> OpenedData:
        return OpenedData(memoryview(b""), is_whole=True)

    def steps(self, opened: OpenedData) -> Generator[None, None, str]:
        yield
        return "opened"


def test_a_stop_waits_for_each_pool_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop waits for the threads that open batches, run tasks of the coordinators, and clean logs, including those of
    an earlier number of cleaner threads."""
    created: dict[ThreadPoolExecutor, str] = {}
    waited_for: set[ThreadPoolExecutor] = set()
    init, shutdown = ThreadPoolExecutor.__init__, ThreadPoolExecutor.shutdown

    def noting_init(self: ThreadPoolExecutor, *arguments: Any, **keywords: Any) -> None:
        init(self, *arguments, **keywords)
        created[self] = keywords.get("thread_name_prefix", "")

    def noting_shutdown(self: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
        shutdown(self, wait, cancel_futures=cancel_futures)
        if wait:
            waited_for.add(self)

    monkeypatch.setattr(ThreadPoolExecutor, "__init__", noting_init)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", noting_shutdown)
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)
        assert broker.run_in_broker(_open_batch) == "opened"
    assert list(created.values()).count("klamm-cleaner") == 2
    assert set(created.values()) >= {"klamm-records", "klamm-storage", "coordinator"}
    assert not [name for pool, name in created.items() if pool not in waited_for]


async def _open_batch(server: BrokerServer) -> str:
    assert server.context is not None
    return await server.context.batch_opener.open_later(_Batch())
