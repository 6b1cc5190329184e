"""A topic with one hot key, records without a key, and binary keys."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import Producer

__all__ = ["HOT_KEY", "HOT_PARTITION", "RECORDS", "write_skewed_records"]

HOT_KEY: Final = "customer-17"
HOT_PARTITION: Final = 1
"""Where murmur2 puts the hot key, of three partitions."""
RECORDS: Final = 3_000


def write_skewed_records(bootstrap_servers: str, topic: str, **settings: Any) -> None:
    """Writes records to a topic with three partitions: half of them have the hot key."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random", **settings})
    for number in range(RECORDS):
        if number % 2 == 0:
            key: bytes | None = HOT_KEY.encode()
        elif number % 10 == 1:
            key = None
        else:
            key = b"\xff%d" % (number % 500)
        producer.produce(topic, b"v" * 100, key)
    producer.flush()
