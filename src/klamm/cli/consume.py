"""`klamm consume`: read records and print them, in kcat's format language or as rows.

Without -g it reads every partition by itself and leaves no trace on the broker. With -g it joins that group: it
shares the partitions with the group's other members, goes on where the group stands, and commits what it has printed.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, NoReturn

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from klamm.cli.arguments import natural_number, partition_index, timestamp_ms
from klamm.cli.connection import TIMEOUT_S, add_cluster_options, cluster_error, connect, partitions_of, translate
from klamm.cli.errors import ClusterError, UsageError
from klamm.cli.output import add_output_option
from klamm.cli.record_format import Printer, column_header, column_printer, compile_format, json_printer

__all__ = ["configure", "run"]

POLL_S: Final = 0.5
COMMIT_INTERVAL_S: Final = 5.0


class Start(NamedTuple):
    """Where to begin: one of the fields is set."""

    name: str | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


def start(text: str) -> Start:
    """The value of --from."""
    if text in ("earliest", "latest"):
        return Start(name=text)
    if re.fullmatch(r"-?\d+", text):
        return Start(offset=int(text))
    try:
        return Start(timestamp_ms=timestamp_ms(text))
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"takes earliest, latest, an offset, -N, or a time such as 2026-01-31T12:00:00, not {text!r}"
        ) from None


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `klamm consume`."""
    parser.add_argument("topics", nargs="+", metavar="topic")
    parser.add_argument("-g", "--group", help="join this consumer group")
    parser.add_argument(
        "-p",
        "--partition",
        type=partition_index,
        action="append",
        help="only this partition; may be repeated (not with -g)",
    )
    parser.add_argument(
        "--from",
        dest="start",
        type=start,
        metavar="WHERE",
        help="earliest (default), latest, an offset, -N for the last N of each partition, or a time such as "
        "2026-01-31T12:00:00; with -g only earliest and latest, for partitions without a commit",
    )
    parser.add_argument("-n", "--max-records", type=natural_number, help="stop after so many records")
    parser.add_argument("-e", "--exit-at-end", action="store_true", help="stop when every partition is read to its end")
    parser.add_argument(
        "-f",
        "--format",
        type=compile_format,
        help="%%t topic, %%p partition, %%o offset, %%k key, %%s value, %%T timestamp in ms, %%h headers, %%K and %%S "
        r"sizes of key and value, %%%% a percent sign, \n, \t",
    )
    add_cluster_options(parser)
    add_output_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints records until the limit, the end, SIGINT or SIGTERM.

    Raises KlammError when the cluster refuses.
    """
    if arguments.group is not None and arguments.partition:
        raise UsageError("-p can't be used with -g: the group decides who reads which partition")
    if arguments.group is not None and arguments.start is not None and arguments.start.name is None:
        raise UsageError(
            "with -g, --from is earliest or latest, for partitions without a commit; `klamm group reset` moves a group"
        )
    # A consumer that is told to stop still commits what it has printed.
    signal.signal(signal.SIGTERM, _interrupt)
    settings: dict[str, Any] = {
        "group.id": arguments.group or "klamm-consume",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": (arguments.start and arguments.start.name) or "earliest",
        "enable.partition.eof": True,
    }
    consumer = connect(arguments, Consumer, **settings)
    try:
        session = _GroupSession(arguments, consumer) if arguments.group is not None else _Session(arguments, consumer)
        session.run(_printer(arguments))
    finally:
        consumer.close()
    return 0


def _interrupt(signal_number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _printer(arguments: argparse.Namespace) -> Printer:
    if arguments.format is not None:
        printer: Printer = arguments.format
        return printer
    if arguments.output == "json":
        return json_printer
    is_for_people = arguments.output == "table"
    sys.stdout.buffer.write(column_header(str.upper if is_for_people else str))
    return column_printer("none" if is_for_people else "")


class _Session:
    """Reads partitions of its own choice."""

    def __init__(self, arguments: argparse.Namespace, consumer: Consumer) -> None:
        self.arguments = arguments
        self.consumer = consumer
        self._ended: set[tuple[str, int]] = set()
        self._begin()

    def run(self, show: Printer) -> None:
        """Prints until the limit or the end is reached, or somebody interrupts."""
        try:
            for message in self._messages():
                sys.stdout.buffer.write(show(message))
                self._printed(message)
        except KeyboardInterrupt:
            pass
        sys.stdout.flush()
        self._finished()

    def _begin(self) -> None:
        self.consumer.assign(_starting_points(self.arguments, self.consumer))

    def _printed(self, message: Message) -> None:
        """A record was printed."""

    def _passed(self) -> None:
        """A moment has passed."""

    def _finished(self) -> None:
        """The last record was printed and flushed."""

    def _forget_ends(self) -> None:
        self._ended.clear()

    def _messages(self) -> Iterator[Message]:
        left = self.arguments.max_records
        while left is None or left > 0:
            message = self.consumer.poll(POLL_S)
            self._passed()
            if message is None:
                sys.stdout.flush()
                continue
            place = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                self._ended.discard(place)
                if left is not None:
                    left -= 1
                yield message
            elif error.code() != KafkaError._PARTITION_EOF:
                raise cluster_error(self.arguments, error)
            else:
                sys.stdout.flush()
                self._ended.add(place)
                assigned = {(partition.topic, partition.partition) for partition in self.consumer.assignment()}
                if self.arguments.exit_at_end and assigned <= self._ended:
                    return


class _GroupSession(_Session):
    """Reads what its group gives it, and commits what it has printed."""

    def _begin(self) -> None:
        for topic in self.arguments.topics:
            partitions_of(self.arguments, self.consumer, topic)  # a subscription would wait for it without a word
        self._committed_s = time.monotonic()
        self.consumer.subscribe(self.arguments.topics, on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget_ends()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()

    def _printed(self, message: Message) -> None:
        self.consumer.store_offsets(message)

    def _passed(self) -> None:
        if time.monotonic() - self._committed_s > COMMIT_INTERVAL_S:
            self._commit()

    def _finished(self) -> None:
        self._commit()

    def _commit(self) -> None:
        """Commits what was printed, never what may still be lost on the way out."""
        sys.stdout.flush()
        self._committed_s = time.monotonic()
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # there is nothing new
                print(f"klamm consume: not committed: {error.args[0].str()}", file=sys.stderr)


def _starting_points(arguments: argparse.Namespace, consumer: Consumer) -> list[TopicPartition]:
    points: list[TopicPartition] = []
    for topic in arguments.topics:
        partitions = partitions_of(arguments, consumer, topic)
        missing = set(arguments.partition or ()).difference(partitions)
        if missing:
            raise ClusterError(f"topic {topic} has no partition {min(missing)}, only 0 to {len(partitions) - 1}")
        points += [
            _starting_point(arguments, consumer, TopicPartition(topic, partition))
            for partition in sorted(set(arguments.partition or partitions))
        ]
    return points


def _starting_point(arguments: argparse.Namespace, consumer: Consumer, place: TopicPartition) -> TopicPartition:
    where: Start = arguments.start or Start(name="earliest")
    offset = OFFSET_END if where.name == "latest" else OFFSET_BEGINNING
    if where.offset is not None:
        low, high = translate(arguments, lambda: consumer.get_watermark_offsets(place, timeout=TIMEOUT_S))
        offset = min(max(low, where.offset if where.offset >= 0 else high + where.offset), high)
    elif where.timestamp_ms is not None:
        moment = TopicPartition(place.topic, place.partition, where.timestamp_ms)
        found = translate(arguments, lambda: consumer.offsets_for_times([moment], timeout=TIMEOUT_S))[0]
        offset = found.offset if found.offset >= 0 else OFFSET_END
    return TopicPartition(place.topic, place.partition, offset)
