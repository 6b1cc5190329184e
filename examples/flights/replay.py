"""Replays the year into the topic: each flight at its moment, a year in so many seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer

from examples.flights.data import Flight

__all__ = ["Replay"]

TICK_S = 0.02


class Replay(threading.Thread):
    """Writes the flights in a thread of its own; `progress` tells how much of the year has passed, 0 to 1."""

    def __init__(self, bootstrap_servers: str, topic: str, flights: Sequence[Flight], duration_s: float) -> None:
        super().__init__(name="replay", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": 0,  # the broker stops before its clients do, and that is no news
                "enable.idempotence": True,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        self._topic = topic
        self._flights = flights
        self._duration_s = duration_s
        self.progress = 0.0
        self.written = 0
        self.failure: str | None = None

    @property
    def moment_ms(self) -> int:
        """The replay's own clock: where in 2013 it is."""
        first, last = self._flights[0].timestamp_ms, self._flights[-2].timestamp_ms
        return int(first + self.progress * (last - first))

    def run(self) -> None:
        """Writes everything, the closing event last, and waits for the acknowledgements."""
        *year, closing = self._flights
        first, span = year[0].timestamp_ms, year[-1].timestamp_ms - year[0].timestamp_ms
        began = time.monotonic()
        position = 0
        while position < len(year):
            self.progress = min(1.0, (time.monotonic() - began) / self._duration_s)
            now_ms = first + self.progress * span
            while position < len(year) and year[position].timestamp_ms <= now_ms:
                self._send(year[position])
                position += 1
            self._producer.poll(TICK_S)
        self._producer.flush()  # the closing event must come after everything else, in every partition
        self._send(closing)
        self._producer.flush()

    def _send(self, flight: Flight) -> None:
        self._producer.produce(
            self._topic, value=flight.value, key=flight.key, timestamp=flight.timestamp_ms, on_delivery=self._delivered
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = self.failure or error.str()
        else:
            self.written += 1
