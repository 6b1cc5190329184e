"""The broker reads partitions that move before their new owners fetch them."""

from __future__ import annotations

import asyncio
import ctypes
import mmap
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.patience import Limit

from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.warm_reads import PAGES_BYTES, WarmRead
from klamm.broker.server import BrokerServer
from klamm.broker.services.coordinators.warm_handover import WarmHandover
from klamm.core.group.events import GroupType, PartitionMove, TargetChosen
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex
from klamm.testing import Broker

RECORDS = 300


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Runs a broker for one test."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    """Creates a topic with two partitions; the second one has three batches of a hundred records."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 2)])[topic].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=1)
        if number % 100 == 99:
            producer.flush()
    return topic


def move(topic: str, offset: int | None, *, to: str | None = "b") -> TargetChosen:
    """Returns a target assignment that moves the topic's second partition to another member."""
    committed = None if offset is None else Offset(offset)
    moved = (PartitionMove(topic, PartitionIndex(1), "a", to, committed),)
    return TargetChosen("orders", GroupType.CONSUMER, 2, "uniform", {}, Millis(0), moved)


def warmed(broker: Broker, topic: str, *events: TargetChosen, index: int = 1, seconds: float = 60) -> WarmRead | None:
    """Handles the events; returns the partition's prepared read, or None after some seconds."""

    async def hand_over(server: BrokerServer) -> WarmRead | None:
        assert server.context is not None
        context = server.context
        WarmHandover(context.partitions, context.warm_reads).on_events(PartitionIndex(0), events)
        partition = context.partitions.get(topic, index)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await asyncio.sleep(0.01)
            if partition.warm_read is not None:
                break
        return partition.warm_read

    return broker.run_in_broker(hand_over)


def partition_of(broker: Broker, topic: str, index: int = 1) -> Partition:
    """Returns the broker's partition object."""

    async def get(server: BrokerServer) -> Partition:
        assert server.context is not None
        return server.context.partitions.get(topic, index)

    return broker.run_in_broker(get)


def read_from(broker: Broker, topic: str, offset: int, count: int) -> list[bytes]:
    """Reads `count` values from an offset on, through a client."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 1, offset)])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert isinstance(value, bytes)
        values.append(value)
    consumer.close()
    return values


def fill_first_partition(broker: Broker, topic: str) -> None:
    """Writes as many records to the first partition as the second one has."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=0)
    producer.flush()


def watch_what_is_taken(broker: Broker) -> list[Offset]:
    """Records the start offset of each prepared read that the broker hands out."""
    taken: list[Offset] = []

    async def watch(server: BrokerServer) -> None:
        assert server.context is not None
        warm_reads = server.context.warm_reads
        take = warm_reads.take

        def note(partition: Partition, read: WarmRead) -> bytes | memoryview:
            taken.append(read.offset)
            return take(partition, read)

        warm_reads.take = note  # type: ignore[method-assign]

    broker.run_in_broker(watch)
    return taken


def mover(
    broker: Broker, topic: str, on_assign: Callable[[Consumer, list[TopicPartition]], None] | None = None
) -> Consumer:
    """Returns a member of a group whose partitions move between members."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "movers",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    if on_assign is None:
        consumer.subscribe([topic])
    else:
        consumer.subscribe([topic], on_assign=on_assign)
    return consumer


def wait_for_warm_reads(broker: Broker, topic: str, indexes: set[int]) -> None:
    """Delays the first Fetch of partitions until their prepared reads are ready. Without the delay they nearly always
    are."""
    limit = Limit(60)
    for index in indexes:
        while partition_of(broker, topic, index).warm_read is None:
            assert not limit.is_over
            time.sleep(0.01)


def make_large_segments(broker: Broker, topic: str) -> list[Path]:
    """Creates a topic whose second partition has four segments of up to four batches of 900 kB; returns the segment
    files."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 2, config={"segment.bytes": "4000000"})])[topic].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(14):
        producer.produce(topic, bytes(900_000), partition=1)
        producer.flush()
    files = sorted((broker.data_dir / f"{topic}-1").glob("*.log"))
    assert len(files) == 4
    return files


def evict(file: Path) -> None:
    """Writes the file to the disk and asks the kernel to drop its pages from memory."""
    descriptor = os.open(file, os.O_RDWR)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def pages_in_memory(file: Path) -> list[bool]:
    """Returns for each page of the file whether the kernel has it in memory; reads no page."""
    libc = ctypes.CDLL(None, use_errno=True)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        states = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        first = ctypes.c_ubyte.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(first))
        failed = libc.mincore(address, ctypes.c_size_t(len(mapped)), states)
        del first  # The mapping can't be closed while a pointer to it exists.
        assert not failed, os.strerror(ctypes.get_errno())
        return [bool(state & 1) for state in states]


def test_a_partition_that_moves_is_read_from_the_committed_offset_on(broker: Broker, topic: str) -> None:
    """A partition that moves is read from the committed offset on, in whole batches. The first Fetch gets these
    batches, and they are handed out once."""
    ready = warmed(broker, topic, move(topic, 100))
    assert ready is not None
    assert (ready.offset, ready.end_offset) == (100, RECORDS)
    assert next(header.base_offset for _, header in iterate_batches(ready.records)) == 100
    assert read_from(broker, topic, 100, 200) == [str(number).encode() for number in range(100, RECORDS)]
    assert partition_of(broker, topic).warm_read is None


@pytest.mark.parametrize(
    "event_offset", [RECORDS, RECORDS + 5, None], ids=["nothing to read", "beyond the log", "no commit"]
)
def test_where_there_is_nothing_to_read_nothing_is_kept(broker: Broker, topic: str, event_offset: int | None) -> None:
    """No read is prepared at the end of the log, beyond it, or without a committed offset."""
    assert warmed(broker, topic, move(topic, event_offset), seconds=1) is None


def test_a_partition_that_nobody_gets_is_left_alone(broker: Broker, topic: str) -> None:
    """No read is prepared for a partition without a new owner, because the next owner is unknown."""
    assert warmed(broker, topic, move(topic, 100, to=None), seconds=1) is None


def test_a_read_serves_only_what_a_read_now_would_give(broker: Broker, topic: str) -> None:
    """A prepared read is not used for another offset, a smaller limit, a bound below its end, another leader epoch, or
    an offline log."""
    ready = warmed(broker, topic, move(topic, 100))
    assert ready is not None
    partition = partition_of(broker, topic)
    end = Offset(RECORDS)
    assert ready.serves(partition, 100, len(ready.records), end)
    assert not ready.serves(partition, 200, 10**6, end)
    assert not ready.serves(partition, 100, len(ready.records) - 1, end)
    assert not ready.serves(partition, 100, 10**6, Offset(200))
    assert not ready._replace(leader_epoch=LeaderEpoch(99)).serves(partition, 100, 10**6, end)

    async def take_offline(server: BrokerServer) -> bool:
        partition.log.mark_offline("a sync failed")
        return ready.serves(partition, 100, 10**6, end)

    assert not broker.run_in_broker(take_offline)


def test_a_member_that_joins_finds_its_partition_ready(broker: Broker, topic: str) -> None:
    """When a consumer group moves a partition to a new member, the partition's tail is read before the new member
    fetches it."""
    fill_first_partition(broker, topic)
    taken = watch_what_is_taken(broker)
    first = mover(broker, topic)
    deadline = time.monotonic() + 60
    behind = {0, 1}
    while behind:
        assert time.monotonic() < deadline
        behind -= {message.partition() for message in first.consume(100, 0.2) if message.offset() == RECORDS - 1}
    first.commit(offsets=[TopicPartition(topic, 0, 100), TopicPartition(topic, 1, 100)], asynchronous=False)

    def begin(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        wait_for_warm_reads(broker, topic, {each.partition for each in partitions})
        consumer.incremental_assign(partitions)

    second = mover(broker, topic, begin)
    while not taken and time.monotonic() < deadline:
        first.consume(10, 0.1)
        second.consume(10, 0.1)
    assert taken == [100]
    first.close()
    second.close()


def test_the_partition_of_a_member_that_leaves_is_ready_for_who_gets_it(broker: Broker, topic: str) -> None:
    """The partition of a member that has left has no owner when the new target is computed; its tail is read
    nevertheless."""
    fill_first_partition(broker, topic)
    taken = watch_what_is_taken(broker)
    deadline = time.monotonic() + 60
    orphans: set[int] = set()

    def begin(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        wait_for_warm_reads(broker, topic, orphans.intersection(each.partition for each in partitions))
        consumer.incremental_assign(partitions)

    stays, leaves = mover(broker, topic, begin), mover(broker, topic)
    while not len(stays.assignment()) == len(leaves.assignment()) == 1:
        assert time.monotonic() < deadline
        stays.consume(10, 0.1)
        leaves.consume(10, 0.1)
    (orphan,) = leaves.assignment()
    leaves.commit(offsets=[TopicPartition(topic, orphan.partition, 100)], asynchronous=False)
    orphans.add(orphan.partition)
    leaves.close()
    while not taken and time.monotonic() < deadline:
        stays.consume(10, 0.1)
    assert taken == [100]
    stays.close()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which pages of a file are in memory")
def test_the_pages_that_will_be_read_are_brought_in(broker: Broker) -> None:
    """The broker brings in the pages from the committed offset on, in each segment that they belong to, and no other
    pages."""
    files = make_large_segments(broker, "large")
    batches = iterate_batches(files[0].read_bytes())
    start = next(position for position, header in batches if header.base_offset == 2)
    sizes = [file.stat().st_size for file in files]
    last_end = PAGES_BYTES - (sizes[0] - start) - sizes[1]
    assert 0 < last_end < sizes[2] - mmap.PAGESIZE
    for file in files:
        evict(file)
        if any(pages_in_memory(file)):
            pytest.skip(f"the file system of {file} lets go of no pages")
    assert warmed(broker, "large", move("large", 2)) is not None

    def in_memory() -> list[list[bool]]:
        pages = [pages_in_memory(file) for file in files]
        pages[0] = pages[0][start // mmap.PAGESIZE :]  # Earlier pages may be in memory: a read searches for its batch.
        return pages

    last_page = -(-last_end // mmap.PAGESIZE)

    def wanted() -> list[bool]:
        pages = in_memory()
        return pages[0] + pages[1] + pages[2][:last_page]

    # The kernel reads ahead as well as it can, and may reclaim a page at any time: two of 2,050 were missing once.
    few = len(wanted()) // 100
    deadline = time.monotonic() + 30
    while wanted().count(False) > few and time.monotonic() < deadline:
        time.sleep(0.01)
    assert wanted().count(False) <= few
    others = in_memory()
    assert not any(others[2][last_page:] + others[3])
