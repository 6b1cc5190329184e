"""Tests the terminal view of `klamm group watch`."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console
from tests.unit.core.group.history.history_records import cause
from tests.unit.insight.pictures import NOW_MS, group, history_of, member, snapshot, then

from klamm.cli.group.watch_view import watch_view
from klamm.insight.group.group_snapshot import Snapshot
from klamm.insight.group.group_watcher import WatchedGroup
from klamm.insight.group.member_names import MemberNames


def _lines(shown: Snapshot | None, *, width: int = 100, height: int = 30, **fields: Any) -> list[str]:
    names = MemberNames()
    if shown is not None:
        shown.picture.name_members(names)
    watched = WatchedGroup("billing", names, snapshot=shown, **fields)
    if shown is not None:
        watched.rates.add(shown)
    console = Console(width=width, record=True, file=io.StringIO(), highlight=False)
    console.print(watch_view(watched, width, height))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_stable_group_at_one_glance() -> None:
    """A stable group is shown with its members and partitions, without the columns of a rebalance."""
    lines = _lines(snapshot(group(member("one", [0, 1], epoch=7), member("two", [2], epoch=7))))
    assert lines[0] == "group billing  consumer  stable  epoch 7  uniform  2 members"
    assert lines[1].endswith("  lag 6")
    assert [line.split() for line in lines[3:6]] == [
        ["MEMBER", "HOST", "EPOCH", "HAS", "LAG"],
        ["one", "10.0.0.1", "7", "orders", "0,", "1", "4"],
        ["two", "10.0.0.1", "7", "orders", "2", "2"],
    ]
    assert [line.split() for line in lines[7:9]] == [
        ["PARTITION", "OWNER", "COMMITTED", "END", "LAG", "IN/S", "DONE/S"],
        ["orders-0", "one", "5", "7", "2"],
    ]


def test_a_reconciliation_shows_what_moves() -> None:
    """A reconciliation is shown with the partitions to give back and to get, and with the waits."""
    moving = group(member("one", [0, 1], [0], epoch=6), member("two", [], [1], epoch=7), state="reconciling")
    lines = _lines(snapshot(moving))
    assert [line.split() for line in lines[3:6]] == [
        ["MEMBER", "HOST", "EPOCH", "HAS", "GIVES", "BACK", "IS", "TO", "GET", "LAG"],
        ["one", "10.0.0.1", "6", "→", "7", "orders", "0", "orders", "1", "4"],
        ["two", "10.0.0.1", "7", "nothing", "orders", "1"],
    ]
    assert any(line.split()[:4] == ["orders-1", "one", "→", "two"] for line in lines)
    assert "… two waits for orders 1 from one" in lines


def test_the_last_changes_are_shown_below() -> None:
    """The last three changes are shown in one line each, cut at the width of the terminal."""
    history = [
        history_of(epoch=epoch, after=[then("two")], causes=[cause("admin", None, f"somebody joined {'x' * 90}")])
        for epoch in range(4, 8)
    ]
    lines = _lines(snapshot(group(member("one", [0]))), history=history)
    shown = [line for line in lines if "somebody joined" in line]
    assert [line.split("  ")[1] for line in shown] == ["epoch 5", "epoch 6", "epoch 7"]
    assert all(line.endswith("…") and len(line) <= 100 for line in shown)


def test_what_does_not_fit_is_left_out_and_said() -> None:
    """If the terminal is too small, the partitions with the largest lag stay, and a line counts the rest."""
    many = group(*(member(f"member-{number:02}", [number], epoch=7) for number in range(40)))
    shown = snapshot(many)
    ends = dict(shown.ends) | {("orders", 33): (0, 1_000)}
    lines = _lines(Snapshot(NOW_MS, many, shown.committed, ends, {}), height=24)
    assert len(lines) <= 24
    assert any(line.startswith("orders-33") for line in lines)
    assert any(line.startswith("and ") and line.endswith(" more, with less lag") for line in lines)
    assert any(line.startswith("and ") and line.endswith(" more") for line in lines)


def test_a_narrow_terminal_keeps_the_numbers() -> None:
    """In a narrow terminal, names are cut but numbers are complete."""
    long = group(
        member("a-member-with-a-very-long-name-indeed", range(30), [0], epoch=7), member("two", [], range(1, 30))
    )
    lines = _lines(snapshot(long, committed=1_000_000, end=2_000_000), width=80, height=60)
    assert all(len(line) <= 80 for line in lines)
    row = next(line.split() for line in lines if line.startswith("orders-7"))
    assert row[-3:] == ["1,000,000", "2,000,000", "1,000,000"]


def test_a_group_that_is_gone_is_watched_for() -> None:
    """A missing group is still watched, because it may appear again."""
    assert _lines(None) == ["there is no group billing now; it is watched for"]


def test_a_group_without_members_or_commits_is_short() -> None:
    """A group without members and commits has two lines only."""
    lines = _lines(snapshot(group(state="empty", assignor=None)))
    assert lines[0] == "group billing  consumer  empty  epoch 7  0 members"
    assert len([line for line in lines if line]) == 2
    assert "3 needed" in _lines(snapshot(group(member("one"), members_needed=3)))[0]
