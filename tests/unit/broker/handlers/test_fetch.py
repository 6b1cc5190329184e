"""Tests Fetch requests that wait for records, in the steps of the event loop."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from tests.support.event_loop import in_loop
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.handler_context import BrokerContext, ConnectionInfo, RequestContext
from klamm.broker.handlers import fetch
from klamm.broker.network.file_sending import in_memory
from klamm.broker.partitions.fetch_sessions import FetchSessionCache
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.config.broker_config import BrokerConfig
from klamm.config.topic_config import TopicConfig
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.api import ApiKey
from klamm.protocol.fetch_client import decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, PartitionIndex, TopicId

ONE = BrokerId(1)
TOPIC_ID = TopicId(bytes(range(16)))
MAX_BYTES = 1_000_000
FIFTY_MB = 50_000_000
LONG_MS = 3_600_000
VERSION = 12
CONSUMERS = 300
MOST_AT_ONCE = 50
NOT_THERE = cast(Any, None)


def new_context(folder: LogFolder) -> RequestContext:
    """Returns the context of a consumer's request to a broker that leads one partition."""
    registry = PartitionRegistry(ONE, folder.directory, lambda topic: TopicConfig())
    topic = TopicImage("orders", TOPIC_ID, (PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE,), (ONE,)),))
    registry.apply(None, MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}))
    broker = BrokerContext(
        config=BrokerConfig(),
        node_id=ONE,
        clock=lambda: Millis(0),
        metadata=NOT_THERE,
        log_directory=folder.directory,
        partitions=registry,
        fetch_sessions=FetchSessionCache(10),
        groups=NOT_THERE,
        transactions=NOT_THERE,
        transaction_markers=NOT_THERE,
        transaction_verifier=NOT_THERE,
        ensure_internal_topic=NOT_THERE,
    )
    connection = ConnectionInfo("10.0.0.1", "10.0.0.1:50000", "reached", 1234)
    return RequestContext(broker, connection, ApiKey.FETCH, VERSION, "app")


@in_loop
async def test_consumers_that_wait_for_one_partition_are_answered_some_at_a_time(tmp_path: Path) -> None:
    """An append wakes all of them. Between their answers the loop has time for other requests, and all get the
    record."""
    folder = LogFolder(tmp_path)
    context = new_context(folder)
    wanted = FetchPartition(0, -1, 0, -1, -1, MAX_BYTES)
    request = FetchRequest(-1, LONG_MS, 1, MAX_BYTES, 0, 0, -1, [FetchTopic("orders", None, [wanted])], [])
    body = memoryview(encode_fetch_request(VERSION, request))
    waiting = [cast("asyncio.Future[Any]", fetch.handle_frame(context, body, 0)) for _ in range(CONSUMERS)]
    context.broker.partitions.get("orders", 0).append(batch(), NOW_MS)
    answered = [0]
    while answered[-1] < CONSUMERS:
        await asyncio.sleep(0)
        answered.append(sum(each.done() for each in waiting))
    assert max(later - earlier for earlier, later in pairwise(answered)) <= MOST_AT_ONCE
    answers = [decode_fetch_response(VERSION, memoryview(b"".join(each.result()))) for each in waiting]
    assert all(answer.topics[0].partitions[0].records for answer in answers)
    folder.close()


@in_loop
async def test_an_answer_has_eight_mebibytes_of_records_at_most(tmp_path: Path) -> None:
    """A consumer that waits for 50 MB gets them in several answers, so that none holds up other requests for long."""
    folder = LogFolder(tmp_path)
    context = new_context(folder)
    for _ in range(20):
        context.broker.partitions.get("orders", 0).append(batch(value=bytes(MAX_BYTES)), NOW_MS)
    sizes = []
    for offset in (0, 8):
        wanted = FetchPartition(0, -1, offset, -1, -1, FIFTY_MB)
        request = FetchRequest(-1, LONG_MS, FIFTY_MB, FIFTY_MB, 0, 0, -1, [FetchTopic("orders", None, [wanted])], [])
        body = fetch.handle_frame(context, memoryview(encode_fetch_request(VERSION, request)), 0)
        answer = decode_fetch_response(VERSION, memoryview(b"".join(in_memory(cast("list[Any]", body)))))
        sizes.append(len(answer.topics[0].partitions[0].records or b""))
    assert all(8 * MAX_BYTES < size <= 8 * 1024 * 1024 for size in sizes)
    folder.close()
