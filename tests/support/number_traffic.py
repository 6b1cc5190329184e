"""A producer of good and bad records that goes on while a test strikes: numbers as JSON, some of them twice."""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer
from tests.support.spark_topics import Topic

__all__ = ["NumberTraffic", "Origin"]

_PATIENCE_S: Final = 60
_MOST_PARTITIONS: Final = 8


class Origin(NamedTuple):
    """The place of a record in the topic."""

    partition: int
    offset: int


class NumberTraffic:
    """Produces in a thread until `stop`, and adds a partition every `growth_s` seconds."""

    def __init__(self, topic: Topic, source: random.Random, *, partitions: int, growth_s: float) -> None:
        self.acknowledged: Final[dict[Origin, str | None]] = {}
        """The values of all records that are in the topic."""
        self.partitions = partitions
        self._topic = topic
        self._random = source
        self._growth_s = growth_s
        self._numbers = 0
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the traffic; all of its records are acknowledged."""
        self._stopped.set()
        self._thread.join(2 * _PATIENCE_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error

    def good(self) -> list[tuple[int, int, int]]:
        """Returns partition, offset and number of each good record."""
        found = []
        for origin, value in self.acknowledged.items():
            if value is not None and value.startswith("{") and (number := json.loads(value)["number"]) >= 0:
                found.append((origin.partition, origin.offset, number))
        return found

    def bad(self) -> dict[Origin, str | None]:
        """Returns the records that are no JSON, have a negative number, or have no value."""
        good = {Origin(partition, offset) for partition, offset, _ in self.good()}
        return {origin: value for origin, value in self.acknowledged.items() if origin not in good}

    def _work(self) -> None:
        try:
            self._produce()
        except BaseException as error:
            self._error = error

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._topic.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "partitioner": "random",
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )
        grows_at = time.monotonic() + self._growth_s
        while not self._stopped.is_set():
            for _ in range(self._random.randrange(30)):
                value = self._value()
                producer.produce(self._topic.name, value, on_delivery=self._note)
                producer.poll(0)
            if time.monotonic() > grows_at and self.partitions < _MOST_PARTITIONS:
                grows_at += self._growth_s
                self.partitions += 1
                self._topic.grow(self.partitions)
            producer.poll(0)
            time.sleep(self._random.uniform(0, 0.5))
        assert producer.flush(_PATIENCE_S) == 0

    def _value(self) -> str | None:
        kind = self._random.random()
        if kind < 0.03:
            return None
        if kind < 0.07:
            return f"no JSON {kind}"
        if kind < 0.10:
            return json.dumps({"number": -1})
        if kind < 0.20 and self._numbers:
            return json.dumps({"number": self._random.randrange(self._numbers)})
        self._numbers += 1
        return json.dumps({"number": self._numbers - 1})

    def _note(self, error: Any, message: Any) -> None:
        assert error is None, error
        value = message.value()
        self.acknowledged[Origin(message.partition(), message.offset())] = None if value is None else value.decode()
