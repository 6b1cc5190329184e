"""`klamm consume`: read records and print them, in kcat's format language or as rows.

Without -g it assigns all partitions to itself and leaves no trace on the broker. With -g it joins that group: it shares
the partitions with the other members, continues at the group's offsets, and commits the printed records.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from klamm.cli.arguments import natural_number, partition_index
from klamm.cli.cluster_options import access_of, add_cluster_options, partitions_of
from klamm.cli.errors import UsageError
from klamm.cli.output import add_output_option
from klamm.cli.records.leader_watch import LeaderWatch
from klamm.cli.records.record_format import Printer, column_header, column_printer, compile_format, json_printer
from klamm.cli.records.starting_points import start, starting_points
from klamm.cli.standard_output import StandardOutput

__all__ = ["configure", "run"]

_POLL_S: Final = 0.5
_COMMIT_INTERVAL_S: Final = 5.0
_AT_END_WAIT_MS: Final = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `klamm consume`."""
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
    add_cluster_options(parser, names_groups=True)
    add_output_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints records until the limit, the end, SIGINT or SIGTERM.

    Raises KlammError if the cluster refuses a request.
    """
    if arguments.group is not None and arguments.partition:
        raise UsageError("-p can't be used with -g: the group decides who reads which partition")
    if arguments.group is not None and arguments.start is not None and arguments.start.name is None:
        raise UsageError(
            "with -g, --from is earliest or latest, for partitions without a commit; `klamm group reset` moves a group"
        )
    settings: dict[str, Any] = {
        "group.id": arguments.group or "klamm-consume",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": (arguments.start and arguments.start.name) or "earliest",
        "enable.partition.eof": True,
    }
    if arguments.exit_at_end:
        # At the end, a broker waits this long before it answers.
        settings["fetch.wait.max.ms"] = _AT_END_WAIT_MS
    consumer = access_of(arguments).connect(Consumer, **settings)
    try:
        session = _GroupSession(arguments, consumer) if arguments.group is not None else _Session(arguments, consumer)
        session.run(_printer(arguments), _header(arguments))
    finally:
        consumer.close()
    return 0


def _printer(arguments: argparse.Namespace) -> Printer:
    if arguments.format is not None:
        printer: Printer = arguments.format
        return printer
    if arguments.output == "json":
        return json_printer
    return column_printer("none" if arguments.output == "table" else "")


def _header(arguments: argparse.Namespace) -> bytes:
    if arguments.format is not None or arguments.output == "json":
        return b""
    return column_header(str.upper if arguments.output == "table" else str)


class _Session:
    """Reads partitions without a group."""

    def __init__(self, arguments: argparse.Namespace, consumer: Consumer) -> None:
        self.arguments = arguments
        self.consumer = consumer
        self._is_told_to_stop = False
        self._ended: set[tuple[str, int]] = set()
        # Buffered even with PYTHONUNBUFFERED: a write to an unbuffered stream may write only a part of a record.
        self._output = io.BufferedWriter(StandardOutput())
        self._watch = LeaderWatch("klamm consume", consumer, arguments.topics, arguments.partition)
        self._begin()

    def run(self, show: Printer, header: bytes) -> None:
        """Prints until the limit, the end or a signal. A second signal ends the process at once."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        self._output.write(header)
        for message in self._messages():
            self._output.write(show(message))
            self._printed(message)
        self._output.flush()
        self._finished()

    def _stop(self, signal_number: int, frame: object) -> None:
        # An exception here could come after a record is printed and before its offset is stored.
        self._is_told_to_stop = True
        signal.signal(signal_number, signal.SIG_DFL)

    def _begin(self) -> None:
        self.consumer.assign(starting_points(self.arguments, self.consumer))

    def _printed(self, message: Message) -> None:
        """Runs after a record was printed."""

    def _passed(self) -> None:
        """Runs after each poll."""

    def _finished(self) -> None:
        """Runs after the last record was printed and flushed."""

    def _forget_ends(self) -> None:
        self._ended.clear()

    def _messages(self) -> Iterator[Message]:
        left = self.arguments.max_records
        while (left is None or left > 0) and not self._is_told_to_stop:
            message = self.consumer.poll(_POLL_S)
            self._passed()
            if message is None:
                self._output.flush()
                self._watch.waited()
                continue
            place = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                self._ended.discard(place)
                if left is not None:
                    left -= 1
                yield message
            elif error.code() != KafkaError._PARTITION_EOF:
                raise access_of(self.arguments).cluster_error(error)
            else:
                self._output.flush()
                self._ended.add(place)
                assigned = {(partition.topic, partition.partition) for partition in self.consumer.assignment()}
                if self.arguments.exit_at_end and assigned <= self._ended:
                    return


class _GroupSession(_Session):
    """Reads the partitions that the group assigns, and commits the printed records."""

    def _begin(self) -> None:
        for topic in self.arguments.topics:
            partitions_of(self.arguments, self.consumer, topic)  # a subscription would silently wait for the topic
        self._committed_s = time.monotonic()
        self._is_printing = True
        self.consumer.subscribe(self.arguments.topics, on_assign=self._on_assign, on_revoke=self._on_revoke)

    def run(self, show: Printer, header: bytes) -> None:
        """Runs as `_Session.run`. Afterwards, revoked partitions are no longer committed."""
        try:
            super().run(show, header)
        finally:
            self._is_printing = False  # the consumer's close revokes, and must not commit

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget_ends()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_printing:
            self._commit()

    def _printed(self, message: Message) -> None:
        self.consumer.store_offsets(message)

    def _passed(self) -> None:
        if time.monotonic() - self._committed_s > _COMMIT_INTERVAL_S:
            self._commit()

    def _finished(self) -> None:
        self._commit()

    def _commit(self) -> None:
        """Flushes the output, then commits the printed records: never a record that may still be lost."""
        self._output.flush()
        self._committed_s = time.monotonic()
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:  # NO_OFFSET: nothing new to commit
                print(f"klamm consume: not committed: {error.args[0].str()}", file=sys.stderr)
