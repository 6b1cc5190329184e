"""Writes the records for the handlers of records: at once, or at a fixed rate.

A fixed rate needs a process of its own: `python -m bench.record_producer OPTIONS`. Otherwise the bench's own threads
would make the records come unevenly.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, Final

from confluent_kafka import Producer

from bench.peers import PeerUnavailable

__all__ = ["main", "produce", "start_producer"]

_SIZE_BYTES: Final = 100


def produce(bootstrap: str, topic: str, count: int, rate: float | None = None) -> None:
    """Writes records, at once or `rate` records per second. Raises PeerUnavailable."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0 if rate else 20})
    began = time.monotonic()
    for number in range(count):
        if rate is not None and (wait := began + number / rate - time.monotonic()) > 0:
            time.sleep(wait)
        while True:
            try:
                producer.produce(topic, bytes(_SIZE_BYTES), _key(number))
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    if producer.flush(60):
        raise PeerUnavailable(f"the broker did not take all records of {topic}")


def _key(number: int) -> bytes:
    return b"hot" if number % 20 == 0 else b"key-%d" % (number % 100)


def start_producer(bootstrap: str, topic: str, count: int, rate: float, delay_s: float) -> subprocess.Popen[bytes]:
    """Starts a process that writes `rate` records in a second, from `delay_s` seconds on."""
    options = {"bootstrap": bootstrap, "topic": topic, "count": count, "rate": rate, "delay_s": delay_s}
    return subprocess.Popen([sys.executable, "-m", "bench.record_producer", json.dumps(options)])


def main() -> None:
    """Writes the records that the command line describes."""
    options: dict[str, Any] = json.loads(sys.argv[1])
    time.sleep(options.pop("delay_s"))
    produce(**options)


if __name__ == "__main__":
    main()
