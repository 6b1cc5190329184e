"""Requests for one topic of two brokers, and scenarios that send them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from tests.support.two_brokers import NOW_MS, TwoBrokers

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

__all__ = [
    "LONG_MS",
    "TOPIC",
    "batch",
    "begin",
    "commit_request",
    "committed",
    "fetch_request",
    "produce_request",
    "run",
]

TOPIC: Final = "orders"
LONG_MS: Final = 60_000


def run(path: Path, scenario: Callable[[TwoBrokers], Coroutine[Any, Any, None]], **config: Any) -> None:
    """Runs a scenario with two brokers; a minute is far more than it needs, also on a busy machine."""

    async def play() -> None:
        async with asyncio.timeout(60), TwoBrokers.start(path, **config) as brokers:
            await scenario(brokers)

    asyncio.run(play())


def batch(value: bytes = b"value", **options: Any) -> bytes:
    return encode_batch([(NOW_MS, b"key", value, ())], **options)


def produce_request(*batches: bytes, acks: int = -1, topic: str = TOPIC) -> ProduceRequest:
    partitions: list[tuple[int, memoryview | None]] = [
        (index, memoryview(records)) for index, records in enumerate(batches)
    ]
    return ProduceRequest(None, acks, LONG_MS, [ProduceTopic(topic, None, partitions)])


def fetch_request(offset: int = 0, *, epoch: int = -1, wait_ms: int = LONG_MS, partitions: int = 1) -> FetchRequest:
    wanted = [FetchPartition(index, epoch, offset, -1, -1, 1_000_000) for index in range(partitions)]
    return FetchRequest(-1, wait_ms, 1, 1_000_000, 0, 0, -1, [FetchTopic(TOPIC, None, wanted)], [])


def commit_request(offset: int, group_id: str = "group") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])])


async def committed(brokers: TwoBrokers, node_id: int) -> tuple[ErrorCode, int]:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=topics)])
    (group,) = (await brokers.ask(node_id, OffsetFetchResponse, 8, request)).groups
    if group.error_code:
        return ErrorCode(group.error_code), -1
    return ErrorCode.NONE, group.topics[0].partitions[0].committed_offset


async def begin(request: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Starts a request that has to wait."""
    task = asyncio.ensure_future(request)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    return task
