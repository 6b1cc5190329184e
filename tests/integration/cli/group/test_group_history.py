"""`klamm group history`."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.integration.cli.conftest import PATIENCE_S, Command
from tests.unit.core.group.history.history_records import cause, change, member

from klamm.core.coordinator.java_hash import partition_for
from klamm.testing import Broker

Write = Callable[..., None]


@pytest.fixture
def write(broker: Broker, group: str) -> Write:
    """Returns a function that writes history records as a broker does; creates the history topic if it is missing."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    if "__group_history" not in admin.list_topics().topics:
        admin.create_topics([NewTopic("__group_history", 1, 1)])["__group_history"].result(PATIENCE_S)
    count = len(admin.list_topics().topics["__group_history"].partitions)
    # The only client id that may write to internal topics.
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "__admin_client"})

    errors: list[object] = []

    def write(*values: bytes, of: str = group, at_ms: int = 0) -> None:
        for value in values:
            producer.produce(
                "__group_history",
                value,
                of,
                partition=partition_for(of, count),
                timestamp=at_ms,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(PATIENCE_S) == 0
        assert set(errors) == {None}

    return write


def test_the_groups_changes_are_shown_in_order(klamm: Command, write: Write, group: str) -> None:
    """The group's changes are shown in order, without the changes of other groups in the same partition."""
    one, two = member("one", orders=[0, 1]), member("two", orders=[1])
    write(change(epoch=1), of=f"{group}-other")
    write(
        change(epoch=1, after=[one], causes=[cause("member_joined", "one", "member {} joined")]),
        change(epoch=2, before=[one], after=[member("one", orders=[0]), two]),
        change(epoch=4, sequence=0, coordinator_epoch=4),
        change(epoch=4, sequence=0, coordinator_epoch=4),
    )
    lines = [line.rstrip() for line in klamm.done("group", "history", group).splitlines()]
    assert [line.partition("generation ")[2][:5] for line in lines if "generation" in line] == [
        "0 → 1",
        "1 → 2",
        "3 → 4",
    ]
    assert "    why     member one joined (10.0.0.1)" in lines
    assert "    moved   orders 1: one → two" in lines
    assert "    ⚠ epoch 3 is not on record" in lines
    assert lines[-2] == "    ↻ epoch 4 was written twice (coordinator epoch 4, sequence 0)"
    assert len(klamm.done("group", "history", group, "--limit", "2").splitlines()) < len(lines)


def test_json_is_the_record_and_what_is_odd_about_it(klamm: Command, write: Write, group: str) -> None:
    """With --json each line is one object: the record, and whether it is a repeat or follows a gap."""
    write(change(epoch=1), change(epoch=3, sequence=3), change(epoch=3, sequence=3))
    rows = [json.loads(line) for line in klamm.done("group", "history", group, "--json").splitlines()]
    assert [(row["epoch"], row["gap"], row["is_repeat"]) for row in rows] == [
        (1, None, False),
        (3, "1 change is not on record", False),
        (3, None, True),
    ]
    assert rows[0]["causes"][0]["text"] == "somebody wanted it"


def test_since_leaves_out_what_ended_before(klamm: Command, write: Write, group: str) -> None:
    """--since takes a time or a duration and leaves out changes that ended earlier."""
    now_ms = time.time_ns() // 1_000_000
    write(change(epoch=1, finished_ms=now_ms - 7_200_000), at_ms=now_ms - 7_200_000)
    write(change(epoch=2, finished_ms=now_ms - 60_000), at_ms=now_ms - 60_000)
    assert [row["epoch"] for row in _rows(klamm, group, "--since", "1h")] == [2]
    assert [row["epoch"] for row in _rows(klamm, group, "--since", "2020-01-01")] == [1, 2]
    finished = klamm("group", "history", group, "--since", "1s")
    assert (finished.status, finished.stdout) == (0, "")
    assert finished.stderr == f"klamm group: group {group} has not changed since then\n"


def test_follow_goes_on_with_those_to_come(klamm: Command, write: Write, group: str) -> None:
    """With --follow each new change is shown when it is written; an interrupt ends the command with status 0."""
    write(change(epoch=1))
    process = klamm.start("group", "history", group, "--follow", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["epoch"] == 1
    write(change(epoch=2))
    assert json.loads(process.stdout.readline())["epoch"] == 2
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0


def test_a_record_that_is_not_understood_is_told(klamm: Command, write: Write, group: str) -> None:
    """A record that can't be decoded is reported, and the other records are shown."""
    write(change(epoch=1), b"nonsense", change(epoch=2, version=2, sequence=2), change(epoch=2))
    finished = klamm("group", "history", group)
    assert finished.status == 0
    assert finished.stdout.count("generation") == 2
    assert "no record of a group's history" in finished.stderr
    assert "a record of version 2; this klamm understands version 1" in finished.stderr


def test_a_group_without_history_is_told(klamm: Command, write: Write, group: str) -> None:
    """The error for a group without history says what to do next."""
    finished = klamm("group", "history", group)
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr == (
        f"klamm group: no change of group {group} is on record; `klamm group list` shows the groups there are\n"
    )


def _rows(klamm: Command, group: str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in klamm.done("group", "history", group, "--json", *words).splitlines()]
