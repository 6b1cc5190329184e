"""`klamm group reset`."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.integration.cli.conftest import PATIENCE_S, Command

from klamm.testing import Broker

HOUR_MS = 3_600_000


@pytest.fixture
def now_ms() -> int:
    """The time when the test begins."""
    return int(time.time() * 1000)


@pytest.fixture
def filled(klamm: Command, broker: Broker, topic: str, group: str, now_ms: int) -> str:
    """Creates a topic with ten records in partitions 0 and 1, an hour apart, the last one half an hour ago. The group
    has read all of them."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        for partition in (0, 1):
            moment = now_ms - HOUR_MS // 2 - (9 - number) * HOUR_MS
            producer.produce(topic, value=f"{number}", partition=partition, timestamp=moment)
        producer.flush()
    klamm.done("consume", topic, "-g", group, "-e")
    return topic


def _committed(klamm: Command, group: str) -> dict[int, int]:
    rows = klamm.rows("group", "describe", group)
    return {row["partition"]: row["committed"] for row in rows if row["committed"] is not None}


def test_without_execute_nothing_changes(klamm: Command, filled: str, group: str) -> None:
    """Without --execute the command shows the current and the new offset of each partition and changes nothing."""
    shown = klamm.done("group", "reset", group, "--to-earliest").splitlines()
    assert shown[0].split() == ["TOPIC", "PARTITION", "FROM", "TO"]
    assert [line.split() for line in shown[1:3]] == [[filled, "0", "10", "0"], [filled, "1", "10", "0"]]
    assert shown[3] == "nothing was changed: this is what --execute would do"
    assert _committed(klamm, group) == {0: 10, 1: 10}


@pytest.mark.parametrize(
    ("where", "offset"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-offset", "4"), 4),
        (("--to-offset", "0"), 0),
        (("--to-offset", "99"), 10),
        (("--to-offset=-5",), 0),
        (("--by-duration", "3h"), 7),
        (("--by-duration", "PT3H"), 7),
        (("--by-duration", "90m"), 9),
        (("--by-duration", "60s"), 10),
        (("--by-duration", "999d"), 0),
        (("--to-datetime", "1999-12-31"), 0),
        (("--to-datetime", "2100-01-01T00:00:00+00:00"), 10),
    ],
)
def test_each_way_to_say_where(klamm: Command, filled: str, group: str, where: tuple[str, ...], offset: int) -> None:
    """New offsets are limited to the range from the log start to the log end; a time after the last record means the
    end, as in Kafka."""
    klamm.done("group", "reset", group, "--to-offset", "5", "--execute")
    shown = klamm.rows("group", "reset", group, *where, "--execute")
    assert shown == [{"topic": filled, "partition": index, "from": 5, "to": offset} for index in (0, 1)]
    assert _committed(klamm, group) == {0: offset, 1: offset}


def test_a_time_is_local_unless_it_says_otherwise(klamm: Command, filled: str, group: str, now_ms: int) -> None:
    """--to-datetime takes local time or a time with an offset, and means the first record since then."""
    moment_s = now_ms // 1000 - 3 * HOUR_MS // 1000
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment_s))
    utc = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(moment_s))
    for moment in (local, utc):
        assert {row["to"] for row in klamm.rows("group", "reset", group, "--to-datetime", moment)} == {7}
    assert filled in klamm.done("group", "reset", group, "--to-datetime", local)


def test_the_group_goes_on_from_there(klamm: Command, filled: str, group: str) -> None:
    """The next member reads from the new offsets on."""
    klamm.done("group", "reset", group, "--to-offset", "8", "--execute")
    shown = klamm.done("consume", filled, "-g", group, "-e", "-f", r"%p %o\n").splitlines()
    assert sorted(shown) == ["0 8", "0 9", "1 8", "1 9"]


def test_only_the_topics_and_partitions_that_are_named_move(klamm: Command, filled: str, group: str) -> None:
    """-t limits the reset to a topic or to some of its partitions; a partition without a commit gets its first one."""
    klamm.done("group", "reset", group, "-t", f"{filled}:1", "--to-earliest", "--execute")
    assert _committed(klamm, group) == {0: 10, 1: 0}
    shown = klamm.rows("group", "reset", group, "-t", filled, "--to-latest", "--execute")
    assert [(row["partition"], row["from"], row["to"]) for row in shown] == [(0, 10, 10), (1, 0, 10), (2, None, 0)]
    assert _committed(klamm, group) == {0: 10, 1: 10, 2: 0}


def test_a_new_group_can_be_placed(klamm: Command, filled: str, group: str) -> None:
    """A new group gets offsets for the topics that are named with -t."""
    new = f"{group}-new"
    refused = klamm("group", "reset", new, "--to-latest", "--execute")
    assert (refused.status, refused.stdout) == (1, "")
    assert refused.stderr == f"klamm group: group {new} has committed nothing: name the topics to reset with --topic\n"
    klamm.done("group", "reset", new, "-t", filled, "--to-offset", "3", "--execute")
    assert _committed(klamm, new) == {0: 3, 1: 3, 2: 0}


def test_offsets_stay_behind_the_log_start(klamm: Command, broker: Broker, filled: str, group: str) -> None:
    """Deleted records are not counted: neither a reset nor the lag goes below the log start offset."""
    klamm.done("group", "reset", group, "--to-offset", "2", "--execute")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(filled, 0, 6)]).values():
        future.result(PATIENCE_S)
    rows = klamm.rows("group", "describe", group)
    assert [(row["committed"], row["log_start"], row["lag"]) for row in rows][:2] == [(2, 6, 4), (2, 0, 8)]
    for where in (("--to-earliest",), ("--to-offset", "1")):
        shown = klamm.rows("group", "reset", group, "-t", f"{filled}:0", *where)
        assert [row["to"] for row in shown] == [6]


def test_a_group_with_members_is_left_alone(klamm: Command, filled: str, group: str) -> None:
    """A group with live members is refused, also in a dry run, because the members would overwrite the offsets."""
    klamm.start("consume", filled, "-g", group)
    deadline = time.monotonic() + PATIENCE_S
    while not klamm.rows("group", "describe", group, "--members"):
        assert time.monotonic() < deadline
    for words in ((), ("--execute",)):
        refused = klamm("group", "reset", group, "--to-earliest", *words)
        assert (refused.status, refused.stdout) == (1, "")
        assert refused.stderr == (
            f"klamm group: group {group} has 1 live member: stop it first, because it would overwrite the offsets\n"
        )
    assert _committed(klamm, group)[0] == 10


@pytest.mark.parametrize(
    ("scope", "complaint"), [("missing", "there is no topic missing"), ("{topic}:7", "can't look up {topic}-7")]
)
def test_what_is_not_there_is_told(klamm: Command, filled: str, group: str, scope: str, complaint: str) -> None:
    """An unknown topic or partition is an error, and no offset changes."""
    refused = klamm("group", "reset", group, "-t", scope.format(topic=filled), "--to-earliest", "--execute")
    assert (refused.status, refused.stdout) == (1, "")
    assert complaint.format(topic=filled) in refused.stderr
    assert _committed(klamm, group) == {0: 10, 1: 10}


def test_messages_keep_out_of_the_machines_way(klamm: Command, filled: str, group: str) -> None:
    """With -o tsv the plan is on standard output and the result message on standard error."""
    finished = klamm("group", "reset", group, "--to-offset", "1", "--execute", "-o", "tsv")
    assert finished.stdout == f"topic\tpartition\tfrom\tto\n{filled}\t0\t10\t1\n{filled}\t1\t10\t1\n"
    assert finished.stderr == f"group {group}: 2 offsets set\n"
