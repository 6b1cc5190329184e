"""`klamm consume -g` continues at the group's committed offsets, and commits the records that it has printed."""

from __future__ import annotations

import signal

import pytest
from tests.integration.cli.conftest import PATIENCE_S, Command


@pytest.fixture
def filled(klamm: Command, topic: str) -> str:
    """Creates a topic with the values 0 to 9 in its partition 1."""
    klamm.done("produce", topic, "-p", "1", stdin="".join(f"{number}\n" for number in range(10)))
    return topic


def _read(klamm: Command, topic: str, group: str, *words: str) -> list[int]:
    shown = klamm.done("consume", topic, "-g", group, "-f", r"%s\n", *words)
    return [int(line) for line in shown.splitlines()]


def _committed(klamm: Command, group: str) -> list[int | None]:
    """Returns the committed offsets of the partitions that contain records."""
    rows = klamm.rows("group", "describe", group)
    return [row["committed"] for row in rows if row["topic"] is not None and row["high_watermark"]]


def test_it_goes_on_where_the_group_stands(klamm: Command, filled: str, group: str) -> None:
    """Exactly the printed records are committed; a second run prints the rest, a third run nothing."""
    assert _read(klamm, filled, group, "-n", "3") == [0, 1, 2]
    assert _committed(klamm, group) == [3]
    assert _read(klamm, filled, group, "-e") == [*range(3, 10)]
    assert _read(klamm, filled, group, "-e") == []
    assert _committed(klamm, group) == [10]


def test_groups_do_not_disturb_each_other(klamm: Command, filled: str, group: str) -> None:
    """Each group reads all records; reading without a group changes no committed offset."""
    assert _read(klamm, filled, f"{group}-a", "-e") == [*range(10)]
    assert _read(klamm, filled, f"{group}-b", "-n", "4") == [*range(4)]
    klamm.done("consume", filled, "-e")
    assert _committed(klamm, f"{group}-a") == [10]
    assert _committed(klamm, f"{group}-b") == [4]


def test_latest_counts_where_nothing_is_committed(klamm: Command, filled: str, group: str) -> None:
    """With --from latest a new group begins at the end; a group with a commit continues from its commit."""
    assert _read(klamm, filled, group, "-e", "--from", "latest") == []
    other = f"{group}-other"
    assert _read(klamm, filled, other, "-n", "4") == [*range(4)]
    assert _read(klamm, filled, other, "-e", "--from", "latest") == [*range(4, 10)]


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_commits_what_was_printed(
    klamm: Command, filled: str, group: str, signal_number: signal.Signals
) -> None:
    """After a signal the command commits the printed records and leaves the group."""
    process = klamm.start("consume", filled, "-g", group, "-f", r"%s\n")
    assert process.stdout is not None
    for number in range(10):
        assert process.stdout.readline() == b"%d\n" % number
    process.send_signal(signal_number)
    assert process.wait(PATIENCE_S) == 0
    assert _committed(klamm, group) == [10]
    assert klamm.rows("group", "describe", group, "--members") == []


def test_what_nobody_read_is_not_committed(klamm: Command, filled: str, group: str) -> None:
    """If the reader of the command's output closes the pipe, records that it did not read are not committed."""
    process = klamm.start("consume", filled, "-g", group, "-f", "%s" + "x" * 100_000 + r"\n")
    assert process.stdout is not None
    assert process.stdout.read(1) == b"0"
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert klamm.rows("group", "describe", group) == []


def test_a_member_hands_over_what_it_has_not_printed(klamm: Command, filled: str, group: str) -> None:
    """A second member takes over partitions and does not print the first member's records again."""
    first = klamm.start("consume", filled, "-g", group, "-f", r"%s\n", "-X", "client.id=first")
    assert first.stdout is not None
    for number in range(10):
        assert first.stdout.readline() == b"%d\n" % number
    second = klamm.start("consume", filled, "-g", group, "-f", r"%s\n", "-X", "client.id=second")
    assert second.stdout is not None
    owned: dict[str, int] = {}
    while sorted(owned.values()) != [1, 2]:
        members = klamm.rows("group", "describe", group, "--members")
        owned = {row["client_id"]: len((row["partitions"] or "").split(", ")) for row in members if row["partitions"]}
    assert _committed(klamm, group) == [10]
    for partition in range(3):
        klamm.done("produce", filled, "-p", str(partition), stdin=f"new {partition}\n")
    printed = [first.stdout.readline() for _ in range(owned["first"])]
    printed += [second.stdout.readline() for _ in range(owned["second"])]
    assert sorted(printed) == [b"new %d\n" % partition for partition in range(3)]
