"""A running broker cleans its compacted topics and its internal topics while it serves clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from tests.support.log_folder import NOW_MS, read_all
from tests.support.wire import Wire

from klamm.broker.server import BrokerServer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.record_scanner import OffsetTable
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest
from klamm.protocol.schema.delete_topics_response import DeleteTopicsResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse
from klamm.storage.log.log import Log
from klamm.testing import Broker

VERSION = 9
BROKER = 4
CONFIG = {"log.cleaner.backoff.ms": "20", "offsets.topic.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Runs a broker whose cleaner looks for work all the time."""
    with Broker(config=CONFIG) as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    """Opens a connection to the broker."""
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def create(wire: Wire, name: str, **configs: str) -> None:
    settings = {
        "cleanup_policy": "compact",
        "internal_segment_bytes": "500",
        "file_delete_delay_ms": "0",
        # Every new batch must be cleaned: after a cleaning between two batches, less than half of the log may be dirty.
        "min_cleanable_dirty_ratio": "0.01",
        **configs,
    }
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()],
    )
    response = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert response.topics[0].error_code == ErrorCode.NONE, response


def produce(wire: Wire, topic: str, count: int, keys: int = 3) -> None:
    for number in range(count):
        records = encode_batch([(NOW_MS, b"k%d" % (number % keys), b"v%d" % number, ())])
        request = ProduceRequest(None, -1, 60_000, [ProduceTopic(topic, None, [(0, memoryview(records))])])
        answer = wire.produce(VERSION, request).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE


def wait_until(broker: Broker, topic: str, condition: Callable[[Log], bool]) -> None:
    """Waits until the log of the topic's partition 0 meets the condition."""

    async def wait(server: BrokerServer) -> None:
        assert server.context is not None
        async with asyncio.timeout(60):
            while not condition(server.context.partitions.get(topic, 0).log):  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.005)

    broker.run_in_broker(wait)


def is_clean(log: Log) -> bool:
    """Returns whether the closed segments contain each key once and no cleaning runs."""
    active_base = list(log._segments)[-1].base_offset
    keys = [record.key for record in read_all(log) if record.offset < active_base]
    return log.segment_count > 1 and len(keys) == len(set(keys)) > 0 and not log.compaction.is_under_way


def test_a_compacted_topic_is_cleaned_by_itself(broker: Broker, wire: Wire) -> None:
    """A compacted topic is cleaned automatically, and again after more records."""
    create(wire, "table")
    for _ in range(2):
        produce(wire, "table", 60)
        wait_until(broker, "table", is_clean)


def test_what_groups_committed_is_compacted_too_and_still_known_after_a_restart(broker: Broker, wire: Wire) -> None:
    """I17: the cleaner also compacts __consumer_offsets, and the committed offsets are still known after a restart."""
    create(wire, "orders")
    found = wire.call(FindCoordinatorResponse, 2, FindCoordinatorRequest(key="billing"))
    assert found.error_code == ErrorCode.NONE
    for number in range(600):
        topics = [
            OffsetCommitRequestTopic(
                name="orders",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=number, committed_metadata="x" * 4000
                    )
                ],
            )
        ]
        request = OffsetCommitRequest(group_id=f"billing-{number % 3}", topics=topics)
        answer = wire.call(OffsetCommitResponse, 7, request)
        while answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            answer = wire.call(OffsetCommitResponse, 7, request)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    wait_until(broker, "__consumer_offsets", is_clean)
    broker.stop()
    broker.start()
    with Wire(broker.bootstrap_servers) as again:
        for group, offset in (("billing-0", 597), ("billing-1", 598), ("billing-2", 599)):
            wanted = [OffsetFetchRequestTopic(name="orders", partition_indexes=[0])]
            fetch = OffsetFetchRequest(group_id=group, topics=wanted)
            committed = again.call(OffsetFetchResponse, 5, fetch)
            while committed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                committed = again.call(OffsetFetchResponse, 5, fetch)
            assert committed.topics[0].partitions[0].committed_offset == offset


def alter(wire: Wire, key: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name="",
        configs=[AlterableConfig(name=key, config_operation=0, value=value)],
    )
    response = wire.call(IncrementalAlterConfigsResponse, 1, IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == ErrorCode.NONE, response


def test_the_cleaner_s_settings_may_change_while_it_works(broker: Broker, wire: Wire) -> None:
    """The number of cleaner threads and the cleaner's limits change at run time: log.cleaner.* are dynamic, as in
    Kafka."""
    for threads in ("2", "1"):
        alter(wire, "log.cleaner.threads", threads)
        create(wire, f"table-{threads}")
        produce(wire, f"table-{threads}", 60)
        wait_until(broker, f"table-{threads}", is_clean)
    alter(wire, "log.cleaner.io.max.bytes.per.second", "1.0")
    alter(wire, "log.cleaner.dedupe.buffer.size", str(2 * 1024 * 1024))

    async def bounds(server: BrokerServer) -> tuple[float, int]:
        cleaner = server.services.log_directory.cleaner
        return cleaner._throttle.bytes_per_second, cleaner._table.memory_bytes // OffsetTable.BYTES_PER_ENTRY

    assert broker.run_in_broker(bounds) == (1.0, 2 * 1024 * 1024 // OffsetTable.BYTES_PER_ENTRY)


def test_a_cleaning_that_is_throttled_does_not_keep_the_broker_from_stopping() -> None:
    """A throttled cleaning does not block the deletion of its topic or the stop of the broker."""
    with (
        Broker(config={**CONFIG, "log.cleaner.io.max.bytes.per.second": "1.0"}) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        for name in ("table", "other"):
            create(wire, name)
            produce(wire, name, 60)
        wait_until(broker, "table", lambda log: True)

        async def some_log_is_being_cleaned(server: BrokerServer) -> str:
            assert server.context is not None
            async with asyncio.timeout(60):
                while True:
                    for name in ("table", "other"):
                        if server.context.partitions.get(name, 0).log.compaction.is_under_way:
                            return name
                    await asyncio.sleep(0.005)

        name = broker.run_in_broker(some_log_is_being_cleaned)
        deleted = wire.call(DeleteTopicsResponse, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000))
        assert deleted.responses[0].error_code == ErrorCode.NONE
        left = {"table": "other", "other": "table"}[name]
        wait_until(broker, left, lambda log: log.compaction.is_under_way)


def test_without_the_cleaner_topics_are_kept_whole() -> None:
    """With log.cleaner.enable=false a compacted topic keeps all records, and no cleaner task runs."""
    with Broker(config={**CONFIG, "log.cleaner.enable": "false"}) as broker, Wire(broker.bootstrap_servers) as wire:
        create(wire, "table")
        produce(wire, "table", 60)

        async def look(server: BrokerServer) -> tuple[int, list[str]]:
            assert server.context is not None
            coroutines = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
            cleaners = [name for name in coroutines if name.startswith("LogCleaning.")]
            return len(read_all(server.context.partitions.get("table", 0).log)), cleaners

        assert broker.run_in_broker(look) == (60, [])
