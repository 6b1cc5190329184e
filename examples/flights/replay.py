"""Replays the year into the topic: each flight at its moment, a year in the given time.

python -m examples.flights.replay -b 127.0.0.1:9092 --seconds 30

With --from and --to, it writes the flights of a part of the year.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from examples.flights.data import Flight, load_flights, records_of

__all__ = ["FLIGHTS_TOPIC", "PARTITIONS", "Replay", "create_topics", "part_of"]

FLIGHTS_TOPIC: Final = "flights"
PARTITIONS: Final = 6
TICK_S: Final = 0.02
SHORTEST: Final = 3


def create_topics(bootstrap_servers: str, *names: str) -> None:
    """Creates topics of six partitions, without retention by time: the flights' timestamps are of 2013.

    Raises KafkaException.
    """
    topics = [
        NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1"}) for name in names
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for created in admin.create_topics(topics).values():
        created.result()


class Replay(threading.Thread):
    """Writes the records in a thread of its own; `progress` tells how much of the year has passed, 0 to 1."""

    def __init__(self, bootstrap_servers: str, topic: str, records: Sequence[Flight], duration_s: float) -> None:
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
        self._records = records
        self._duration_s = duration_s
        self.progress = 0.0
        self.written = 0
        self.failure: str | None = None

    @property
    def moment_ms(self) -> int:
        """The replay's own clock: where in 2013 it is."""
        first, last = self._records[0].timestamp_ms, self._records[-2].timestamp_ms
        return int(first + self.progress * (last - first))

    @property
    def end(self) -> datetime:
        """The moment of the year's last flight."""
        return datetime.fromtimestamp(self._records[-2].timestamp_ms / 1000, UTC)

    def run(self) -> None:
        """Writes all records, the closing event last, and waits for the acknowledgements."""
        *year, closing = self._records
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


def part_of(records: Sequence[Flight], begin: datetime | None, end: datetime | None) -> list[Flight]:
    """Returns the records from `begin` to `end`; with an end, the closing event is not one of them."""
    return [
        record
        for record in records
        if (begin is None or record.timestamp_ms >= begin.timestamp() * 1000)
        and (end is None or record.timestamp_ms < end.timestamp() * 1000)
    ]


def main() -> int:
    """Creates the topic if it is missing, and writes the year into it. Returns 1 if a record was not written."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights.replay", description=__doc__)
    parser.add_argument(
        "-b",
        "--bootstrap-server",
        default=os.environ.get("KLAMM_BOOTSTRAP_SERVER", "127.0.0.1:9092"),
        metavar="HOST:PORT",
        help="default: $KLAMM_BOOTSTRAP_SERVER, else 127.0.0.1:9092",
    )
    parser.add_argument("--topic", default=FLIGHTS_TOPIC, help="default flights")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long it takes (default 30)")
    parser.add_argument("--from", dest="begin", type=_day, metavar="DAY", help="the first day (UTC)")
    parser.add_argument("--to", dest="end", type=_day, metavar="DAY", help="the day after the last one (UTC)")
    arguments = parser.parse_args()
    records = part_of(records_of(load_flights()), arguments.begin, arguments.end)
    if len(records) < SHORTEST:
        raise SystemExit(f"there are fewer than {SHORTEST} flights between these days; the flights are of 2013")
    try:
        create_topics(arguments.bootstrap_server, arguments.topic)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise SystemExit(f"the topic {arguments.topic} can't be created: {error.args[0].str()}") from None
    replay = Replay(arguments.bootstrap_server, arguments.topic, records, arguments.seconds)
    replay.start()
    replay.join()
    print(f"{replay.written:,} records written to the topic {arguments.topic}")
    if replay.failure is not None:
        print(f"the others were not written: {replay.failure}")
    return 0 if replay.failure is None else 1


def _day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


if __name__ == "__main__":
    raise SystemExit(main())
