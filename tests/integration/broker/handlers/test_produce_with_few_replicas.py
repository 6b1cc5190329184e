"""What a Produce request with acks=all is told when replicas leave the in-sync replicas before and after its append."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.patience import Limit
from tests.support.wire import Wire

from klamm.broker.partitions.batch_opener import BatchOpener, Opening
from klamm.broker.partitions.partition import Partition
from klamm.broker.server import BrokerServer
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProducePartitionResponse, ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import decode_produce_response, encode_produce_request
from klamm.protocol.records import encode_batch
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis
from klamm.testing import Cluster

TOPIC = "orders"
VERSION = 9
LEADER, FOLLOWER = 1, 2
TOO_MANY_AT_ONCE = 300
"""A request with so many partitions is handled in steps. The topic lacks most of them."""
PATIENCE_S = 30.0
SMALL, LARGE = b"x", b"x" * 600_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers and a topic with two partitions, which need both replicas and store records as gzip."""
    with Cluster(2, replication_factor=2, config={"min.insync.replicas": "2"}, session_timeout_ms=600) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        topic = NewTopic(TOPIC, 2, replica_assignment=[[LEADER, FOLLOWER]] * 2, config={"compression.type": "gzip"})
        admin.create_topics([topic])[TOPIC].result()
        yield running


def _until(is_true: Callable[[], bool]) -> None:
    limit = Limit(PATIENCE_S)
    while not is_true():
        assert not limit.is_over
        time.sleep(0.02)


def _partition(server: BrokerServer, index: int) -> Partition:
    assert server.context is not None
    return server.context.partitions.get(TOPIC, index)


def _is_alone(cluster: Cluster) -> bool:
    """Returns whether the leader knows that it is the only replica in sync, of both partitions."""

    async def find(server: BrokerServer) -> bool:
        return all(_partition(server, index).image.isr == (LEADER,) for index in (0, 1))

    return cluster.run_in_broker(LEADER, find)


def _offsets(cluster: Cluster) -> tuple[int, int]:
    """Returns high watermark and log end offset of the first partition."""

    async def find(server: BrokerServer) -> tuple[int, int]:
        log = _partition(server, 0).log
        return log.high_watermark, log.log_end_offset

    return cluster.run_in_broker(LEADER, find)


def _send(wire: Wire, *values: bytes, timeout_ms: int) -> None:
    """Sends one record for each of the first partitions, and waits for no answer."""
    now = Millis(time.time_ns() // 1_000_000)
    batches: list[tuple[int, memoryview | None]] = [
        (index, memoryview(encode_batch([(now, None, value, ())]))) for index, value in enumerate(values)
    ]
    request = ProduceRequest(None, -1, timeout_ms, [ProduceTopic(TOPIC, None, batches)])
    wire.send(ApiKey.PRODUCE, VERSION, encode_produce_request(VERSION, request))


def _receive(wire: Wire) -> list[ProducePartitionResponse]:
    (topic,) = decode_produce_response(VERSION, wire.receive(ApiKey.PRODUCE, VERSION)).topics
    return sorted(topic.partitions, key=lambda each: each.index)


def _hold_opening(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Large batches are opened from now on only when the returned event is set."""
    may_open = threading.Event()
    open_later = BatchOpener.open_later

    async def open_when_allowed(self: BatchOpener, opening: Opening[memoryview]) -> memoryview:
        await asyncio.to_thread(may_open.wait)
        return await open_later(self, opening)

    monkeypatch.setattr(BatchOpener, "open_later", open_when_allowed)
    return may_open


def test_codes_tell_whether_the_record_was_appended(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The in-sync replicas become too few between the two appends of a request. The answer to the first one is
    NOT_ENOUGH_REPLICAS_AFTER_APPEND, with the offset of the record. The second record is not in the log:
    NOT_ENOUGH_REPLICAS."""
    may_open = _hold_opening(monkeypatch)
    try:
        with Wire(cluster.address_of(LEADER)) as wire:
            _send(wire, SMALL, LARGE, timeout_ms=60_000)
            _until(lambda: _offsets(cluster) == (1, 1))
            cluster.kill(FOLLOWER)
            _until(lambda: _is_alone(cluster))
            may_open.set()
            first, second = _receive(wire)
    finally:
        may_open.set()
    assert (first.error_code, first.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)


async def _lead_again(server: BrokerServer) -> None:
    """Shows the broker that the follower leads the first partition, and then that it leads the partition itself."""
    assert server.context is not None
    registry, image = server.context.partitions, server.context.metadata.image
    before = _partition(server, 0)
    for leader in (FOLLOWER, LEADER):
        topic = image.topics[TOPIC]
        first = topic.partitions[0]
        first = replace(first, leader=BrokerId(leader), leader_epoch=LeaderEpoch(first.leader_epoch + 1))
        topic = replace(topic, partitions=(first, *topic.partitions[1:]))
        shown = replace(image, topics={**image.topics, TOPIC: topic})
        registry.apply(image, shown)
        await registry.settled()
        image = shown
    assert _partition(server, 0) is not before


@pytest.mark.parametrize("width", [2, TOO_MANY_AT_ONCE], ids=["narrow", "wide"])
def test_a_record_of_an_earlier_leadership_is_not_acknowledged(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Between the two appends of a request, the broker stops leading the first partition and leads it again. The log
    may have lost the first record meanwhile, so the client must send it again."""
    may_open = _hold_opening(monkeypatch)
    try:
        with Wire(cluster.address_of(LEADER)) as wire:
            _send(wire, SMALL, LARGE, *[SMALL] * (width - 2), timeout_ms=60_000)
            _until(lambda: _offsets(cluster) == (1, 1))
            cluster.run_in_broker(LEADER, _lead_again)
            may_open.set()
            first, second = _receive(wire)[:2]
    finally:
        may_open.set()
    assert (first.index, first.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (second.index, second.error_code, second.base_offset) == (1, 0, 0)


def test_a_record_is_not_acknowledged_while_replicas_are_missing(cluster: Cluster) -> None:
    """A record is appended and the follower dies before it has it. The high watermark stands still, so the request
    times out, and the record is committed when the follower is back."""
    cluster.cut(LEADER, FOLLOWER)
    with Wire(cluster.address_of(LEADER)) as wire:
        _send(wire, SMALL, timeout_ms=2_000)
        _until(lambda: _offsets(cluster) == (0, 1))
        cluster.kill(FOLLOWER)
        _until(lambda: _is_alone(cluster))
        (answer,) = _receive(wire)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert _offsets(cluster) == (0, 1)
    cluster.heal()
    cluster.restart(FOLLOWER)
    _until(lambda: _offsets(cluster) == (1, 1))
