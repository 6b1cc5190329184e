"""klamm.fsync: with `ack` a record is committed only after it is on the disk; with `interval` records are synced
periodically."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.wire import Wire

from klamm.broker.server import BrokerServer
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.produce import ProducePartitionResponse, ProduceRequest, ProduceTopic
from klamm.protocol.produce_client import decode_produce_response, encode_produce_request
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.schema.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from klamm.protocol.schema.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse, MetadataResponsePartition
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.types import Millis, TopicPartition
from klamm.storage.log.failed_sync import FAILED_SYNC_FILE
from klamm.storage.log.log import Log
from klamm.testing import Broker

VERSION = 9
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
REAL_FDATASYNC = os.fdatasync


class Disk:
    """A replacement for `fdatasync` that passes, waits or fails, and counts the calls for each partition."""

    def __init__(self) -> None:
        self._may_pass = threading.Event()
        self._may_pass.set()
        self.failing = ""
        self.syncs: list[str] = []

    def fdatasync(self, descriptor: int) -> None:
        folder = os.path.basename(os.path.dirname(os.readlink(f"/proc/self/fd/{descriptor}")))
        self.syncs.append(folder)
        if not self._may_pass.wait(60):
            raise TimeoutError("the test never let the disk go on")
        if self.failing and folder.startswith(self.failing):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        REAL_FDATASYNC(descriptor)

    def stop(self) -> None:
        self._may_pass.clear()

    def go_on(self) -> None:
        self._may_pass.set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Replaces `fdatasync` for the brokers of the test."""
    disk = Disk()
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
    yield disk
    disk.go_on()


@pytest.fixture
def broker(disk: Disk) -> Iterator[Broker]:
    """Runs a broker that acknowledges only records that are on the disk."""
    with Broker(config={"klamm.fsync": "ack", "offsets.topic.num.partitions": "1"}) as broker:
        yield broker
        disk.go_on()


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    """Opens a connection to the broker."""
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def create(wire: Wire, *names: str) -> None:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    response = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=topics, timeout_ms=10_000))
    assert all(topic.error_code == ErrorCode.NONE for topic in response.topics)


def request(topic: str = "orders", *, acks: int = -1, timeout_ms: int = 60_000, sequence: int = -1) -> ProduceRequest:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    records = encode_batch([(Millis(1_700_000_000_000), None, b"value", ())], **producer)  # type: ignore[arg-type]
    return ProduceRequest(None, acks, timeout_ms, [ProduceTopic(topic, None, [(0, memoryview(records))])])


def send(wire: Wire, produce: ProduceRequest) -> None:
    wire.send(ApiKey.PRODUCE, VERSION, encode_produce_request(VERSION, produce))


def receive(wire: Wire) -> ProducePartitionResponse:
    response = decode_produce_response(VERSION, wire.receive(ApiKey.PRODUCE, VERSION))
    return response.topics[0].partitions[0]


def has_answer(wire: Wire, within_s: float = 0.2) -> bool:
    """Returns whether a response has arrived; an early response has `within_s` seconds to show up."""
    wire.socket.settimeout(within_s)
    try:
        return bool(wire.socket.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        wire.socket.settimeout(60)


def wait_until(broker: Broker, condition: Callable[[Log], bool], topic: str = "orders") -> None:
    """Waits until the log of the topic's partition 0 meets the condition."""

    async def wait(server: BrokerServer) -> None:
        assert server.context is not None
        async with asyncio.timeout(60):
            while not condition(server.context.partitions.get(topic, 0).log):  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.005)

    broker.run_in_broker(wait)


def listed(wire: Wire, timestamp: int, *, version: int = 7, isolation_level: int = 0) -> tuple[int, int]:
    """Returns the error code and the offset of a ListOffsets response."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="orders", partitions=[partition])
    asked = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[topic])
    answer = wire.call(ListOffsetsResponse, version, asked).topics[0].partitions[0]
    return answer.error_code, answer.offset


def high_watermark_and_size(wire: Wire, topic: str = "orders") -> tuple[int, int]:
    """Returns the high watermark and the size of the records that a consumer can read."""
    partition = FetchPartition(0, -1, 0, -1, -1, 1_000_000)
    fetch = FetchRequest(-1, 0, 1, 1_000_000, 0, 0, -1, [FetchTopic(topic, None, [partition])], [])
    answer = wire.fetch(12, fetch).topics[0].partitions[0]
    return answer.high_watermark, len(answer.records or b"")


def test_an_answer_waits_for_the_disk(broker: Broker, disk: Disk, wire: Wire) -> None:
    """I4, I5: acks=all is answered, and consumers see a record, only after the record would survive a power failure."""
    create(wire, "orders")
    disk.stop()
    send(wire, request())
    with Wire(broker.bootstrap_servers) as other:
        wait_until(broker, lambda log: log.log_end_offset == 1)
        assert not has_answer(wire)
        assert high_watermark_and_size(other) == (0, 0)
        disk.go_on()
        answer = receive(wire)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        high_watermark, size = high_watermark_and_size(other)
        assert high_watermark == 1
        assert size > 0


def test_acks_1_does_not_wait(broker: Broker, disk: Disk, wire: Wire) -> None:
    """acks=1 is answered after the append, before the commit; consumers see the record only after the commit."""
    create(wire, "orders")
    disk.stop()
    answer = wire.produce(VERSION, request(acks=1)).topics[0].partitions[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    assert high_watermark_and_size(wire) == (0, 0)
    disk.go_on()
    wait_until(broker, lambda log: log.high_watermark == 1)


def test_requests_that_wait_at_the_same_time_share_a_sync(broker: Broker, disk: Disk, wire: Wire) -> None:
    """Group commit: all batches that arrive during a sync are in the next sync."""
    create(wire, "orders")
    disk.stop()
    send(wire, request())
    wait_until(broker, lambda log: log.log_end_offset == 1)
    others = [Wire(broker.bootstrap_servers) for _ in range(20)]
    for other in others:
        send(other, request())
    wait_until(broker, lambda log: log.log_end_offset == 21)
    disk.syncs.clear()
    disk.go_on()
    assert sorted(receive(other).base_offset for other in others) == list(range(1, 21))
    assert disk.syncs.count("orders-0") == 1
    for other in others:
        other.socket.close()


def test_a_retry_waits_as_the_first_try_does(broker: Broker, disk: Disk, wire: Wire) -> None:
    """I10: a retry waits for the sync too, although its batch is already in the log."""
    create(wire, "orders")
    disk.stop()
    send(wire, request(sequence=0))
    wait_until(broker, lambda log: log.log_end_offset == 1)
    with Wire(broker.bootstrap_servers) as again:
        send(again, request(sequence=0))
        assert not has_answer(again)
        disk.go_on()
        answer = receive(again)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


def test_a_disk_that_takes_too_long(broker: Broker, disk: Disk, wire: Wire) -> None:
    """A Produce that is not synced within its timeout gets REQUEST_TIMED_OUT; the record is committed later."""
    create(wire, "orders")
    disk.stop()
    answer = wire.produce(VERSION, request(timeout_ms=50)).topics[0].partitions[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    disk.go_on()
    wait_until(broker, lambda log: log.high_watermark == 1)


def test_a_commit_of_offsets_waits_for_the_disk(broker: Broker, disk: Disk, wire: Wire) -> None:
    """I17: an offset commit waits for the sync of the coordinator's partition, like any other append."""
    create(wire, "orders")
    found = wire.call(FindCoordinatorResponse, 2, FindCoordinatorRequest(key="group"))
    assert found.error_code == ErrorCode.NONE
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    commit = OffsetCommitRequest(group_id="group", topics=[topic])

    def try_commit() -> int:
        return wire.call(OffsetCommitResponse, 7, commit).topics[0].partitions[0].error_code

    while try_commit() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    partition.committed_offset = 6
    disk.stop()
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(try_commit()))
    thread.start()
    wait_until(broker, lambda log: log.log_end_offset > log.high_watermark, "__consumer_offsets")
    assert not results
    disk.go_on()
    thread.join(60)
    assert results == [ErrorCode.NONE]


def _described(wire: Wire, topic: str) -> MetadataResponsePartition:
    response = wire.call(MetadataResponse, 12, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    return response.topics[0].partitions[0]


def test_a_failed_sync_takes_the_partition_offline(broker: Broker, disk: Disk, wire: Wire) -> None:
    """A failed sync takes the partition offline.

    Waiting and later requests get KAFKA_STORAGE_ERROR, the sync is not retried, metadata shows the offline replica, and
    other partitions work. After a restart the log is read from the disk, and the partition accepts records again.
    """
    create(wire, "orders", "bills")
    assert wire.produce(VERSION, request()).topics[0].partitions[0].error_code == ErrorCode.NONE
    disk.failing = "orders"
    failed = wire.produce(VERSION, request()).topics[0].partitions[0]
    assert failed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.failing = ""
    assert wire.produce(VERSION, request()).topics[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert wire.produce(VERSION, request("bills")).topics[0].partitions[0].error_code == ErrorCode.NONE

    described = _described(wire, "orders")
    assert described.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (described.leader_id, described.offline_replicas, described.isr_nodes) == (-1, [1], [1])
    assert _described(wire, "bills").offline_replicas == []
    page = wire.call(
        DescribeTopicPartitionsResponse, 0, DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    )
    assert (page.topics[0].partitions[0].leader_id, page.topics[0].partitions[0].offline_replicas) == (-1, [1])
    folders = wire.call(DescribeLogDirsResponse, 4, DescribeLogDirsRequest(topics=None)).results
    assert [(folder.error_code, [topic.name for topic in folder.topics]) for folder in folders] == [
        (ErrorCode.NONE, ["bills"]),
        (ErrorCode.KAFKA_STORAGE_ERROR, []),
    ]
    assert folders[1].log_dir.endswith("/orders-0")

    mark = broker.data_dir / "orders-0" / FAILED_SYNC_FILE
    assert mark.exists()
    broker.stop()
    broker.start()
    assert not mark.exists()
    with Wire(broker.bootstrap_servers) as after:
        assert _described(after, "orders").leader_id == 1
        assert high_watermark_and_size(after)[0] >= 1
        assert after.produce(VERSION, request()).topics[0].partitions[0].error_code == ErrorCode.NONE


def test_a_coordinator_whose_disk_fails_is_none(broker: Broker, disk: Disk, wire: Wire) -> None:
    """A coordinator whose log is offline answers FindCoordinator with COORDINATOR_NOT_AVAILABLE and a commit with
    NOT_COORDINATOR; both codes are retriable."""
    create(wire, "orders")
    find = FindCoordinatorRequest(key="group")
    assert wire.call(FindCoordinatorResponse, 2, find).error_code == ErrorCode.NONE
    disk.failing = "__consumer_offsets"

    async def fail(server: BrokerServer) -> None:
        assert server.context is not None
        server.context.log_directory.logs[TopicPartition("__consumer_offsets", 0)].mark_offline("it is broken")  # type: ignore[arg-type]

    broker.run_in_broker(fail)
    assert wire.call(FindCoordinatorResponse, 2, find).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    commit = OffsetCommitRequest(
        group_id="group",
        topics=[OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition()])],
    )
    answer = wire.call(OffsetCommitResponse, 7, commit)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_what_was_found_at_the_start_is_synced_before_it_is_committed(disk: Disk, tmp_path: Path) -> None:
    """Records found at the start are synced before they are committed: after a crash they may exist only in the page
    cache."""
    with Broker() as before, Wire(before.bootstrap_servers) as wire:
        create(wire, "orders")
        assert wire.produce(VERSION, request()).topics[0].partitions[0].error_code == ErrorCode.NONE
        shutil.copytree(before.data_dir, tmp_path / "as-of-a-crash")
    disk.syncs.clear()
    with Broker(tmp_path / "as-of-a-crash", config={"klamm.fsync": "ack"}) as after:
        wait_until(after, lambda log: log.high_watermark == log.recovery_point == 1)
        assert disk.syncs.count("orders-0") == 1


def test_an_end_that_is_not_synced_yet_is_not_told(disk: Disk, tmp_path: Path) -> None:
    """ListOffsets returns no end offset until the records found at the start are synced, because the high watermark may
    be lower than before the crash. Clients retry, as after an election."""
    with Broker() as before, Wire(before.bootstrap_servers) as wire:
        create(wire, "orders")
        assert wire.produce(VERSION, request()).topics[0].partitions[0].error_code == ErrorCode.NONE
        shutil.copytree(before.data_dir, tmp_path / "as-of-a-crash")
    disk.stop()
    time_ms = 1_700_000_000_000
    with (
        Broker(tmp_path / "as-of-a-crash", config={"klamm.fsync": "ack"}) as after,
        Wire(after.bootstrap_servers) as wire,
    ):
        for isolation_level in (0, 1):
            assert listed(wire, LATEST, isolation_level=isolation_level) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert listed(wire, LATEST, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert listed(wire, time_ms) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert listed(wire, MAX_TIMESTAMP) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert listed(wire, EARLIEST) == (ErrorCode.NONE, 0)
        disk.go_on()
        wait_until(after, lambda log: log.high_watermark == 1)
        assert listed(wire, LATEST) == (ErrorCode.NONE, 1)
        assert listed(wire, time_ms) == (ErrorCode.NONE, 0)
        assert listed(wire, time_ms + 1) == (ErrorCode.NONE, -1)


def test_a_start_after_a_crash_notes_what_it_has_synced(disk: Disk, tmp_path: Path) -> None:
    """A start after a crash saves its recovery point after the sync. Otherwise a broker that crashes repeatedly would
    sync the same records at each start."""
    with Broker() as before, Wire(before.bootstrap_servers) as wire:
        create(wire, "orders")
        for _ in range(2):
            assert wire.produce(VERSION, request()).topics[0].partitions[0].error_code == ErrorCode.NONE
        shutil.copytree(before.data_dir, tmp_path / "as-of-a-crash")
    checkpoint = tmp_path / "as-of-a-crash" / "recovery-point-offset-checkpoint"
    assert not checkpoint.exists()
    config = {"klamm.fsync": "ack", "log.flush.offset.checkpoint.interval.ms": "3600000"}
    with Broker(tmp_path / "as-of-a-crash", config=config):
        deadline = time.monotonic() + 60
        while not checkpoint.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert "orders 0 2" in checkpoint.read_text(encoding="utf-8").splitlines()


def test_records_are_synced_at_intervals() -> None:
    """With klamm.fsync=interval records are synced without a roll, a flush or a stop."""
    with (
        Broker(config={"klamm.fsync": "interval", "klamm.fsync.interval.ms": "100"}) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        create(wire, "orders")
        for offset in range(2):
            assert wire.produce(VERSION, request()).topics[0].partitions[0].base_offset == offset
            wait_until(broker, lambda log, end=offset + 1: log.recovery_point == end)  # type: ignore[misc]
