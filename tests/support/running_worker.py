"""A worker that runs in a thread of the test, and what tests do around it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.group_coordinator import committed_by_group

from klamm.client.commit_metadata import metadata_of
from klamm.worker import Worker

__all__ = [
    "FAST",
    "QUICK_GROUPS",
    "committed",
    "create_topic",
    "new_worker",
    "produce",
    "read_all",
    "running",
    "wait_until",
]

FAST = {"heartbeat.interval.ms": 200}
"""Settings with which members notice a rebalance soon. No test waits for the end of a session, so it has its default
length: a member that gets no processor for seconds stays in the group."""
QUICK_GROUPS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
"""With this configuration a broker allows `FAST`, and members of the consumer protocol notice a rebalance soon too."""


def new_worker(servers: str, group: str, **options: Any) -> Worker:
    """Returns a worker that notices a rebalance soon and commits often."""
    settings = {**({} if options.get("protocol") == "consumer" else FAST), **options.pop("settings", {})}
    return Worker(servers, group=group, **{"commit_every": 0.2, "settings": settings, **options})


def create_topic(bootstrap: str, name: str, partitions: int = 1) -> None:
    """Creates a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)


def produce(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    settings: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> None:
    """Writes records, given as key and value.

    The producer is idempotent: the leader of a new partition may refuse the first batches for a moment, and then the
    producer sends them again behind later ones.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True, **settings})
    for key, value in records:
        producer.produce(topic, value, key, **options)
        producer.poll(0)
    assert producer.flush(30) == 0


@contextmanager
def running(app: Worker) -> Iterator[threading.Thread]:
    """Runs a worker in a thread, and stops it at the end. Raises what the worker raises."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            app.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        app.stop()
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def wait_until(is_so: Callable[[], object], what: str = "", seconds: float = 60) -> None:
    """Waits until something is so."""
    ends = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends, what or "the wait is over"
        time.sleep(0.02)


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> tuple[int, str]:
    """Returns the committed offset and its metadata; -1001 if there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = committed_by_group(consumer, [TopicPartition(topic, partition)])
        return found.offset, metadata_of(found)
    finally:
        consumer.close()


def read_all(bootstrap: str, topic: str, count: int) -> list[Any]:
    """Returns so many messages of a topic."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        found: list[Any] = []
        ends = time.monotonic() + 60
        while len(found) < count:
            assert time.monotonic() < ends, f"{len(found)} of {count} messages"
            found += consumer.consume(count, timeout=0.5)
        return found
    finally:
        consumer.close()
