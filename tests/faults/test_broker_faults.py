"""Tests a broker that is killed under load, or whose disk is full, fails or loses power: acknowledged records stay,
once and in order."""

from __future__ import annotations

import errno
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.load import ROUNDS, TOPIC, Keeper, Writer, check_logs, create, endure, read_all
from tests.interop.broker_process import BrokerProcess
from tests.support import faulty_disk
from tests.support.faulty_disk import FaultyDisk

CONFIG = {"offsets.topic.num.partitions": "1", "num.partitions": "2", "log.segment.bytes": "1048576"}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker process for one test."""
    yield from _serve(tmp_path, CONFIG)


def _serve(
    folder: Path, config: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Iterator[BrokerProcess]:
    process = BrokerProcess(folder, config, environment)
    yield process
    if process.is_running:
        process.stop()
    assert "Traceback" not in process.log(), process.log()[-4000:]


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    """The disk of the processes that `on_disk` starts."""
    reason = faulty_disk.why_not()
    if reason is not None:
        pytest.skip(reason)
    (tmp_path / "disk").mkdir()
    return FaultyDisk(tmp_path / "disk", tmp_path / "data")


@pytest.fixture
def on_disk(tmp_path: Path, disk: FaultyDisk) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts a broker process with its data on the disk: on_disk(**keys with underscores for dots)."""
    processes: list[Iterator[BrokerProcess]] = []

    def start(**config: str) -> BrokerProcess:
        keys = {name.replace("_", "."): value for name, value in config.items()}
        serving = _serve(tmp_path, CONFIG | keys, disk.environment)
        processes.append(serving)
        return next(serving)

    yield start
    for serving in processes:
        assert next(serving, None) is None


def write_one(bootstrap_servers: str, value: str, topic: str = TOPIC, *, timeout_ms: int = 60_000) -> int | None:
    """Writes one record to partition 0 without retries, and returns the error code, or None."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "retries": 0,
            "log_level": 0,
            "linger.ms": 0,
            "acks": "all",
            "message.timeout.ms": timeout_ms,
        }
    )
    outcomes: list[int | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes.append(None if error is None else error.code())

    producer.produce(topic, value=value, partition=0, on_delivery=delivered)
    assert producer.flush(90) == 0
    return outcomes[0]


@pytest.mark.timeout(120 + 5 * ROUNDS)
def test_kill_under_load(process: BrokerProcess) -> None:
    """I1, I4, I8, I9, I10, I17 hold when the broker is killed with SIGKILL while a producer writes and a group
    commits."""
    endure(process, ROUNDS, Random(1), process.kill)


@pytest.mark.timeout(120 + 5 * ROUNDS)
@pytest.mark.parametrize("sync_ms", [0, 30])
def test_power_loss_under_load(on_disk: Callable[..., BrokerProcess], disk: FaultyDisk, sync_ms: int) -> None:
    """I1, I4, I8, I9, I10, I17 hold after a power failure with klamm.fsync=ack: acknowledged data is on the disk."""
    process = on_disk(klamm_fsync="ack")
    disk.slow_syncs(sync_ms)
    random = Random(sync_ms)

    def strike() -> None:
        process.kill()
        disk.power_off(random)

    rounds = max(ROUNDS // 2, 1)
    endure(process, rounds, random, strike)
    assert disk.syncs > rounds


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("torn_bytes", [0, 30, 100])
def test_writes_that_fail(on_disk: Callable[..., BrokerProcess], disk: FaultyDisk, error: int, torn_bytes: int) -> None:
    """I1, I4, I8, I9: a write that fails, torn or not, gets KAFKA_STORAGE_ERROR. Acknowledged records stay readable,
    and the partition accepts writes without a restart when the disk works again."""
    process = on_disk(num_partitions="1")
    create(process.bootstrap_servers, 1)
    assert write_one(process.bootstrap_servers, "0:before") is None
    disk.fail_writes(error, times=2, torn_bytes=torn_bytes, matching=f"/{TOPIC}-0/")
    for _ in range(2):
        assert write_one(process.bootstrap_servers, "1:" + "x" * 200) == KafkaError.KAFKA_STORAGE_ERROR
    assert read_all(process.bootstrap_servers, 1) == {0: ["0"]}
    assert write_one(process.bootstrap_servers, "2:after") is None
    assert read_all(process.bootstrap_servers, 1) == {0: ["0", "2"]}
    process.kill()
    process.start()
    assert read_all(process.bootstrap_servers, 1) == {0: ["0", "2"]}
    process.stop()
    assert check_logs(process.data_directory) > 0


@pytest.mark.parametrize("torn_bytes", [0, 100])
def test_commits_that_can_not_be_written(
    on_disk: Callable[..., BrokerProcess], disk: FaultyDisk, torn_bytes: int
) -> None:
    """I1, I8, I17: a group's offsets are the last acknowledged ones while commits fail, and after a crash."""
    process = on_disk()
    create(process.bootstrap_servers, 1)
    keeper = Keeper(process.bootstrap_servers)
    keeper.commit_for_sure()
    disk.fail_writes(errno.ENOSPC, times=2, torn_bytes=torn_bytes, matching="/__consumer_offsets-0/")
    keeper.commit()
    keeper.check()
    disk.heal()
    keeper.commit_for_sure()
    assert "append failed" in process.log()
    process.kill()
    process.start()
    keeper.check()
    keeper.close()
    process.stop()
    assert check_logs(process.data_directory) > 0


@pytest.mark.parametrize("fsync", ["os", "ack"])
def test_syncs_that_fail(on_disk: Callable[..., BrokerProcess], disk: FaultyDisk, fsync: str) -> None:
    """I4, I17: a failed sync takes the partition offline, which metadata shows; other partitions continue. After a
    restart, the partition accepts writes again."""
    process = on_disk(num_partitions="1", klamm_fsync=fsync)
    servers = process.bootstrap_servers
    create(servers, 1)
    keeper = Keeper(servers)
    keeper.commit_for_sure()
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    flushed = NewTopic("flushed", 1, 1, config={"flush.messages": "1"})
    admin.create_topics([flushed])["flushed"].result(60)
    assert write_one(servers, "0:before", "flushed") is None
    disk.fail_syncs(errno.EIO, times=1, matching="/flushed-0/")
    assert write_one(servers, "1:lost", "flushed") == KafkaError.KAFKA_STORAGE_ERROR
    disk.heal()
    described = admin.list_topics("flushed", timeout=30).topics["flushed"].partitions[0]
    assert described.leader == -1
    # Clients send nothing to a partition without a leader, so the record waits until its timeout.
    assert write_one(servers, "2:refused", "flushed", timeout_ms=1000) == KafkaError._MSG_TIMED_OUT
    assert write_one(servers, "3:elsewhere") is None
    assert "flushed-0 is offline: it can't be synced: [Errno 5]" in process.log()
    process.restart()
    assert write_one(servers, "4:again", "flushed") is None
    assert read_all(servers, 1) == {0: ["3"]}
    keeper.check()
    keeper.close()


def all_once(process: BrokerProcess, writer: Writer) -> None:
    """I4, I9, I10: checks that the log has every record of an idempotent producer once and in order, also after a
    kill."""
    assert writer.flush(90) == 0
    assert not writer.errors
    for _ in range(2):
        assert read_all(process.bootstrap_servers, 1) == {0: [str(number) for number in range(writer.sent)]}
        process.kill()
        process.start()
    process.stop()
    assert check_logs(process.data_directory) > 0


@pytest.mark.parametrize("torn_bytes", [0, 100])
def test_retries_outlast_writes_that_fail(
    on_disk: Callable[..., BrokerProcess], disk: FaultyDisk, torn_bytes: int
) -> None:
    """I10: retries of an idempotent producer write each record once after failed writes, torn or not."""
    process = on_disk(num_partitions="1")
    create(process.bootstrap_servers, 1)
    writer = Writer(process.bootstrap_servers)
    writer.send(100)
    assert writer.flush(60) == 0
    disk.fail_writes(errno.ENOSPC, times=3, torn_bytes=torn_bytes, matching=f"/{TOPIC}-0/")
    for _ in range(50):
        writer.send(10)
    assert writer.flush(60) == 0
    assert "No space left on device" in process.log()
    all_once(process, writer)


def test_retries_outlast_a_sync_that_fails(on_disk: Callable[..., BrokerProcess], disk: FaultyDisk) -> None:
    """I10: retries of an idempotent producer write each record once when a failed sync takes the partition offline
    until a restart."""
    process = on_disk(num_partitions="1", klamm_fsync="ack")
    create(process.bootstrap_servers, 1)
    writer = Writer(process.bootstrap_servers)
    writer.send(100)
    assert writer.flush(60) == 0
    disk.fail_syncs(errno.EIO, times=1, matching=f"/{TOPIC}-0/")
    writer.send(100)
    deadline = time.monotonic() + 60
    while f"{TOPIC}-0 is offline" not in process.log():
        assert time.monotonic() < deadline, "no sync has failed"
        writer.flush(0.1)
    disk.heal()
    process.restart()
    all_once(process, writer)


def test_retries_outlast_a_full_disk(process: BrokerProcess) -> None:
    """I10: retries of an idempotent producer write each record once after a full disk has room again."""
    create(process.bootstrap_servers, 1)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY))
    writer = Writer(process.bootstrap_servers, value_bytes=5_000)
    deadline = time.monotonic() + 60
    while "File too large" not in process.log():
        assert time.monotonic() < deadline, "the disk did not become full"
        writer.send(10)
        writer.flush(0.1)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    all_once(process, writer)


@pytest.mark.parametrize("is_old", [True, False], ids=["old segment", "active segment"])
def test_bits_that_fall_over(tmp_path: Path, is_old: bool) -> None:
    """I1, I8, I10, I17: a flipped bit below the recovery point takes its partition offline, and the log names file and
    offset. Other partitions, the group and the idempotent producer continue."""
    serving = _serve(tmp_path, CONFIG)
    process = next(serving)
    servers = process.bootstrap_servers
    create(servers, 2)
    writer = Writer(servers, value_bytes=400_000)
    while len(writer.acknowledged.get(0, [])) < 6:
        writer.send(2)
        assert writer.flush(60) == 0
    keeper = Keeper(servers)
    keeper.commit_for_sure()
    process.stop()
    files = sorted((process.data_directory / f"{TOPIC}-0").glob("*.log"))
    assert len(files) > 2
    damaged = files[0 if is_old else -1]
    with damaged.open("r+b") as file:
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 4]))
    process.start()
    reader = Producer({"bootstrap.servers": servers, "log_level": 0})
    assert reader.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[1].leader == 1
    _read_until_offline(servers, process)
    assert reader.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0].leader == -1
    assert f"{damaged} is damaged at offset" in process.log()
    keeper.check()
    keeper.close()
    for strike in (process.kill, process.stop):
        before = len(writer.acknowledged[1])
        deadline = time.monotonic() + 60
        while len(writer.acknowledged[1]) < before + 3:
            assert time.monotonic() < deadline, "nothing was acknowledged"
            writer.send(1)
            writer.flush(0.1)
        writer.send(4)
        strike()
        process.start()
    expected = [str(number) for number in range(writer.sent) if crc32(b"%d" % number) % 2 == 1]
    deadline = time.monotonic() + 60
    while len(writer.acknowledged[1]) < len(expected):
        assert time.monotonic() < deadline, "not all was acknowledged"
        writer.flush(0.1)
    assert not writer.errors
    assert read_all(servers, 2, first=1) == {1: expected}
    assert next(serving, None) is None


def _read_until_offline(servers: str, process: BrokerProcess) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    deadline = time.monotonic() + 60
    while "is damaged at offset" not in process.log():
        assert time.monotonic() < deadline, "the damage was not found"
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            assert set(value.split(b":")[1]) == set(b"x")
    consumer.close()


def test_full_disk(process: BrokerProcess) -> None:
    """I1, I4, I8, I17: writes to a full disk fail with KAFKA_STORAGE_ERROR, and acknowledged records stay readable.
    Writes succeed without a restart when the disk has room again. A limit on the process's file size simulates the
    disk."""
    create(process.bootstrap_servers, 1)
    keeper = Keeper(process.bootstrap_servers)
    keeper.commit_for_sure()
    pid = process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (700_000, resource.RLIM_INFINITY))
    writer = Producer({"bootstrap.servers": process.bootstrap_servers, "retries": 0, "log_level": 0, "linger.ms": 0})
    outcomes: list[int | None] = []
    stored: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcomes.append(None if error is None else error.code())
        if error is None:
            value = message.value()
            assert isinstance(value, bytes)
            stored.append(value.decode().split(":")[0])

    def write(number: int) -> None:
        writer.produce(TOPIC, value=f"{number}:{'x' * 50_000}", partition=0, on_delivery=delivered)
        assert writer.flush(60) == 0

    for number in range(20):
        write(number)
    assert None in outcomes
    assert KafkaError.KAFKA_STORAGE_ERROR in outcomes
    assert read_all(process.bootstrap_servers, 1)[0] == stored
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(1000)
    assert outcomes[-1] is None
    assert read_all(process.bootstrap_servers, 1)[0] == stored
    keeper.commit_for_sure()
    process.restart()
    assert read_all(process.bootstrap_servers, 1)[0] == stored
    keeper.check()
    keeper.close()
    process.stop()
    assert check_logs(process.data_directory) > 0
