"""One member of the queue, a process of its own, so that it can be killed: python -m examples.flights.member SERVERS
TOPIC GROUP NAME."""

from __future__ import annotations

import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException

COMMIT_INTERVAL_S = 0.5


def main(bootstrap_servers: str, topic: str, group: str, name: str) -> None:
    """Reads its share of the partitions until SIGTERM, and commits what it has read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "group.id": group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
        }
    )
    consumer.subscribe([topic])
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True

    signal.signal(signal.SIGTERM, stop)
    committed_s = time.monotonic()
    is_dirty = False
    while not stopped:
        messages = consumer.consume(num_messages=5000, timeout=0.2)
        is_dirty = is_dirty or any(message.error() is None for message in messages)
        if is_dirty and time.monotonic() - committed_s >= COMMIT_INTERVAL_S:
            committed_s = time.monotonic()
            is_dirty = False
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:  # a rebalance came in between: who gets the partition reads these again
                print(f"{name}: {error}", file=sys.stderr)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:5])
