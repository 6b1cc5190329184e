"""Tests that other users of the machine can't read a broker's files, with any umask."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.hostile.resident_memory import wait_until
from tests.interop.broker_process import BrokerProcess

CONFIG = {
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.segment.delete.delay.ms": "3600000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture
def stop_at_the_end() -> Iterator[Callable[[BrokerProcess], None]]:
    """Stops a broker after its test, also when the test fails."""
    brokers: list[BrokerProcess] = []
    yield brokers.append
    for broker in brokers:
        broker.stop()


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Sets the umask to 0, so that started processes remove no permissions."""
    before = os.umask(0)
    yield
    os.umask(before)


def write_all_kinds(bootstrap_servers: str, folder: Path) -> None:
    """Makes the broker write segments, indexes, an aborted transaction, producer snapshots, checkpoints, cleaned files
    and offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = [NewTopic("events", 1, 1), NewTopic("gone", 1, 1), NewTopic("compacted", 1, 1, config=COMPACTED)]
    for future in admin.create_topics(topics).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "writer"})
    producer.init_transactions(30)
    for ends in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(100):
            producer.produce("events", value=f"{number}" * 100)
            producer.produce("compacted", key=f"{number % 3}", value=f"{number}" * 20)
            producer.flush(30)
        ends(30)
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("events", 0, 5)], asynchronous=False)
    consumer.close()
    admin.delete_topics(["gone"])["gone"].result(30)
    wait_until((folder / "cleaner-offset-checkpoint").exists)


def others_may_read(folder: Path) -> dict[str, str]:
    """Returns the files and folders that other users have a permission for, with their modes."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # the broker replaced a checkpoint
            mode = path.stat().st_mode
            if mode & 0o077:
                found[str(path.relative_to(folder))] = stat.filemode(mode)
    return found


@pytest.mark.usefixtures("open_umask")
def test_only_the_owner_may_read_what_is_stored(
    tmp_path: Path, stop_at_the_end: Callable[[BrokerProcess], None]
) -> None:
    """Folders have mode 0700 and files 0600: while the broker runs, after a stop, after a kill, and after restarts."""
    broker = BrokerProcess(tmp_path, CONFIG)
    stop_at_the_end(broker)
    folder = broker.data_directory
    write_all_kinds(broker.bootstrap_servers, folder)
    assert {path.suffix for path in folder.rglob("*")} >= {".log", ".index", ".timeindex", ".sqlite", ".snapshot"}
    assert others_may_read(folder) == {}
    broker.restart()
    assert any(folder.rglob("*.txnindex"))
    assert others_may_read(folder) == {}
    broker.kill()
    broker.start()
    broker.stop()
    assert others_may_read(folder) == {}


@pytest.mark.usefixtures("open_umask")
def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    """An existing data folder keeps its mode, which may allow a group; only the broker's user can read what is made in
    it."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o750)
    broker = BrokerProcess(tmp_path, {})
    broker.stop()
    assert others_may_read(folder) == {".": "drwxr-x---"}
