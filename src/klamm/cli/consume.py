"""`klamm consume`: read records and print them, in kcat's format language or as rows.

Without -g it reads every partition by itself and leaves no trace on the broker. With -g it joins that group: it
shares the partitions with the group's other members, goes on where the group stands, and commits what it has printed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Message, TopicPartition

from klamm.cli.connection import (
    TIMEOUT_S,
    ClusterError,
    add_cluster_options,
    client_config,
    cluster_error,
    partitions_of,
    translate,
)
from klamm.cli.output import add_output_option
from klamm.cli.times import timestamp_ms
from klamm.errors import KlammError

__all__ = ["compile_format", "configure", "run"]

POLL_S: Final = 0.5
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
TOKEN: Final = re.compile(r"%(.)|\\(.)|([^%\\]+)", re.DOTALL)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `klamm consume`."""
    parser.add_argument("topics", nargs="+", metavar="topic")
    parser.add_argument("-g", "--group", help="join this consumer group")
    parser.add_argument(
        "-p", "--partition", type=int, action="append", help="only this partition; may be repeated (not with -g)"
    )
    parser.add_argument(
        "--from",
        dest="start",
        default=None,
        metavar="WHERE",
        help="earliest (default), latest, an offset, -N for the last N of each partition, or a time such as "
        "2026-01-31T12:00:00",
    )
    parser.add_argument("-n", "--max-records", type=int, help="stop after so many records")
    parser.add_argument("-e", "--exit-at-end", action="store_true", help="stop when every partition is read to its end")
    parser.add_argument(
        "-f",
        "--format",
        help="%%t topic, %%p partition, %%o offset, %%k key, %%s value, %%T timestamp in ms, %%h headers, %%K and %%S "
        r"sizes of key and value, %%%% a percent sign, \n, \t",
    )
    add_cluster_options(parser)
    add_output_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints records until it is told to stop.

    Raises KlammError when the cluster refuses.
    """
    if arguments.group is not None and arguments.partition:
        raise KlammError("-p can't be used with -g: the group decides who reads which partition")
    if arguments.group is not None and arguments.start not in (None, "earliest", "latest"):
        raise KlammError(
            "with -g, --from is earliest or latest, for partitions without a commit; `klamm group reset` moves a group"
        )
    reset = arguments.start if arguments.start in ("earliest", "latest") else "earliest"
    config = client_config(
        arguments,
        **{
            "group.id": arguments.group or "klamm-consume",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": reset,
            "enable.partition.eof": True,
        },
    )
    consumer = translate(arguments, lambda: Consumer(config))
    show = compile_format(arguments.format) if arguments.format is not None else _row_printer(arguments.output)
    try:
        if arguments.group is not None:
            consumer.subscribe(arguments.topics)
        else:
            consumer.assign(_starting_points(arguments, consumer))
        count = 0
        for message in _records(arguments, consumer):
            sys.stdout.write(show(message))
            count += 1
            if arguments.group is not None:
                consumer.store_offsets(message)
        sys.stdout.flush()
        if arguments.group is not None and count:
            translate(arguments, lambda: consumer.commit(asynchronous=False))
    finally:
        consumer.close()
    return 0


def _records(arguments: argparse.Namespace, consumer: Consumer) -> Iterator[Message]:
    """The records, until the limit or the end is reached.

    Commits now and then when in a group.
    """
    left = arguments.max_records
    ended: set[tuple[str, int]] = set()
    committed_s = time.monotonic()
    while left is None or left > 0:
        message = consumer.poll(POLL_S)
        if arguments.group is not None and time.monotonic() - committed_s > TIMEOUT_S / 2:
            sys.stdout.flush()
            committed_s = time.monotonic()
            _commit_stored(consumer)
        if message is None:
            sys.stdout.flush()
            continue
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise cluster_error(arguments, error)
            ended.add((message.topic() or "", message.partition() or 0))
            assigned = {(partition.topic, partition.partition) for partition in consumer.assignment()}
            if arguments.exit_at_end and assigned <= ended:
                return
            continue
        ended.discard((message.topic() or "", message.partition() or 0))
        if left is not None:
            left -= 1
        yield message


def _commit_stored(consumer: Consumer) -> None:
    from confluent_kafka import KafkaException

    try:
        consumer.commit(asynchronous=True)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise


def _starting_points(arguments: argparse.Namespace, consumer: Consumer) -> list[TopicPartition]:
    points: list[TopicPartition] = []
    for topic in arguments.topics:
        points += [
            _starting_point(arguments, consumer, topic, partition)
            for partition in partitions_of(arguments, consumer, topic)
            if not arguments.partition or partition in arguments.partition
        ]
    if not points:
        raise ClusterError("the topic has none of the partitions asked for")
    return points


def _starting_point(arguments: argparse.Namespace, consumer: Consumer, topic: str, partition: int) -> TopicPartition:
    start = arguments.start
    if start in (None, "earliest"):
        return TopicPartition(topic, partition, OFFSET_BEGINNING)
    if start == "latest":
        return TopicPartition(topic, partition, OFFSET_END)
    wanted = TopicPartition(topic, partition)
    if re.fullmatch(r"-?\d+", start):
        offset = int(start)
        low, high = translate(arguments, lambda: consumer.get_watermark_offsets(wanted, timeout=TIMEOUT_S))
        return TopicPartition(topic, partition, min(max(low, offset if offset >= 0 else high + offset), high))
    moment = TopicPartition(topic, partition, timestamp_ms(start))
    found = translate(arguments, lambda: consumer.offsets_for_times([moment], timeout=TIMEOUT_S))[0]
    return TopicPartition(topic, partition, found.offset if found.offset >= 0 else OFFSET_END)


def compile_format(text: str) -> Callable[[Message], str]:
    """A function that prints one record as kcat's format language says.

    Raises KlammError for an unknown token.
    """
    tokens: dict[str, Callable[[Message], str]] = {
        "t": lambda message: message.topic() or "",
        "p": lambda message: str(message.partition()),
        "o": lambda message: str(message.offset()),
        "k": lambda message: _text(message.key()) or "",
        "s": lambda message: _text(message.value()) or "",
        "K": lambda message: "-1" if message.key() is None else str(len(message.key() or b"")),
        "S": lambda message: "-1" if message.value() is None else str(len(message.value() or b"")),
        "T": lambda message: str(message.timestamp()[1]),
        "h": lambda message: ",".join(f"{name}={_text(value) or ''}" for name, value in _headers(message)),
    }
    parts: list[Callable[[Message], str]] = []
    for token, escape, literal in TOKEN.findall(text):
        if token == "%" or literal or escape:
            word = "%" if token else literal or ESCAPES.get(escape, "\\" + escape)
            parts.append(lambda message, word=word: word)  # type: ignore[misc]  # mypy can't infer a lambda with a default
        elif token in tokens:
            parts.append(tokens[token])
        else:
            raise KlammError(
                f"%{token} means nothing in a format; there are {', '.join('%' + name for name in tokens)} and %%"
            )
    return lambda message: "".join(part(message) for part in parts)


def _row_printer(output: str) -> Callable[[Message], str]:
    """JSON: one object a line.

    TSV and table: the columns, separated by tabs; a stream has no widths to align to.
    """
    if output == "json":
        return lambda message: json.dumps(_row(message)) + "\n"
    return lambda message: (
        "\t".join("" if cell is None else str(cell) for cell in list(_row(message).values())[:6]) + "\n"
    )


def _row(message: Message) -> dict[str, Any]:
    kind, milliseconds = message.timestamp()
    when = datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="milliseconds") if kind else None
    values = (
        message.topic(),
        message.partition(),
        message.offset(),
        when,
        _text(message.key()),
        _text(message.value()),
    )
    row: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
    row["headers"] = [[name, _text(value)] for name, value in _headers(message)]
    return row


def _headers(message: Message) -> list[tuple[str, bytes | str | None]]:
    headers = message.headers()
    return headers if isinstance(headers, list) else []


def _text(data: bytes | str | None) -> str | None:
    return data.decode(errors="replace") if isinstance(data, bytes) else data
