"""`klamm produce`: one record a line, from standard input or a file.

Keys are partitioned as Kafka's Java client does (murmur2; records without a key go anywhere), so that a key's records
lie in the same partition whoever wrote them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import BinaryIO, Final

from confluent_kafka import KafkaError, Message, Producer

from klamm.cli.connection import add_cluster_options, client_config, cluster_error, translate
from klamm.cli.output import add_output_option, show_rows
from klamm.errors import KlammError

__all__ = ["configure", "run"]

FLUSH_TIMEOUT_S: Final = 300.0
QUEUE_FULL_WAIT_S: Final = 0.1


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of `klamm produce`."""
    parser.add_argument("topic")
    parser.add_argument("file", nargs="?", type=Path, help="where to read (default: standard input)")
    parser.add_argument("-k", "--key", help="the key of every record")
    parser.add_argument(
        "-K", "--key-delimiter", metavar="DELIMITER", help="what stands between key and value on a line"
    )
    parser.add_argument("-p", "--partition", type=int, default=-1, help="the partition (default: by the key)")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    parser.add_argument(
        "-Z", "--null", action="store_true", help="an empty value is null, a tombstone where keys are compacted"
    )
    parser.add_argument(
        "-z",
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="codec of the batches",
    )
    parser.add_argument(
        "--acks", choices=("0", "1", "all"), default="all", help="who must have it before it counts as written"
    )
    add_cluster_options(parser)
    add_output_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Sends every line and waits for its acknowledgement.

    Returns 1 when one was not acknowledged.
    """
    headers = _headers(arguments.header)
    config = client_config(
        arguments,
        **{
            "partitioner": "murmur2_random",
            "acks": arguments.acks,
            "compression.type": arguments.compression,
            "linger.ms": 5,
        },
    )
    producer = translate(arguments, lambda: Producer(config))
    written: dict[int, list[int]] = {}
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
            return
        entry = written.setdefault(message.partition() or 0, [0, message.offset() or 0, 0])
        entry[0] += 1
        entry[2] = message.offset() or 0

    def send(stream: BinaryIO) -> None:
        for line in stream:
            key, value = _split(line.rstrip(b"\r\n"), arguments)
            while True:
                try:
                    producer.produce(
                        arguments.topic,
                        value=None if arguments.null and not value else value,
                        key=key,
                        partition=arguments.partition,
                        headers=headers,
                        on_delivery=delivered,
                    )
                    break
                except BufferError:
                    producer.poll(QUEUE_FULL_WAIT_S)
            producer.poll(0)
            if failed:
                return

    try:
        if arguments.file is None:
            send(sys.stdin.buffer)
        else:
            with arguments.file.open("rb") as stream:
                send(stream)
    except OSError as error:
        raise KlammError(f"can't read {arguments.file}: {error.strerror}") from None
    left = producer.flush(FLUSH_TIMEOUT_S)
    rows = [
        {"partition": partition, "records": count, "first_offset": first, "last_offset": last}
        for partition, (count, first, last) in sorted(written.items())
    ]
    if rows or not failed:
        show_rows(arguments, ("partition", "records", "first_offset", "last_offset"), rows)
    if failed:
        raise cluster_error(arguments, failed[0])
    return 1 if left else 0


def _headers(items: list[str]) -> list[tuple[str, str | bytes | None]]:
    headers: list[tuple[str, str | bytes | None]] = []
    for item in items:
        name, separator, value = item.partition("=")
        if not separator:
            raise KlammError(f"-H takes NAME=VALUE, not {item!r}")
        headers.append((name, value.encode()))
    return headers


def _split(line: bytes, arguments: argparse.Namespace) -> tuple[bytes | None, bytes]:
    if arguments.key_delimiter is not None:
        key, separator, value = line.partition(arguments.key_delimiter.encode())
        if not separator:
            raise KlammError(f"a line has no {arguments.key_delimiter!r} between key and value: {line[:60]!r}")
        return key, value
    return (arguments.key.encode() if arguments.key is not None else None), line
