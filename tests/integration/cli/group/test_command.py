"""`klamm group list`, `describe` and `delete`."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
from tests.integration.cli.conftest import PATIENCE_S, Command


def _fill(klamm: Command, topic: str, *counts: int) -> None:
    for partition, count in enumerate(counts):
        klamm.done("produce", topic, "-p", str(partition), stdin="x\n" * count)


def _members(klamm: Command, group: str, count: int) -> list[dict[str, Any]]:
    """Returns the members once the group is stable with `count` members and has assigned partitions."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        described = klamm("group", "describe", group, "--members", "-o", "json")
        if described.status == 0 and described.stderr.startswith(f"group {group}: stable"):
            rows: list[dict[str, Any]] = json.loads(described.stdout)
            if len(rows) == count and any(row["partitions"] for row in rows):
                return rows
    raise AssertionError(described)


def test_offsets_and_lag_are_shown_for_each_partition(klamm: Command, topic: str, group: str) -> None:
    """`klamm group describe` shows for each partition the committed offset and the lag: the high watermark minus the
    committed offset."""
    _fill(klamm, topic, 5, 3, 0)
    klamm.done("consume", topic, "-g", group, "-e")
    klamm.done("produce", topic, "-p", "1", stdin="y\ny\n")
    nobody = {"member": None, "host": None, "client_id": None}
    # Partition 2 never had a record, so it has no committed offset and a lag of 0.
    assert klamm.rows("group", "describe", group) == [
        {"topic": topic, "partition": 0, "committed": 5, "log_start": 0, "high_watermark": 5, "lag": 0, **nobody},
        {"topic": topic, "partition": 1, "committed": 3, "log_start": 0, "high_watermark": 5, "lag": 2, **nobody},
        {"topic": topic, "partition": 2, "committed": None, "log_start": 0, "high_watermark": 0, "lag": 0, **nobody},
    ]
    table = klamm.done("group", "describe", group).splitlines()
    assert table[0] == f"group {group}: empty, 0 members, lag 2"
    head = "TOPIC PARTITION COMMITTED LOG START HIGH WATERMARK LAG MEMBER HOST CLIENT ID"
    assert " ".join(table[1].split()) == head
    assert table[3].split() == [topic, "1", "3", "0", "5", "2", "none", "none", "none"]


def test_partitions_without_a_commit_have_no_lag(klamm: Command, topic: str, group: str) -> None:
    """A partition without a committed offset shows none instead of 0, because its start position is unknown. The
    group's lag is then a lower bound."""
    _fill(klamm, topic, 1)
    klamm.start("consume", topic, "-g", group, "-X", "client.id=reader", "-X", "auto.offset.reset=latest")
    _members(klamm, group, 1)
    rows = klamm.rows("group", "describe", group)
    assert [(row["partition"], row["client_id"]) for row in rows] == [(0, "reader"), (1, "reader"), (2, "reader")]
    shown = [(row["committed"], row["lag"], row["high_watermark"]) for row in rows]
    assert shown == [(None, None, 1), (None, 0, 0), (None, 0, 0)]
    tsv = klamm.done("group", "describe", group, "-o", "tsv").splitlines()
    assert tsv[1].split("\t")[:6] == [topic, "0", "", "0", "1", ""]
    table = klamm.done("group", "describe", group).splitlines()
    assert table[0] == f"group {group}: stable, 1 member, lag ≥ 0 (1 partition uncommitted)"
    assert table[2].split()[:6] == [topic, "0", "none", "0", "1", "none"]


def test_partitions_that_nobody_has_committed_or_has_are_shown(klamm: Command, topic: str, group: str) -> None:
    """All partitions of a topic with a commit are shown. A partition that was left out would look as if it had been
    read."""
    _fill(klamm, topic, 5, 3, 4)
    klamm.done("group", "reset", group, "-t", f"{topic}:0", "--to-offset", "2", "--execute")
    rows = klamm.rows("group", "describe", group)
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, 2, 3),
        (1, None, None),
        (2, None, None),
    ]
    heading = klamm.done("group", "describe", group).splitlines()[0]
    assert heading.endswith("lag ≥ 3 (2 partitions uncommitted)")


def test_members_that_own_nothing_are_shown(klamm: Command, topic: str, group: str) -> None:
    """Of four members on three partitions one is idle, and `klamm group describe` shows which."""
    for number in range(4):
        klamm.start("consume", topic, "-g", group, "-X", f"client.id=member-{number}")
    members = _members(klamm, group, 4)
    assert [row["client_id"] for row in members] == [f"member-{number}" for number in range(4)]
    assert sorted(row["partitions"] or "" for row in members) == ["", *(f"{topic}-{index}" for index in range(3))]
    (standby,) = (row for row in members if row["partitions"] is None)
    rows = klamm.rows("group", "describe", group)
    assert [row["topic"] for row in rows] == [topic, topic, topic, None]
    assert rows[-1]["member"] == standby["member"]
    assert rows[-1]["lag"] is None
    assert klamm.done("group", "describe", group).startswith(
        f"group {group}: stable, 4 members, 1 standing by, lag 0\n"
    )
    assert {row["host"] for row in members} == {"/127.0.0.1"}


def test_groups_are_listed_with_their_state(klamm: Command, topic: str, group: str) -> None:
    """A group with members is listed as stable, a group with only offsets as empty."""
    klamm.done("produce", topic, stdin="x\n")
    klamm.done("consume", topic, "-g", f"{group}-empty", "-e")
    klamm.start("consume", topic, "-g", f"{group}-live")
    _members(klamm, f"{group}-live", 1)
    rows = {row["group"]: row for row in klamm.rows("group", "list")}
    assert (rows[f"{group}-empty"]["state"], rows[f"{group}-empty"]["type"]) == ("empty", "classic")
    assert (rows[f"{group}-live"]["state"], rows[f"{group}-live"]["type"]) == ("stable", "classic")
    assert klamm.done("group", "list").splitlines()[0].split() == ["GROUP", "STATE", "TYPE"]


def test_groups_of_the_consumer_protocol_are_told_with_their_epochs(klamm: Command, topic: str, group: str) -> None:
    """A group of the consumer protocol (KIP-848) is shown with each member's current and target partitions and with its
    epoch."""
    for number in range(2):
        klamm.start("consume", topic, "-g", group, "-X", f"client.id=member-{number}", "-X", "group.protocol=consumer")
    members = _members(klamm, group, 2)
    while not all(row["partitions"] and row["partitions"] == row["target"] for row in members):
        members = _members(klamm, group, 2)
    assert [row["client_id"] for row in members] == ["member-0", "member-1"]
    assert {row["protocol"] for row in members} == {"consumer"}
    partitions = ", ".join(row["partitions"] for row in members).split(", ")
    assert sorted(partitions) == [f"{topic}-{index}" for index in range(3)]
    (epoch,) = {row["epoch"] for row in members}
    heading = klamm.done("group", "describe", group, "-m").splitlines()[0]
    assert heading == f"group {group}: stable, epoch {epoch}, assignor uniform"
    assert klamm.done("group", "describe", group).startswith(
        f"group {group}: stable, epoch {epoch}, 2 members, lag 0\n"
    )
    (listed,) = (row for row in klamm.rows("group", "list") if row["group"] == group)
    assert (listed["state"], listed["type"]) == ("stable", "consumer")


def test_a_state_that_librdkafka_does_not_know_is_listed(klamm: Command, topic: str, group: str) -> None:
    """Groups in the state reconciling, which librdkafka does not know, are listed. A static member that leaves
    temporarily causes that state."""
    klamm.done("produce", topic, stdin="x\n")
    static = ("-X", "group.protocol=consumer", "-X", "group.instance.id=one")
    groups = {f"{group}-{number}" for number in range(2)}
    for each in groups:
        klamm.done("consume", topic, "-g", each, "-e", *static)
    listed = {row["group"]: (row["state"], row["type"]) for row in klamm.rows("group", "list")}
    assert {listed[each] for each in groups} == {("reconciling", "consumer")}


def test_a_group_is_deleted_with_its_offsets(klamm: Command, topic: str, group: str) -> None:
    """A deleted group is not listed any more, and a new member starts at the beginning."""
    klamm.done("produce", topic, stdin="x\n")
    assert "x" in klamm.done("consume", topic, "-g", group, "-e", "-f", "%s")
    assert klamm.done("group", "delete", group) == f"deleted group {group}\n"
    assert group not in klamm.done("group", "list")
    assert "x" in klamm.done("consume", topic, "-g", group, "-e", "-f", "%s")


def test_a_group_with_members_is_not_deleted(klamm: Command, topic: str, group: str) -> None:
    """`klamm group delete` refuses a group with members and an unknown group. It reports the result for each group, and
    says what to do next."""
    klamm.start("consume", topic, "-g", group)
    _members(klamm, group, 1)
    klamm.done("produce", topic, stdin="x\n")
    klamm.done("consume", topic, "-g", f"{group}-other", "-e")
    finished = klamm("group", "delete", group, f"{group}-other", "missing")
    assert (finished.status, finished.stdout) == (1, f"deleted group {group}-other\n")
    complaints = sorted(finished.stderr.splitlines())
    assert complaints[0].startswith(f"klamm group: {group}: NON_EMPTY_GROUP")
    assert complaints[0].endswith(f"stop its members first; `klamm group describe {group} --members` shows them")
    assert complaints[1].startswith("klamm group: missing: GROUP_ID_NOT_FOUND")
    assert complaints[1].endswith("`klamm group list` shows the groups")


@pytest.mark.parametrize("words", [(), ("--members",), ("-o", "json")])
def test_a_group_that_is_not_there_is_told(klamm: Command, words: tuple[str, ...]) -> None:
    """`klamm group describe` of an unknown group fails with one line that says what to do next."""
    finished = klamm("group", "describe", f"missing-{uuid.uuid4()}", *words)
    assert (finished.status, finished.stdout) == (1, "")
    assert finished.stderr.startswith("klamm group: there is no group missing")
    assert "`klamm group list` shows the groups" in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_a_deleted_topic_leaves_no_trace_in_its_groups(klamm: Command, topic: str, group: str) -> None:
    """The broker removes the committed offsets of a deleted topic."""
    other = f"{topic}-other"
    for name in (topic, other):
        klamm.done("produce", name, stdin="x\n")
    klamm.done("consume", topic, other, "-g", group, "-e")
    klamm.done("topic", "delete", other)
    assert {row["topic"] for row in klamm.rows("group", "describe", group)} == {topic}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "required: VERB"),
        (("describe",), "required: group"),
        (("reset", "group"), "one of the arguments --to-earliest --to-latest"),
        (("reset", "group", "--to-earliest", "--to-latest"), "not allowed with argument"),
        (("reset", "group", "--to-offset", "many"), "invalid int value: 'many'"),
        (("reset", "group", "--to-datetime", "noon"), "'noon' is no time: write 2026-01-31"),
        (("reset", "group", "--by-duration", "long"), "'long' is no duration: write 90s"),
        (("reset", "group", "--to-latest", "-t", "topic:x"), "takes TOPIC or TOPIC:PARTITION,..., not 'topic:x'"),
    ],
)
def test_wrong_use_is_told(klamm: Command, words: tuple[str, ...], complaint: str) -> None:
    """A wrong command line exits with status 2."""
    finished = klamm("group", *words)
    assert (finished.status, finished.stdout) == (2, "")
    assert complaint in finished.stderr
