"""Writes flights of the demo to a topic, a backlog or a steady stream, and reads what a pipeline makes of them.

Each thousandth record is cut off, so that dead letters are written as well. The field `carrier` has the time at which
the record was due in nanoseconds, which comes back in the pipeline's rows. Cancelled flights, of which the pipeline
makes no rows, are left out.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from examples.flights.data import encode_flights, load_flights

from bench.peers import PeerUnavailable
from bench.workload import PARTITIONS

__all__ = ["FlightLoad", "good_of", "read_rows"]

_GOOD_BEFORE_BAD: Final = 999
_CUT_BYTES: Final = 60
_FLIGHTS: Final = 50_000
"""The number of different flights, which are repeated."""
_DUE: Final = re.compile(rb'"carrier": ?"(\d+)"')
_NANOS: Final = 1_000_000_000
_ROWS_AT_ONCE: Final = 5000
_PATIENCE_S: Final = 300.0


def good_of(count: int) -> int:
    """Returns how many of `count` records in a row are good, if the first one is."""
    return count - count // (_GOOD_BEFORE_BAD + 1)


class FlightLoad:
    """Writes records to a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "log_level": 3})
        self._topic = topic
        flights = load_flights()
        encoded = encode_flights(flights[flights["arr_delay"].notna()].head(_FLIGHTS))
        self._parts = [(each.key, *re.split(rb'(?<="carrier": ")[^"]*', each.value)) for each in encoded]

    def write(self, count: int, rate: int | None = None) -> None:
        """Writes `count` records, at a steady rate if there is one, and waits for the broker."""
        began = time.monotonic_ns()
        for number in range(count):
            due = began if rate is None else began + number * _NANOS // rate
            wait_ns = due - time.monotonic_ns()
            if wait_ns > 0:
                self._producer.poll(0)
                time.sleep(wait_ns / _NANOS)
            key, before, after = self._parts[number % len(self._parts)]
            value = b"%b%d%b" % (before, due, after)
            if number % (_GOOD_BEFORE_BAD + 1) == _GOOD_BEFORE_BAD:
                value = value[:_CUT_BYTES]
            # Without a rate in runs for each partition: with one record in turn, batches would be small.
            self._produce(key, value, (number if rate is not None else number // 1000) % PARTITIONS)
        if self._producer.flush(_PATIENCE_S):
            raise PeerUnavailable(f"the broker did not take all records of {self._topic}")

    def write_in_background(self, count: int, rate: int) -> threading.Thread:
        """Starts to write at a steady rate."""
        thread = threading.Thread(target=self.write, args=(count, rate), daemon=True)
        thread.start()
        return thread

    def _produce(self, key: bytes, value: bytes, partition: int) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition=partition)
                return
            except BufferError:
                self._producer.poll(0.1)


def read_rows(
    bootstrap: str, topic: str, count: int, failure: Callable[[], str | None], *, one_by_one: bool = False
) -> Iterator[tuple[int, int]]:
    """Yields for each of `count` committed rows when it was due and when it arrived, in nanoseconds.

    `one_by_one` gives each row the exact time of its arrival, and is slow.
    Raises `PeerUnavailable` if none arrives for five minutes, or with `failure()` as soon as it returns a text.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, "log_level": 3}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    last_s = time.monotonic()
    try:
        while count:
            # With more than one, the client would wait until it has all of them, or for the timeout.
            messages = consumer.consume(1 if one_by_one else min(count, _ROWS_AT_ONCE), 0.1)
            now = time.monotonic_ns()
            for message in messages:
                value = None if message.error() else message.value()
                if value is not None and count:
                    found = _DUE.search(value)
                    assert found is not None
                    yield int(found[1]), now
                    count -= 1
                    last_s = time.monotonic()
            why = failure()
            if why is not None:
                raise PeerUnavailable(f"the pipeline has ended: {why}")
            if time.monotonic() - last_s > _PATIENCE_S:
                raise PeerUnavailable(f"no row arrived in {topic} for {_PATIENCE_S:g} s")
    finally:
        consumer.close()
