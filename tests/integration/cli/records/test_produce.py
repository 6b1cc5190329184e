"""`klamm produce`."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import Command

from klamm.testing import Broker

# The partitions that the Java client chooses for key-0 to key-9 of six, from tests/interop/test_partitioning.py.
JAVA_PARTITIONS = [1, 0, 2, 5, 3, 2, 2, 1, 1, 3]


def _records(klamm: Command, topic: str) -> list[dict[str, Any]]:
    """Returns all records of a topic, in the order of partition and offset."""
    lines = klamm.done("consume", topic, "-e", "-o", "json").splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda row: (row["partition"], row["offset"]))


def test_every_line_is_a_record(klamm: Command, topic: str) -> None:
    """Each line becomes a value, with any line ending; the command shows how many records each partition got."""
    shown = klamm.done("produce", topic, "-p", "1", "-o", "json", stdin="one\ntwo\r\n\nthree")
    assert json.loads(shown) == [{"partition": 1, "records": 4, "first_offset": 0, "last_offset": 3}]
    assert [record["value"] for record in _records(klamm, topic)] == ["one", "two", "", "three"]
    assert {record["key"] for record in _records(klamm, topic)} == {None}


def test_a_file_is_read_instead_of_standard_input(klamm: Command, topic: str, tmp_path: Path) -> None:
    """A second argument names a file to read instead of standard input."""
    file = tmp_path / "lines.txt"
    file.write_text("from a file\n", encoding="utf-8")
    klamm.done("produce", topic, str(file), stdin="not this\n")
    assert [record["value"] for record in _records(klamm, topic)] == ["from a file"]


def test_keys_come_from_the_option_or_from_the_line(klamm: Command, topic: str) -> None:
    """-k sets the key of every record; -K takes the key from the line, up to the first delimiter."""
    klamm.done("produce", topic, "-p", "0", "-k", "always", stdin="a\n")
    klamm.done("produce", topic, "-p", "0", "-K", ":", stdin="anna:1:castle\n:nobody\n")
    klamm.done("produce", topic, "-p", "0", "-K", r"\t", stdin="bert\tbeer\n")
    assert [(record["key"], record["value"]) for record in _records(klamm, topic)] == [
        ("always", "a"),
        ("anna", "1:castle"),
        ("", "nobody"),
        ("bert", "beer"),
    ]


def test_keys_go_where_java_puts_them(klamm: Command) -> None:
    """Keys go to the same partitions as with the Java client: murmur2 of the key, modulo the number of partitions."""
    topic = f"keys-{uuid.uuid4().hex}"
    klamm.done("topic", "create", topic, "-p", "6")
    klamm.done("produce", topic, "-K", ":", stdin="".join(f"key-{number}:x\n" for number in range(10)))
    where = {record["key"]: record["partition"] for record in _records(klamm, topic)}
    assert [where[f"key-{number}"] for number in range(10)] == JAVA_PARTITIONS


def test_headers_go_with_every_record(klamm: Command, topic: str) -> None:
    """-H adds a header to every record. It may be repeated with the same name, and a value may contain an equals
    sign."""
    klamm.done("produce", topic, "-H", "trace=a=b", "-H", "trace=c", "-H", "empty=", stdin="x\ny\n")
    headers = [["trace", "a=b"], ["trace", "c"], ["empty", ""]]
    assert [record["headers"] for record in _records(klamm, topic)] == [headers, headers]


def test_an_empty_value_may_stand_for_null(klamm: Command, topic: str) -> None:
    """With -Z an empty value becomes a tombstone; without -Z it is an empty value."""
    klamm.done("produce", topic, "-p", "0", "-K", ":", stdin="gone:\n")
    klamm.done("produce", topic, "-p", "0", "-K", ":", "-Z", stdin="gone:\nstays:here\n")
    assert [record["value"] for record in _records(klamm, topic)] == ["", None, "here"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed(klamm: Command, broker: Broker, topic: str, codec: str) -> None:
    """-z sets the codec of the batches on the broker's disk."""
    klamm.done("produce", topic, "-p", "0", "-z", codec, stdin="klamm " * 500 + "\n")
    batch = (broker.data_dir / f"{topic}-0" / f"{0:020}.log").read_bytes()
    attributes = int.from_bytes(batch[21:23], "big")
    assert ["none", "gzip", "snappy", "lz4", "zstd"][attributes & 7] == codec
    assert [record["value"] for record in _records(klamm, topic)] == ["klamm " * 500]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements_are_chosen(klamm: Command, topic: str, acks: str) -> None:
    """Offsets are shown if the broker returned them; with --acks 0 it returns none."""
    shown = json.loads(klamm.done("produce", topic, "-p", "0", "--acks", acks, "-o", "json", stdin="x\n"))
    offset = None if acks == "0" else 0
    assert shown == [{"partition": 0, "records": 1, "first_offset": offset, "last_offset": offset}]


def test_bytes_are_sent_as_they_are(klamm: Command, topic: str) -> None:
    """Bytes that are not valid UTF-8 are sent unchanged."""
    data = bytes(byte for byte in range(256) if byte not in b"\r\n")
    klamm.done("produce", topic, stdin=data + b"\n")
    lines = klamm.done("consume", topic, "-e", "-f", "%S")
    assert lines == str(len(data))


def test_a_line_without_delimiter_stops_the_command(klamm: Command, topic: str) -> None:
    """A line without the delimiter stops the command with status 2; the earlier lines were sent and are shown."""
    finished = klamm("produce", topic, "-K", ":", "-o", "json", stdin="a:1\nb:2\nc\nd:4\n")
    assert finished.status == 2
    assert sum(row["records"] for row in json.loads(finished.stdout)) == 2
    assert finished.stderr == ("klamm produce: line 3 has no ':' between key and value; those before it were sent\n")
    assert len(_records(klamm, topic)) == 2


def test_a_record_that_is_refused_fails_the_command(klamm: Command, topic: str) -> None:
    """A refused record fails the command with Kafka's error code and exit status 1."""
    klamm.done("topic", "alter", topic, "-c", "max.message.bytes=100")
    finished = klamm("produce", topic, stdin="x" * 1000 + "\n")
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr.startswith("klamm produce: MESSAGE_TOO_LARGE")


def test_a_compacted_topic_needs_keys(klamm: Command, topic: str) -> None:
    """If a compacted topic refuses a record without a key, the error names the options that give a key."""
    klamm.done("topic", "alter", topic, "-c", "cleanup.policy=compact")
    finished = klamm("produce", topic, stdin="without a key\n")
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr.startswith("klamm produce: INVALID_RECORD")
    assert "a compacted topic takes no record without a key: -K or -k gives one" in finished.stderr


def test_a_partition_that_is_not_there_fails_the_command(klamm: Command, topic: str) -> None:
    """An unknown partition fails the command; librdkafka detects the error itself."""
    finished = klamm("produce", topic, "-p", "7", stdin="x\n")
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr.startswith("klamm produce: UNKNOWN_PARTITION")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("no such file",), "can't read no such file: No such file or directory"),
        (("-k", "a", "-K", ":"), "not allowed with argument"),
        (("-H", "name"), "argument -H/--header: takes KEY=VALUE"),
        (("-z", "brotli"), "invalid choice: 'brotli'"),
        (("--acks", "2"), "invalid choice: '2'"),
        (("-p", "-1"), "argument -p/--partition: takes the number of a partition"),
        (("-K", ""), "argument -K/--key-delimiter: takes at least one character"),
    ],
)
def test_wrong_use_is_told(klamm: Command, words: tuple[str, ...], complaint: str) -> None:
    """A wrong command line exits with status 2 and sends nothing."""
    finished = klamm("produce", "topic", *words, stdin="x\n")
    assert (finished.status, finished.stdout) == (2, "")
    assert complaint in finished.stderr
