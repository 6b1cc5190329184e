"""A task whose client knows an old leader, which still answers, reads from the leader that the planner knew."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.scripted_broker import FETCH, TOPIC_ID, ScriptedBroker
from tests.unit.spark.source.tasks.test_partition_reader import batch, offsets_in

from klamm.client.config import ClientConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchTopicResponse
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.fetch_response_encoder import encode_fetch_response
from klamm.protocol.schema.list_offsets_request import ListOffsetsRequest
from klamm.protocol.schema.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex, TopicPartition
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.tasks.partition_reader import shared_cluster
from klamm.spark.source.tasks.task_reader import read_task

VERSION = 18
OLD, NEW = LeaderEpoch(5), LeaderEpoch(6)
OLD_END, NEW_END = 10, 20
RANGE = OffsetRange(TopicPartition("t", PartitionIndex(0)), Offset(OLD_END + 5), Offset(NEW_END), TOPIC_ID, NEW)


@pytest.fixture
def brokers() -> Iterator[tuple[ScriptedBroker, ScriptedBroker]]:
    """The old leader, which has not heard of the new one and lacks its records, and the new leader."""
    with ScriptedBroker() as old, ScriptedBroker() as new:
        for broker, epoch, end in ((old, OLD, OLD_END), (new, NEW, NEW_END)):
            broker.on(FETCH, fetch_answer(epoch, end))
            broker.on(ListOffsetsRequest, offsets_answer(epoch, end))
        yield old, new


def metadata(brokers: tuple[ScriptedBroker, ScriptedBroker], leader: int, epoch: int) -> MetadataResponse:
    nodes = [
        MetadataResponseBroker(node_id=number, host=broker.address[0], port=broker.address[1])
        for number, broker in enumerate(brokers, 1)
    ]
    partition = MetadataResponsePartition(leader_id=leader, leader_epoch=epoch)
    return MetadataResponse(
        brokers=nodes, topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])]
    )


def error_for(asked_epoch: int, epoch: int) -> ErrorCode:
    if asked_epoch == epoch:
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_LEADER_EPOCH if asked_epoch > epoch else ErrorCode.FENCED_LEADER_EPOCH


def fetch_answer(epoch: int, end: int) -> Callable[[bytes], bytes]:
    def answer(body: bytes) -> bytes:
        request = decode_fetch_request(VERSION, memoryview(body), 1)
        topics = []
        for topic in request.topics:
            (asked,) = topic.partitions
            code = error_for(asked.current_leader_epoch, epoch)
            if code is ErrorCode.NONE and asked.fetch_offset > end:
                code = ErrorCode.OFFSET_OUT_OF_RANGE
            records = b"" if code or asked.fetch_offset >= end else batch(0, end)
            found = FetchPartitionResponse(0, code, end, end, 0, None, -1, records)
            topics.append(FetchTopicResponse(None, TOPIC_ID, [found]))
        return b"".join(encode_fetch_response(VERSION, 0, 0, topics))

    return answer


def offsets_answer(epoch: int, end: int) -> Callable[[ListOffsetsRequest], ListOffsetsResponse]:
    def answer(request: ListOffsetsRequest) -> ListOffsetsResponse:
        (asked,) = request.topics[0].partitions
        code = error_for(asked.current_leader_epoch, epoch)
        offset = -1 if code else end if asked.timestamp == -1 else 0
        found = ListOffsetsPartitionResponse(error_code=code, offset=offset)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    return answer


@pytest.mark.parametrize("ranges", [1, 2])
def test_an_old_leader_does_not_tell_that_records_are_lost(
    brokers: tuple[ScriptedBroker, ScriptedBroker], ranges: int
) -> None:
    """The task's client has read from the old leader, whose log is shorter than the range. The task waits until the
    metadata tell the leader of the plan, although the old leader and its metadata still answer, and reads all records;
    `failOnDataLoss` does not fire."""
    old, new = brokers
    config = ClientConfig((old.address,), default_api_timeout_ms=10_000, retry_backoff_ms=1, retry_backoff_max_ms=5)
    for broker in brokers:
        broker.on(MetadataRequest, *[lambda _: metadata(brokers, 1, OLD)] * 4, lambda _: metadata(brokers, 2, NEW))
    shared_cluster(config).ensure(["t"])
    task = [RANGE] if ranges == 1 else [RANGE._replace(end=Offset(17)), RANGE._replace(start=Offset(17))]

    found = list(read_task(config, task, LossPolicy(fail=True), include_headers=False))

    shared_cluster(config).close()
    assert sorted(offsets_in(found)) == list(range(OLD_END + 5, NEW_END))
    assert FETCH in dict(new.seen)


@pytest.mark.parametrize("ranges", [1, 2])
def test_an_old_leader_that_is_cut_off_names_itself_in_vain(
    brokers: tuple[ScriptedBroker, ScriptedBroker], ranges: int
) -> None:
    """The task's client is connected to the old leader only, which never hears of the new one. The task asks the other
    broker for the leader of the plan."""
    old, new = brokers
    config = ClientConfig((old.address,), default_api_timeout_ms=9_000, retry_backoff_ms=1, retry_backoff_max_ms=5)
    old.on(MetadataRequest, lambda _: metadata(brokers, 1, OLD))
    new.on(MetadataRequest, lambda _: metadata(brokers, 2, NEW))
    shared_cluster(config).ensure(["t"])
    task = [RANGE] if ranges == 1 else [RANGE._replace(end=Offset(17)), RANGE._replace(start=Offset(17))]

    found = list(read_task(config, task, LossPolicy(fail=True), include_headers=False))

    shared_cluster(config).close()
    assert sorted(offsets_in(found)) == list(range(OLD_END + 5, NEW_END))


def test_an_older_plan_is_read_from_the_newer_leader(brokers: tuple[ScriptedBroker, ScriptedBroker]) -> None:
    """A range that was planned before an election is read from the leader that won it."""
    config = ClientConfig((brokers[1].address,), retry_backoff_ms=1, retry_backoff_max_ms=5)
    for broker in brokers:
        broker.on(MetadataRequest, lambda _: metadata(brokers, 2, NEW))
    task = [RANGE._replace(leader_epoch=OLD)]

    found = list(read_task(config, task, LossPolicy(fail=True), include_headers=False))

    shared_cluster(config).close()
    assert offsets_in(found) == list(range(OLD_END + 5, NEW_END))
