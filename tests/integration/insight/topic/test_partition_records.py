"""One partition is read to its end, also while it grows continuously."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import takewhile

from confluent_kafka import Producer

from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.topic.partition_records import END, PartitionReader
from klamm.testing import Broker

BUSY_S = 20


@contextmanager
def _busy(broker: Broker, topic: str) -> Iterator[threading.Event]:
    """Writes records continuously; the event is set when the writer has stopped."""
    stopped, stop, begun = threading.Event(), threading.Event(), threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        end = time.monotonic() + BUSY_S
        while time.monotonic() < end and not stop.is_set():
            producer.produce(topic, b"x", partition=0, on_delivery=lambda error, message: begun.set())
            producer.poll(0.001)
        producer.flush()
        stopped.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert begun.wait(BUSY_S)
        yield stopped
    finally:
        stop.set()
        thread.join()


def _reader(broker: Broker, *, follow: bool = False) -> PartitionReader:
    return PartitionReader(ClusterAccess(broker.bootstrap_servers), follow=follow)


def test_what_is_there_is_read_though_more_comes_all_the_time(broker: Broker, topic: str) -> None:
    """Existing records are read although new ones arrive continuously. `klamm group watch` and `explain` read the
    coordinator's log in this way."""
    with (
        _busy(broker, topic) as has_stopped,
        closing(_reader(broker, follow=True)) as reader,
    ):
        end = reader.bounds(topic, 0)[1]
        reader.start(topic, 0)
        found = list(reader.available(BUSY_S))
        assert len(found) >= end > 0
        assert not has_stopped.is_set()


def test_the_end_is_told_though_it_moves_on(broker: Broker, topic: str) -> None:
    """Reading reports the end that the log had at the start, and then continues with later records. `klamm log replay`
    stops at that end."""
    with (
        _busy(broker, topic) as has_stopped,
        closing(_reader(broker)) as reader,
    ):
        records = reader.read(topic, 0)
        first = [message.offset() for message in takewhile(lambda message: message is not END, records) if message]
        assert not has_stopped.is_set()
        following = next(message.offset() for message in records if message is not None)
        assert [*first, following] == [*range(len(first) + 1)]


def test_an_empty_partition_ends_at_once(broker: Broker, topic: str) -> None:
    """Reading an empty partition ends without waiting."""
    with closing(_reader(broker)) as reader:
        assert next(reader.read(topic, 1)) is END
        reader.start(topic, 1)
        assert list(reader.available(BUSY_S)) == []
