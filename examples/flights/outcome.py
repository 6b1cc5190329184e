"""Reads what the pipeline has written, as any other program would: topics with a consumer, files with pyarrow.

It also reads what the members of the queue have noted.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from examples.flights.expected import ARRIVALS_COLUMNS, DELAYS_COLUMNS
from klamm import KlammError
from klamm.pipelines import written_files

if TYPE_CHECKING:
    import pandas

__all__ = ["DeadLetter", "read_arrivals", "read_dead_letters", "read_delays", "read_handled"]

PATIENCE_S: Final = 60.0


class DeadLetter(NamedTuple):
    """A record that the pipeline could not use."""

    reason: str
    origin: str
    """Its topic, partition and offset."""
    value: bytes


def read_delays(bootstrap_servers: str, topic: str) -> pandas.DataFrame:
    """Returns the committed records of the topic as a table. Raises KlammError."""
    import pandas

    rows = [
        {"airport": (message.key() or b"").decode(), **json.loads(message.value() or b"")}
        for message in _records(bootstrap_servers, topic)
    ]
    return pandas.DataFrame(rows, columns=DELAYS_COLUMNS)


def read_dead_letters(bootstrap_servers: str, topic: str) -> list[DeadLetter]:
    """Returns the dead letters. Raises KlammError."""
    found = []
    for message in _records(bootstrap_servers, topic):
        headers = {name: value.decode() for name, value in _headers(message)}
        origin = f"{headers['klamm.topic']}-{headers['klamm.partition']} at offset {headers['klamm.offset']}"
        found.append(DeadLetter(headers["klamm.reason"], origin, message.value() or b""))
    return found


def read_arrivals(folder: Path) -> pandas.DataFrame:
    """Returns the rows of the files that the pipeline has finished. Raises KlammError."""
    import pandas
    from pyarrow import dataset

    files = dataset.dataset(written_files(str(folder)), format="parquet", partitioning="hive")
    table: pandas.DataFrame = files.to_table().to_pandas()
    table["time"] = pandas.to_datetime(table["time"], utc=True)
    table["month"] = table["month"].astype(str)  # the folder's name has it, not the file
    return table[ARRIVALS_COLUMNS]


def read_handled(folder: Path) -> Counter[tuple[int, int]]:
    """Returns how often the queue's members have handled each record, by partition and offset."""
    handled: Counter[tuple[int, int]] = Counter()
    for file in folder.iterdir():
        # The kill of a member may cut its last line.
        whole, _, _ = file.read_text(encoding="ascii").rpartition("\n")
        for line in whole.splitlines():
            partition, offset = line.split()
            handled[int(partition), int(offset)] += 1
    return handled


def _headers(message: Message) -> list[tuple[str, bytes]]:
    return cast("list[tuple[str, bytes]]", message.headers() or [])


def _records(bootstrap_servers: str, topic: str) -> Iterator[Message]:
    """Yields the committed records of the topic that the group `report` has not read yet, and commits at the end.

    Raises KlammError if that takes too long or is not possible.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "group.id": "report",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        has_read = False
        rest = set(consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)
        consumer.subscribe([topic])
        while rest:
            if time.monotonic() > deadline_s:
                raise KlammError(f"the topic {topic} was not read to its end")
            for message in consumer.consume(num_messages=5000, timeout=0.2):
                error = message.error()
                if error is None:
                    has_read = True
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    rest.discard(message.partition() or 0)
                else:
                    raise KlammError(f"the topic {topic} can't be read: {error.str()}")
        if has_read:
            consumer.commit(asynchronous=False)
    except KafkaException as error:
        raise KlammError(f"the topic {topic} can't be read, or the offsets can't be committed: {error}") from error
    finally:
        consumer.close()
