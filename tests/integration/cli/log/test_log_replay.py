"""`klamm log replay`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.integration.cli.conftest import Command


@pytest.fixture
def used(klamm: Command, topic: str, group: str) -> str:
    """Creates a topic that the group has read in two runs: partition 0 to offset 2 and then 3, partition 1 to offset
    1."""
    klamm.done("produce", topic, "-p", "0", stdin="a\nb\n")
    klamm.done("produce", topic, "-p", "1", stdin="c\n")
    klamm.done("consume", topic, "-g", group, "-e")
    klamm.done("produce", topic, "-p", "0", stdin="d\n")
    klamm.done("consume", topic, "-g", group, "-e")
    return topic


def _replay(klamm: Command, *words: str) -> list[dict[str, Any]]:
    shown = klamm.done("log", "replay", "__consumer_offsets-0", "--json", *words)
    return [json.loads(line) for line in shown.splitlines()]


def test_it_shows_the_group_after_each_record(klamm: Command, used: str, group: str) -> None:
    """The replay shows the group's members and offsets after each record, and a summary at the end."""
    *rows, last = _replay(klamm, "--group", group)
    assert {row["group"] for row in rows} == {group}
    offsets = [row["state"]["offsets"] for row in rows if row["name"] == "OffsetCommit"]
    assert offsets[-1] == {used: {"0": 3, "1": 1}}
    assert {used: {"0": 2, "1": 1}} in offsets
    generations = [row["state"]["epoch"] for row in rows if row["name"] == "GroupMetadata"]
    assert generations == sorted(generations)
    owners = [row["state"]["members"] for row in rows if row["state"]["members"]]
    assert owners[0][0]["assigned"] == {used: [0, 1, 2]}
    assert owners[0][0]["client"] == "klamm"
    assert last["summary"]["groups"][0]["members"] == []
    assert last["summary"]["groups"][0]["offsets"] == {used: {"0": 3, "1": 1}}
    assert last["summary"]["records"]["OffsetCommit"] >= 3
    assert last["summary"]["not_understood"] == 0


def test_it_stops_where_it_is_told(klamm: Command, used: str, group: str) -> None:
    """With --to the replay ends with the record at that offset and shows the state at that time."""
    *rows, _ = _replay(klamm, "--group", group)
    commits = [row for row in rows if row["name"] == "OffsetCommit"]
    *until, last = _replay(klamm, "--group", group, "--to", str(commits[0]["offset"]))
    assert until[-1] == commits[0]
    assert last["summary"]["last_offset"] == commits[0]["offset"]
    assert sum(map(len, last["summary"]["groups"][0]["offsets"].values())) == 1


def test_it_reads_like_a_story(klamm: Command, used: str, group: str) -> None:
    """Without --json each record is shown in words with the group below it, and all groups at the end."""
    lines = klamm.done("log", "replay", "__consumer_offsets-0", "--group", group).splitlines()
    assert any(line.endswith(f"  OffsetCommit  group {group}") for line in lines)
    assert f"    {used}-0 at 3" in lines
    assert f"      klamm: {used} 0-2" in lines or any(f": {used} 0-2" in line for line in lines)
    assert any(line.startswith("  = classic, generation 1, ") for line in lines)
    head = next(
        number for number, line in enumerate(lines) if line.split() == ["GROUP", "TYPE", "EPOCH", "MEMBERS", "OFFSETS"]
    )
    assert lines[head + 1].split()[0] == group
    assert lines[head + 1].split()[3:] == ["0", "2"]


def test_it_shows_all_groups_of_the_partition(klamm: Command, used: str, group: str) -> None:
    """Without --group the replay shows all groups of the partition."""
    klamm.done("consume", used, "-g", f"{group}-other", "-e")
    shown = {row["group"] for row in _replay(klamm)[:-1]}
    assert {group, f"{group}-other"} <= shown


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("orders-0",), 2, "takes __consumer_offsets-N"),
        (("__consumer_offsets",), 2, "takes __consumer_offsets-N"),
        (("__consumer_offsets-7",), 1, "has no partition 7, only 0 to 0"),
        (("__consumer_offsets-0", "--to", "x"), 2, "invalid int value"),
    ],
)
def test_wrong_use_is_told(klamm: Command, used: str, words: tuple[str, ...], status: int, complaint: str) -> None:
    """A wrong command line is an error that says what to do instead."""
    finished = klamm("log", "replay", *words)
    assert (finished.status, finished.stdout) == (status, "")
    assert complaint in finished.stderr


def test_a_group_that_is_not_there_has_no_records(klamm: Command, used: str) -> None:
    """The replay says that an unknown group has no records."""
    assert klamm.done("log", "replay", "__consumer_offsets-0", "--group", "missing") == (
        "__consumer_offsets-0 has no records of group missing\n"
    )
