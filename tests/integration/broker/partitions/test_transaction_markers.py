"""Transaction markers in very many partitions."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support.wire import Wire

from klamm.broker import time_slices
from klamm.broker.handlers import write_txn_markers
from klamm.broker.server import BrokerServer
from klamm.core.txn.markers import TransactionMarker
from klamm.metadata.service import NewTopic
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.schema.write_txn_markers_response import WriteTxnMarkersResponse
from klamm.protocol.types import Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition
from klamm.testing import Broker

TOPIC = "many"
MANY = 20


@pytest.fixture(autouse=True)
def _steps_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends each time slice as early as possible."""
    monkeypatch.setattr(time_slices, "STEP_S", -1.0)


async def make_topic(server: BrokerServer) -> None:
    assert server.context is not None
    await server.context.metadata.create_topics([NewTopic(TOPIC, partitions=MANY)])
    await server.context.partitions.settled()


async def most_at_once(server: BrokerServer) -> int:
    """Waits until each partition has its marker; returns the largest number of markers written between two other
    tasks."""
    assert server.context is not None
    partitions = [server.context.partitions.get(TOPIC, PartitionIndex(index)) for index in range(MANY)]
    most = written = 0
    while written < MANY:
        await asyncio.sleep(0)
        before, written = written, sum(partition.log.log_end_offset > 0 for partition in partitions)
        most = max(most, written - before)
    return most


def test_others_have_their_turn_while_a_transaction_ends() -> None:
    """Other tasks run while the coordinator writes markers to very many partitions."""

    async def end(server: BrokerServer) -> tuple[set[ErrorCode], int]:
        assert server.context is not None
        partitions = tuple(TopicPartition(TOPIC, PartitionIndex(index)) for index in range(MANY))
        marker = TransactionMarker(ProducerId(7), ProducerEpoch(0), 0, True, partitions, 2)
        writing = asyncio.ensure_future(server.context.transaction_markers.write_markers(marker))
        most = await most_at_once(server)
        return set((await writing).values()), most

    with Broker() as broker:
        broker.run_in_broker(make_topic)
        assert broker.run_in_broker(end) == ({ErrorCode.NONE}, 1)


def test_others_have_their_turn_while_an_administrators_markers_are_written() -> None:
    """Other tasks run while a WriteTxnMarkers request writes markers to very many partitions."""
    topic = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=list(range(MANY)))
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=7, producer_epoch=0, transaction_result=True, topics=[topic], coordinator_epoch=0
            )
        ]
    )
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire, ThreadPoolExecutor() as threads:
        broker.run_in_broker(make_topic)
        observed = threads.submit(broker.run_in_broker, most_at_once)
        answer = wire.call(WriteTxnMarkersResponse, 1, request)
        assert {each.error_code for each in answer.markers[0].topics[0].partitions} == {ErrorCode.NONE}
        assert observed.result() == 1


def test_a_request_may_have_more_markers_than_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each marker of a WriteTxnMarkers request has an outcome, also if only some of them wait together."""
    monkeypatch.setattr(write_txn_markers, "PARTITIONS_AT_ONCE", 3)
    monkeypatch.setattr(write_txn_markers, "_PARTS_UNDER_WAY", 4)
    topic = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=list(range(MANY + 1)))
    markers = [
        WritableTxnMarker(
            producer_id=producer_id, producer_epoch=0, transaction_result=True, topics=[topic], coordinator_epoch=0
        )
        for producer_id in (7, 8, 9)
    ]
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.run_in_broker(make_topic)
        answer = wire.call(WriteTxnMarkersResponse, 1, WriteTxnMarkersRequest(markers=markers))
    expected = dict.fromkeys(range(MANY), ErrorCode.NONE) | {MANY: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [
        (marker.producer_id, {each.partition_index: each.error_code for each in marker.topics[0].partitions})
        for marker in answer.markers
    ] == [(producer_id, expected) for producer_id in (7, 8, 9)]


def test_a_transaction_ends_while_another_one_waits() -> None:
    """A marker that is not committed yet holds up no marker of another transaction in the same request."""
    markers = [
        WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[index])],
            coordinator_epoch=0,
        )
        for producer_id, index in ((7, 0), (8, 1))
    ]
    may_commit = False

    async def hold_back(server: BrokerServer) -> None:
        assert server.context is not None
        server.context.partitions.get(TOPIC, 0).may_commit = lambda: may_commit

    async def until_marked(server: BrokerServer) -> None:
        assert server.context is not None
        marked: asyncio.Future[Offset] = asyncio.get_running_loop().create_future()
        partition = server.context.partitions.get(TOPIC, 1)
        partition.on_high_watermark(marked.set_result)
        if not partition.log.high_watermark:
            async with asyncio.timeout(10):
                await marked
        partition.off_high_watermark(marked.set_result)

    async def go_on(server: BrokerServer) -> None:
        assert server.context is not None
        server.context.partitions.get(TOPIC, 0).reconsider_high_watermark()

    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.run_in_broker(make_topic)
        broker.run_in_broker(hold_back)
        wire.send(ApiKey.WRITE_TXN_MARKERS, 1, encode(WriteTxnMarkersRequest(markers=markers), 1))
        broker.run_in_broker(until_marked)
        may_commit = True
        broker.run_in_broker(go_on)
        answer, _ = decode(WriteTxnMarkersResponse, 1, wire.receive(ApiKey.WRITE_TXN_MARKERS, 1))
    codes = [(each.producer_id, each.topics[0].partitions[0].error_code) for each in answer.markers]
    assert codes == [(7, ErrorCode.NONE), (8, ErrorCode.NONE)]
