"""Tests the low watermarks in the answers to DeleteRecords."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.handlers import delete_records
from klamm.broker.partitions.followers import Followers
from klamm.broker.partitions.partition import Partition
from klamm.broker.time_slices import finish_in_steps
from klamm.metadata.image import PartitionImage
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicPartition

ONE, TWO = BrokerId(1), BrokerId(2)


class _Port:
    """Broker 1 in a cluster of two live brokers."""

    node_id = ONE
    max_lag_ms = 1000

    def now_ms(self) -> float:
        return 0.0

    def live_epoch(self, broker_id: BrokerId) -> int | None:
        return int(broker_id)

    def propose(self, partition: Partition) -> None:
        """Ignores the proposal."""

    def give_up(self, topic_partition: TopicPartition) -> None:
        """Ignores the failure."""


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    """A partition with five committed records and a follower, whose log begins at offset 3; the leader's begins at
    4."""
    folder = LogFolder(tmp_path / "data")
    image = PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE, TWO), (ONE, TWO))
    log = folder.create()
    partition = Partition("orders", image, log)
    partition.replicate(Followers(image, partition.epoch_start_offset, _Port()))
    for _ in range(5):
        partition.append(batch(), NOW_MS)
    partition.follower_fetched(TWO, int(TWO), Offset(5), Offset(3))
    log.delete_records_before(Offset(4))
    yield partition
    folder.close()


def _delete(
    partition: Partition, offset: int, during: Any = None, refusal: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER
) -> tuple[int, int]:
    """Returns the error code and the low watermark of the answer; `during` is called while it waits, and `refusal` is
    the error for a partition that has resigned."""

    def get(topic: str, index: int) -> Partition:
        if not partition.leads:
            raise KafkaError(refusal, "")
        return partition

    registry = SimpleNamespace(by_name={}, get=get)
    metadata = SimpleNamespace(image=SimpleNamespace(brokers={ONE: None, TWO: None}))
    context: Any = SimpleNamespace(broker=SimpleNamespace(partitions=registry, metadata=metadata))
    topic = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000 if during else 0)

    async def handle() -> tuple[int, int]:
        if during is not None:
            asyncio.get_running_loop().call_soon(during)
        response = await finish_in_steps(delete_records.handle(context, request))
        (answer,) = response.topics[0].partitions
        return answer.error_code, answer.low_watermark

    return asyncio.run(handle())


def test_low_watermark_is_that_of_all_replicas(partition: Partition) -> None:
    """As in Kafka, the low watermark in the answer is the lowest log start offset of the live replicas, also if all of
    them have deleted what was asked before, and if one of them does not do so in time."""
    assert _delete(partition, 2) == (ErrorCode.NONE, 3)
    assert _delete(partition, 4) == (ErrorCode.REQUEST_TIMED_OUT, 3)


def test_there_is_no_low_watermark_without_the_leader(partition: Partition) -> None:
    """As in Kafka, a broker that loses the leadership while it waits for the followers answers no low watermark."""
    assert _delete(partition, 4, during=partition.resign) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_topic_that_is_deleted_meanwhile_is_unknown(partition: Partition) -> None:
    """As in Kafka, the answer for a partition that is deleted while the request waits for the followers is that there
    is no such partition: a client that looks for the leader would look in vain."""
    refusal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert _delete(partition, 4, during=partition.resign, refusal=refusal) == (refusal, -1)


def test_a_log_that_fails_meanwhile_is_told(partition: Partition) -> None:
    """As in Kafka, the answer for a log that fails while the request waits for the followers is that."""
    fail = partial(partition.log.mark_offline, "it fails")
    assert _delete(partition, 4, during=fail) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
