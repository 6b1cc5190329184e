"""`klamm produce`: one record a line, from standard input or a file.

Keys are partitioned as in Kafka's Java client (murmur2; random without a key). So both clients write the records of one
key to the same partition.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from klamm.cli.arguments import delimiter, key_value, partition_index
from klamm.cli.cluster_options import access_of, add_cluster_options
from klamm.cli.errors import UsageError
from klamm.cli.output import add_output_option, show_rows
from klamm.cli.records.leader_watch import LeaderWatch
from klamm.insight.errors import ClusterError

__all__ = ["configure", "run"]

_FLUSH_TIMEOUT_S: Final = 300.0
_FLUSH_STEP_S: Final = 0.5
_QUEUE_FULL_WAIT_S: Final = 0.1
_ANY_PARTITION: Final = -1


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `klamm produce`."""
    parser.add_argument("topic")
    parser.add_argument("file", nargs="?", type=Path, help="where to read (default: standard input)")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("-k", "--key", help="the key of every record")
    keys.add_argument(
        "-K",
        "--key-delimiter",
        type=delimiter,
        metavar="DELIMITER",
        help=r"what stands between key and value on a line, such as : or \t",
    )
    parser.add_argument(
        "-p", "--partition", type=partition_index, default=_ANY_PARTITION, help="the partition (default: by the key)"
    )
    parser.add_argument(
        "-H", "--header", action="append", type=key_value, default=[], metavar="NAME=VALUE", help="may be repeated"
    )
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
    """Sends every line, waits for the acknowledgements and prints the records' partitions and offsets.

    Raises KlammError if a record was not acknowledged or a line can't be sent; prints the written records before.
    """
    stream = _open(arguments.file)
    settings = {
        "partitioner": "murmur2_random",
        "acks": arguments.acks,
        "compression.type": arguments.compression,
        "linger.ms": 5,
    }
    sender = _Sender(access_of(arguments).connect(Producer, **settings), arguments)
    with stream:
        complaint = sender.send_lines(stream)
    unsent = sender.flush()
    rows = [
        {"partition": partition, "records": count, "first_offset": first, "last_offset": last}
        for partition, (count, first, last) in sorted(sender.written.items())
    ]
    if rows or not (sender.failed or complaint):
        show_rows(arguments, ("partition", "records", "first_offset", "last_offset"), rows)
    if sender.failed:
        raise _refusal(arguments, sender.failed[0])
    if unsent:
        raise ClusterError(f"{unsent} records were not acknowledged within {_FLUSH_TIMEOUT_S:.0f} s")
    if complaint:
        raise UsageError(complaint)
    return 0


def _refusal(arguments: argparse.Namespace, error: KafkaError) -> ClusterError:
    """Returns the error of a record that was not written. librdkafka does not pass on the broker's explanation."""
    refusal = access_of(arguments).cluster_error(error)
    if error.code() == KafkaError.INVALID_RECORD and arguments.key is None and arguments.key_delimiter is None:
        return ClusterError(f"{refusal}; a compacted topic takes no record without a key: -K or -k gives one")
    return refusal


def _open(file: Path | None) -> BinaryIO:
    if file is None:
        if sys.stdin is None:
            raise UsageError("standard input is closed: name a file")
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise UsageError(f"can't read {file}: {error.strerror}") from None


class _Sender:
    """Sends lines and counts the acknowledged and the failed records."""

    def __init__(self, producer: Producer, arguments: argparse.Namespace) -> None:
        self.producer = producer
        self.written: dict[int, tuple[int, int | None, int | None]] = {}
        """For each partition the number of records, and the first and the last offset if known."""
        self.failed: list[KafkaError] = []
        self._arguments = arguments
        self._headers: list[tuple[str, str | bytes | None]] = [
            (name, value.encode(errors="surrogateescape")) for name, value in arguments.header
        ]
        self._key = arguments.key.encode(errors="surrogateescape") if arguments.key is not None else None
        partitions = None if arguments.partition == _ANY_PARTITION else (arguments.partition,)
        self._watch = LeaderWatch("klamm produce", producer, (arguments.topic,), partitions)

    def send_lines(self, stream: BinaryIO) -> str | None:
        """Sends the lines up to the first failure. Returns the error of a malformed line; else None."""
        for number, line in enumerate(stream, start=1):
            value = line.removesuffix(b"\n").removesuffix(b"\r")
            key = self._key
            if self._arguments.key_delimiter is not None:
                key, separator, value = value.partition(self._arguments.key_delimiter)
                if not separator:
                    shown = self._arguments.key_delimiter.decode()
                    return f"line {number} has no {shown!r} between key and value; those before it were sent"
            self._send(key, None if self._arguments.null and not value else value)
            if self.failed:
                break
        return None

    def flush(self) -> int:
        """Waits until all records are acknowledged or have failed. Returns the number of records that are still pending
        after `_FLUSH_TIMEOUT_S`."""
        until_s = time.monotonic() + _FLUSH_TIMEOUT_S
        while unsent := self.producer.flush(_FLUSH_STEP_S):
            if time.monotonic() > until_s:
                break
            self._watch.waited()
        return unsent

    def _send(self, key: bytes | None, value: bytes | None) -> None:
        while True:
            try:
                self.producer.produce(
                    self._arguments.topic,
                    value=value,
                    key=key,
                    partition=self._arguments.partition,
                    headers=self._headers,
                    on_delivery=self._delivered,
                )
                break
            except BufferError:
                self.producer.poll(_QUEUE_FULL_WAIT_S)
                self._watch.waited()
            except KafkaException as error:  # for example a record that is too large, or an unknown partition
                self.failed.append(error.args[0])
                break
        self.producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        # With acks=0 there is no acknowledgement, and so no offset.
        told = message.offset()
        offset = told if told is not None and told >= 0 else None
        count, first, _ = self.written.get(message.partition() or 0, (0, offset, None))
        self.written[message.partition() or 0] = (count + 1, first, offset)
