"""A real group that one hot partition limits: its owner is slow, and the other members have time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, Producer

__all__ = ["HOT_PARTITION", "group_with_hot_partition"]

HOT_PARTITION: Final = 1
_ARRIVING_PER_S: Final = 200
_SLOW_S: Final = 0.05
"""How long a member takes for a record of the hot partition: it does at most 20 records a second."""


@contextmanager
def group_with_hot_partition(
    bootstrap_servers: str, topic: str, group: str, *, members: int, **settings: Any
) -> Iterator[None]:
    """Runs members of a group, and a producer that writes nearly all records to one partition, until the end."""
    stop = threading.Event()
    threads = [threading.Thread(target=_produce, args=(bootstrap_servers, topic, stop))]
    threads += [
        threading.Thread(
            target=_consume,
            args=(bootstrap_servers, topic, group, f"member-{number}"),
            kwargs={"stop": stop, "settings": settings},
        )
        for number in range(members)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _produce(bootstrap_servers: str, topic: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 10})
    count = 0
    began_s = time.monotonic()
    while not stop.wait(0.05):
        while count < (time.monotonic() - began_s) * _ARRIVING_PER_S:
            partition = (0, 2)[count // 20 % 2] if count % 20 == 0 else HOT_PARTITION
            producer.produce(topic, b"value", f"key-{count % 3}".encode(), partition=partition)
            count += 1
        producer.poll(0)
    producer.flush(10)


def _consume(
    bootstrap_servers: str, topic: str, group: str, name: str, *, stop: threading.Event, settings: dict[str, Any]
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is None or message.error() is not None:
            continue
        if message.partition() == HOT_PARTITION:
            time.sleep(_SLOW_S)
        consumer.commit(message=message, asynchronous=False)
    consumer.close()
