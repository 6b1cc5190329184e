"""`klamm consume` without a group."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest
from confluent_kafka import Producer
from tests.integration.cli.conftest import KLAMM, PATIENCE_S, Command

from klamm.testing import Broker

MINUTES_AGO_MS = int(time.time() - 600) * 1_000


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """Creates a topic with ten records in each of two partitions, a second apart, in batches of one record."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        for partition in (0, 1):
            producer.produce(
                topic,
                key=f"key-{number}",
                value=f"{partition}-{number}",
                partition=partition,
                timestamp=MINUTES_AGO_MS + number * 1_000,
                headers=[("number", f"{number}".encode()), ("none", None)],
            )
        producer.flush()
    return topic


def _offsets(klamm: Command, *words: str) -> dict[int, list[int]]:
    """Returns the offsets that a command prints, by partition."""
    offsets: dict[int, list[int]] = {0: [], 1: []}
    for line in klamm.done("consume", *words, "-f", r"%p %o\n").splitlines():
        partition, offset = line.split()
        offsets[int(partition)].append(int(offset))
    return offsets


def test_everything_is_read_from_the_earliest_record(klamm: Command, filled: str) -> None:
    """By default reading starts at the earliest record; -e ends at the end of all partitions, including an empty
    one."""
    both = {0: [*range(10)], 1: [*range(10)]}
    assert _offsets(klamm, filled, "-e") == both
    assert _offsets(klamm, filled, "-e", "--from", "earliest") == both


def test_latest_is_the_end(klamm: Command, filled: str) -> None:
    """--from latest starts at the end, so with -e nothing is printed."""
    assert klamm.done("consume", filled, "-e", "--from", "latest", "-f", "%s") == ""


def test_an_offset_counts_in_each_partition(klamm: Command, filled: str) -> None:
    """--from OFFSET applies to each partition; an offset beyond the end means the end."""
    klamm.done("consume", filled, "-e")
    assert _offsets(klamm, filled, "-e", "--from", "7") == {0: [7, 8, 9], 1: [7, 8, 9]}
    assert _offsets(klamm, filled, "-e", "--from", "99") == {0: [], 1: []}


def test_a_negative_offset_counts_from_the_end(klamm: Command, filled: str) -> None:
    """--from -N reads the last N records of each partition, or all if there are fewer."""
    assert _offsets(klamm, filled, "-e", "--from", "-2") == {0: [8, 9], 1: [8, 9]}
    assert _offsets(klamm, filled, "-e", "--from", "-99") == {0: [*range(10)], 1: [*range(10)]}


def test_a_time_is_the_first_record_from_then_on(klamm: Command, filled: str) -> None:
    """--from TIME starts at the first record since that time, or at the end if there is none."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(MINUTES_AGO_MS / 1000 + 4))
    assert _offsets(klamm, filled, "-e", "--from", f"{moment}+00:00")[0] == [*range(4, 10)]
    assert _offsets(klamm, filled, "-e", "--from", f"{moment}.500+00:00")[0] == [*range(5, 10)]
    assert _offsets(klamm, filled, "-e", "--from", "2100-01-01") == {0: [], 1: []}


def test_only_the_partitions_asked_for_are_read(klamm: Command, filled: str) -> None:
    """-p may be repeated; an unknown partition is an error."""
    assert _offsets(klamm, filled, "-e", "-p", "1") == {0: [], 1: [*range(10)]}
    assert _offsets(klamm, filled, "-e", "-p", "1", "-p", "0", "-p", "1") == {0: [*range(10)], 1: [*range(10)]}
    finished = klamm("consume", filled, "-e", "-p", "1", "-p", "9")
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr == f"klamm consume: topic {filled} has no partition 9, only 0 to 2\n"


def test_it_stops_after_so_many_records(klamm: Command, filled: str) -> None:
    """-n stops after that many records, also before the end of the partition."""
    assert _offsets(klamm, filled, "-p", "1", "-n", "3") == {0: [], 1: [0, 1, 2]}
    assert _offsets(klamm, filled, "-p", "1", "-n", "30", "-e") == {0: [], 1: [*range(10)]}


def test_formats_are_those_of_kcat(klamm: Command, filled: str) -> None:
    """Each format token has the same meaning as in kcat."""
    shown = klamm.done("consume", filled, "-p", "1", "-n", "1", "-f", r"%t|%p|%o|%k|%s|%K|%S|%T|%h|%%|\t|\n")
    assert shown == f"{filled}|1|0|key-0|1-0|5|3|{MINUTES_AGO_MS}|number=0,none=|%|\t|\n"


def test_sizes_tell_null_from_empty(klamm: Command, topic: str) -> None:
    """The size of a null key or value is -1."""
    klamm.done("produce", topic, "-Z", stdin="\n")
    klamm.done("produce", topic, "-k", "", stdin="\n")
    shown = klamm.done("consume", topic, "-e", "-f", r"%K %S\n")
    assert sorted(shown.splitlines()) == ["-1 -1", "0 0"]


def test_bytes_are_printed_as_they_are(klamm: Command, topic: str) -> None:
    """A format prints keys and values as raw bytes; JSON replaces bytes that are not valid text."""
    klamm.done("produce", topic, "-k", "key", stdin=b"\xff\x00\xfe\n")
    printed = subprocess.run(
        [KLAMM, "consume", topic, "-e", "-f", "%s"], capture_output=True, env=klamm.environment, check=True
    )
    assert printed.stdout == b"\xff\x00\xfe"
    assert json.loads(klamm.done("consume", topic, "-e", "-o", "json"))["value"] == "\ufffd\0\ufffd"


def test_json_is_one_object_a_line(klamm: Command, filled: str) -> None:
    """With -o json each line is one object with all fields of a record."""
    shown = json.loads(klamm.done("consume", filled, "-p", "0", "-n", "1", "-o", "json"))
    shown["timestamp"] = shown["timestamp"][:4]
    assert shown == {
        "topic": filled,
        "partition": 0,
        "offset": 0,
        "timestamp": time.strftime("%Y", time.localtime(MINUTES_AGO_MS / 1000)),
        "key": "key-0",
        "value": "0-0",
        "headers": [["number", "0"], ["none", None]],
    }


def test_a_line_of_columns_stays_a_line(klamm: Command, topic: str) -> None:
    """Tabs within a value are escaped; null is empty in tsv and `none` in the table."""
    klamm.done("produce", topic, stdin="a\tb\\c\n")
    tsv = klamm.done("consume", topic, "-e", "-o", "tsv").splitlines()
    assert tsv[0] == "topic\tpartition\toffset\ttimestamp\tkey\tvalue"
    assert tsv[1].split("\t")[4:] == ["", r"a\tb\\c"]
    table = klamm.done("consume", topic, "-e").splitlines()
    assert table[0] == "TOPIC\tPARTITION\tOFFSET\tTIMESTAMP\tKEY\tVALUE"
    assert table[1].split("\t")[4] == "none"


def test_several_topics_are_read_together(klamm: Command, filled: str, topic: str) -> None:
    """Several topics are read together, and -e waits for the end of all of them."""
    other = f"{topic}-other"
    klamm.done("produce", other, stdin="other\n")
    lines = klamm.done("consume", filled, other, "-e", "-f", r"%t\n").splitlines()
    assert (lines.count(filled), lines.count(other)) == (20, 1)


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_it_reads_on_until_it_is_told_to_stop(klamm: Command, topic: str, signal_number: signal.Signals) -> None:
    """New records are printed at once; a signal ends the command with exit status 0."""
    process = klamm.start("consume", topic, "-f", r"%s\n")
    assert process.stdout is not None
    klamm.done("produce", topic, stdin="first\n")
    assert process.stdout.readline() == b"first\n"
    klamm.done("produce", topic, stdin="second\n")
    assert process.stdout.readline() == b"second\n"
    process.send_signal(signal_number)
    assert process.wait(PATIENCE_S) == 0


def test_a_reader_that_has_enough_ends_it(klamm: Command, filled: str) -> None:
    """`klamm consume

    head` ends with status 0 and no error message.
    """
    process = klamm.start("consume", filled, "-f", r"%s\n" + "x" * 100_000)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "required: topic"),
        (("one", "-n", "0"), "argument -n/--max-records: takes a number from 1 on"),
        (("one", "-p", "x"), "argument -p/--partition: takes the number of a partition"),
        (("one", "--from", "yesterday"), "takes earliest, latest, an offset, -N, or a time"),
        (("one", "-f", "%q"), "%q means nothing in a format; there are %t, %p, %o, %k, %s, %K, %S, %T, %h and %%"),
        (("one", "-g", "group", "-p", "0"), "-p can't be used with -g"),
        (("one", "-g", "group", "--from", "7"), "`klamm group reset` moves a group"),
    ],
)
def test_wrong_use_is_told(klamm: Command, words: tuple[str, ...], complaint: str) -> None:
    """A wrong command line exits with status 2 and reads nothing."""
    finished = klamm("consume", *words)
    assert (finished.status, finished.stdout) == (2, "")
    assert complaint in finished.stderr
