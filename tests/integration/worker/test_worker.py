"""Tests of workers with a real broker: handlers of each kind, dead letters, memory, commits, and rebalances."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.running_worker import (
    QUICK_GROUPS,
    committed,
    create_topic,
    new_worker,
    produce,
    read_all,
    running,
    wait_until,
)

from klamm.core.delivery.commit_text import decode_note
from klamm.protocol.types import Offset
from klamm.testing import Broker
from klamm.worker import Record, RecordFailed, Retry, Worker, WorkerError

PROTOCOLS: tuple[Any, ...] = ("classic", "consumer")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Runs a broker for all tests; each test has its own topics and group."""
    with Broker(config=QUICK_GROUPS) as running:
        yield running


@pytest.fixture
def servers(broker: Broker) -> str:
    """Returns the address of the broker."""
    return broker.bootstrap_servers


async def until(event: threading.Event) -> None:
    """Waits for the test, which runs in another thread."""
    while not event.is_set():  # noqa: ASYNC110  # an event of asyncio belongs to one thread
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_several_handlers_of_each_kind(servers: str, protocol: Any) -> None:
    """Coroutines, threads and batches in one worker handle and commit all records, each key in order."""
    topics = [f"{kind}-{protocol}" for kind in ("coroutine", "thread", "batch")]
    for topic in topics:
        create_topic(servers, topic, 3)
        produce(servers, topic, ((b"%d" % (number % 7), b"%d" % number) for number in range(500)))
    app = new_worker(servers, f"kinds-{protocol}", protocol=protocol)
    seen: dict[str, list[Record]] = {topic: [] for topic in topics}

    @app.handler(topics[0], concurrency=20)
    async def coroutine(record: Record) -> None:
        await asyncio.sleep(0.001)
        seen[record.topic].append(record)

    @app.handler(topics[1], concurrency=4)
    def thread(record: Record) -> None:
        seen[record.topic].append(record)

    @app.handler(topics[2], batch=100, within=0.1)
    def batch(records: list[Record]) -> None:
        assert len({record.partition for record in records}) == 1
        seen[records[0].topic].extend(records)

    with running(app):
        wait_until(lambda: all(len(records) >= 500 for records in seen.values()), str(seen.keys()))
    for topic, records in seen.items():
        assert sorted(int(record.value) for record in records) == list(range(500))
        for key in range(7):
            values = [int(record.value) for record in records if record.key == b"%d" % key]
            assert values == sorted(values)
        total = sum(max(0, committed(servers, f"kinds-{protocol}", topic, index)[0]) for index in range(3))
        assert total == 500


def test_processes_that_die_or_hang(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies, fails or exceeds the deadline is a failed attempt; another process takes its place."""
    for topic in ("tasks", "slow-tasks", "tasks-failed"):
        create_topic(servers, topic)
    values = [b"a", b"die once", b"die", b"fail", b"b"]
    produce(servers, "tasks", ((value, value) for value in values))
    produce(servers, "tasks", [(b"x", b"\xff")])
    produce(servers, "slow-tasks", [(b"h", b"hang")])
    monkeypatch.setenv("POOL_BOOTSTRAP", servers)
    monkeypatch.setenv("POOL_FILE", str(tmp_path / "pool.txt"))
    # The module reads the address, which is another one if Apache Kafka runs this test too.
    monkeypatch.delitem(sys.modules, "tests.integration.worker.pool_handlers", raising=False)
    from tests.integration.worker.pool_handlers import app

    with running(app):
        letters = read_all(servers, "tasks-failed", 4)
    headers = {letter.key(): dict(letter.headers()) for letter in letters}
    reasons = {key: of_letter["klamm.reason"] for key, of_letter in headers.items()}
    assert reasons[b"die"] == b"the process died with exit code 3"
    assert reasons[b"fail"] == b"ValueError: as told"
    assert reasons[b"x"].startswith(b"the value does not decode: UnicodeDecodeError")
    assert headers[b"x"]["klamm.attempts"] == b"1"
    assert reasons[b"h"] == b"the deadline is over; the process was killed"
    lines = [line.split(maxsplit=1) for line in (tmp_path / "pool.txt").read_text().splitlines()]
    calls = sorted(what for _, what in lines)
    assert calls == ["a 1", "b 1", "die 1", "die 2", "die once 1", "die once 2", "fail 1", "fail 2"]
    assert str(os.getpid()) not in {process for process, _ in lines}
    assert committed(servers, "pool", "tasks")[0] == 6


def test_a_commit_names_what_is_finished_beyond_it(servers: str) -> None:
    """The next member handles only what was not finished, also where the ranges are many."""
    create_topic(servers, "ranges")
    produce(servers, "ranges", ((b"%d" % number, b"%d" % number) for number in range(400)))
    calls: list[int] = []
    release = threading.Event()

    def declare(app: Worker) -> None:
        @app.handler("ranges", concurrency=300)
        async def handle(record: Record) -> None:
            calls.append(record.offset)
            if record.offset % 3 == 0:
                await until(release)

    first = new_worker(servers, "ranges", drain=0.5)
    declare(first)

    def has_ranges() -> bool:
        offset, text = committed(servers, "ranges", "ranges")
        return offset == 0 and sum(end - begin for begin, end in decode_note(Offset(0), text).finished) == 266

    with running(first):
        wait_until(has_ranges)
    release.set()
    before = sorted(calls)
    second = new_worker(servers, "ranges")
    declare(second)
    with running(second):
        wait_until(lambda: committed(servers, "ranges", "ranges")[0] == 400)
    repeated = [offset for offset in calls if calls.count(offset) > 1]
    assert before == list(range(400))
    assert sorted(set(repeated)) == list(range(0, 400, 3))


def test_a_broker_that_accepts_little_metadata(servers: str) -> None:
    """The worker learns how much metadata the broker accepts, and then begins no more records than fit."""
    with Broker(config={**QUICK_GROUPS, "offset.metadata.max.bytes": "200"}) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, "small")
        produce(servers, "small", ((b"%d" % (number if number % 3 else 0), b"x") for number in range(60_000)))
        app = new_worker(servers, "small", commit_every=0.05)
        begun = handled = 0
        release = threading.Event()

        @app.handler("small", concurrency=50)
        async def handle(record: Record) -> None:
            nonlocal begun, handled
            begun += 1
            if record.offset == 0:
                await until(release)
            await asyncio.sleep(0 if release.is_set() else 0.01)
            handled += 1

        with running(app):
            wait_until(lambda: committed(servers, "small", "small")[1].startswith("klamm1:"))
            # Only the first record runs. The other records of its key leave a gap at every third offset.
            wait_until(lambda: [each.running for each in app.progress()] == [1] and begun == handled + 1)
            assert begun < 39_000
            release.set()
            wait_until(lambda: committed(servers, "small", "small")[0] == 60_000)
        assert handled == 60_000


def test_a_hot_key_is_named_and_other_partitions_go_on(servers: str) -> None:
    """With a full window the partition goes at the pace of its hot key; memory is bounded."""
    create_topic(servers, "hot", 2)
    produce(servers, "hot", ((b"hot", b"x" * 100) for _ in range(2000)), partition=0)
    produce(servers, "hot", ((b"%d" % number, b"x") for number in range(2000)), partition=1)
    app = new_worker(servers, "hot", drain=0.5)
    others = 0
    release = threading.Event()

    @app.handler("hot", concurrency=10, window=400)
    async def handle(record: Record) -> None:
        nonlocal others
        if record.key == b"hot":
            await until(release)
        else:
            others += 1

    with running(app):
        wait_until(lambda: others == 2000)
        # The first commit may come before the handler is called for the first time.
        wait_until(lambda: decode_note(Offset(0), committed(servers, "hot", "hot", 0)[1]).attempts)
        note = decode_note(Offset(0), committed(servers, "hot", "hot", 0)[1])
        assert (note.hot_key, note.attempts) == (b"hot", 1)
        assert note.in_flight == note.hot_records
        assert note.in_flight <= 400
        release.set()
        wait_until(lambda: committed(servers, "hot", "hot", 0)[0] == 2000)


def test_the_bytes_of_a_window_contain_headers(servers: str) -> None:
    """With large headers, no more records are in flight than `window_bytes` allows, plus one read."""
    create_topic(servers, "headers")
    produce(servers, "headers", ((b"%d" % number, b"") for number in range(1000)), headers=[("trace", b"x" * 1000)])
    app = new_worker(servers, "headers")
    release = threading.Event()

    @app.handler("headers", window=400, window_bytes=50_000)
    async def handle(record: Record) -> None:
        await until(release)

    with running(app):
        wait_until(lambda: sum(each.paused for each in app.progress()) == 1)
        (progress,) = app.progress()
        assert progress.in_flight <= 50 + 100
        assert 50_000 <= progress.in_flight_bytes <= 160_000
        release.set()
        wait_until(lambda: committed(servers, "headers", "headers")[0] == 1000)


def test_threads_keep_the_order_of_a_partition(servers: str) -> None:
    """With `order="partition"`, two records of one partition never run at once, and those of several do."""
    create_topic(servers, "strict", 3)
    for partition in range(3):
        produce(servers, "strict", ((b"%d" % number, b"x") for number in range(50)), partition=partition)
    app = new_worker(servers, "strict")
    lock = threading.Lock()
    running_now: set[int] = set()
    first_of_all = threading.Barrier(3)
    offsets: dict[int, list[int]] = {partition: [] for partition in range(3)}

    @app.handler("strict", order="partition", concurrency=8)
    def handle(record: Record) -> None:
        with lock:
            assert record.partition not in running_now
            running_now.add(record.partition)
            offsets[record.partition].append(record.offset)
        if record.offset == 0:
            first_of_all.wait(60)  # raises an error unless the first records of all partitions run at once
        time.sleep(0.005)
        with lock:
            running_now.remove(record.partition)

    with running(app):
        wait_until(lambda: all(committed(servers, "strict", "strict", each)[0] == 50 for each in range(3)))
    assert offsets == {partition: list(range(50)) for partition in range(3)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_move_while_records_run(servers: str, protocol: Any) -> None:
    """A second worker gets partitions after the first one has drained and committed: nothing runs twice."""
    topic = f"moves-{protocol}"
    create_topic(servers, topic, 4)
    produce(servers, topic, ((b"%d" % (number % 40), b"%d" % number) for number in range(2000)))
    calls: list[tuple[int, int]] = []
    workers: list[int] = []

    def declare(app: Worker, name: int) -> None:
        @app.handler(topic, concurrency=8, window=100)
        async def handle(record: Record) -> None:
            calls.append((record.partition, record.offset))
            workers.append(name)
            # The first worker must not be at the end before the second one has its partitions.
            is_slow = name == 0 and len(calls) > 200 and workers.count(1) <= 100
            await asyncio.sleep(0.3 if is_slow else 0.01)

    apps = [new_worker(servers, topic, protocol=protocol) for _ in range(2)]
    for name, app in enumerate(apps):
        declare(app, name)
    with running(apps[0]):
        wait_until(lambda: len(calls) > 200)
        with running(apps[1]):
            wait_until(lambda: workers.count(1) > 100)
            wait_until(lambda: len(calls) >= 2000)
    assert len(calls) == len(set(calls)) == 2000


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_paused_partition_that_is_lost_and_comes_back(broker: Broker, protocol: Any) -> None:
    """A partition that was paused when it was lost is read again when it comes back."""
    servers, topic = broker.bootstrap_servers, f"paused-{protocol}"
    create_topic(servers, topic)
    produce(servers, topic, ((b"%d" % number, b"x") for number in range(300)))
    app = new_worker(servers, topic, protocol=protocol)
    release = threading.Event()
    cancelled = 0
    handled: set[int] = set()

    @app.handler(topic, concurrency=4, window=20)
    async def handle(record: Record) -> None:
        nonlocal cancelled
        try:
            await until(release)
        except asyncio.CancelledError:
            cancelled += 1
            raise
        handled.add(record.offset)

    with running(app):
        wait_until(lambda: sum(each.paused for each in app.progress()) == 1)
        admin = AdminClient({"bootstrap.servers": servers})
        (member,) = admin.describe_consumer_groups([topic])[topic].result(10).members
        broker.fence(topic, member.member_id)
        wait_until(lambda: cancelled == 4)
        release.set()
        wait_until(lambda: len(handled) == 300, "the partition is still paused", 20)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_handler_longer_than_the_poll_interval(servers: str, protocol: Any) -> None:
    """The member keeps its partitions, and the record is handled once."""
    topic = f"long-{protocol}"
    create_topic(servers, topic)
    produce(servers, topic, [(b"a", b"1"), (b"a", b"2")])
    settings = {"max.poll.interval.ms": 6_000}
    if protocol == "classic":
        settings["session.timeout.ms"] = 6_000  # no longer than the interval, which librdkafka demands
    app = new_worker(servers, topic, protocol=protocol, drain=1, settings=settings)
    calls: list[bytes] = []

    @app.handler(topic)
    def handle(record: Record) -> None:
        calls.append(record.value)
        if record.value == b"1":
            time.sleep(8)

    with running(app):
        wait_until(lambda: committed(servers, topic, topic)[0] == 2)
    assert calls == [b"1", b"2"]


def test_a_record_without_dead_letters_ends_the_worker(servers: str) -> None:
    """The error names the record; the others are committed."""
    create_topic(servers, "ends")
    produce(servers, "ends", [(b"a", b"good"), (b"b", b"bad")])
    app = new_worker(servers, "ends")

    @app.handler("ends", retries=Retry(1))
    async def handle(record: Record) -> None:
        if record.value == b"bad":
            raise ValueError("bad")

    with pytest.raises(RecordFailed, match="offset 1 of ends-0"), running(app) as thread:
        thread.join(30)
    assert committed(servers, "ends", "ends")[0] == 1


def test_a_dead_letter_that_can_not_be_written_ends_the_worker(servers: str) -> None:
    """A dead letter that the producer refuses does not lose the record."""
    create_topic(servers, "large")
    produce(servers, "large", [(b"a", b"x" * 500_000)])
    app = new_worker(servers, "large", settings={"message.max.bytes": 1000})

    @app.handler("large", retries=Retry(1), dead_letters="large-failed")
    async def handle(record: Record) -> None:
        raise ValueError("bad")

    with pytest.raises(WorkerError, match="can't be written to large-failed"), running(app) as thread:
        thread.join(30)
    assert committed(servers, "large", "large")[0] <= 0


def test_a_commit_has_the_leader_epoch_of_the_last_handled_record() -> None:
    """As with Kafka's consumers, a consumer that continues at the commit can find out that the log was truncated."""
    go_on = threading.Event()
    with Broker(config=QUICK_GROUPS) as broker:
        servers = broker.bootstrap_servers
        create_topic(servers, "epochs")
        produce(servers, "epochs", [(b"a", b"0"), (b"a", b"1")])
        broker.stop()
        broker.start()  # a start raises the leader epoch
        produce(servers, "epochs", [(b"a", b"2"), (b"a", b"3")])

        def commit() -> tuple[int, int | None]:
            found = Consumer({"bootstrap.servers": servers, "group.id": "epochs"})
            (partition,) = found.committed([TopicPartition("epochs", 0)], timeout=10)
            found.close()
            return partition.offset, partition.leader_epoch

        app = new_worker(servers, "epochs")

        @app.handler("epochs", concurrency=1)
        async def handle(record: Record) -> None:
            if record.offset == 2:
                await until(go_on)

        with running(app):
            wait_until(lambda: commit() == (2, 0), "the commit before the record that takes long")
            go_on.set()
            wait_until(lambda: commit() == (4, 1), "the last commit")
