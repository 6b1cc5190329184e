"""`klamm group explain`: why a group is as it is, in words."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from klamm.cli.coordinator_tail import CoordinatorTail
from klamm.cli.errors import ClusterError
from klamm.cli.explain_group import Evidence, Explanation, MemberExplanation, explain
from klamm.cli.group_picture import GroupPicture
from klamm.cli.group_snapshot import GroupObserver, Snapshot
from klamm.cli.history_reader import HistoryReader
from klamm.cli.history_record import HistoryRecord
from klamm.cli.history_timeline import Repeat
from klamm.cli.output import new_console

__all__ = ["run"]

PATIENCE_S = 5.0


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation.

    Raises ClusterError where there is no such group or member.
    """
    with closing(GroupObserver(arguments)) as observer:
        snapshot = observer.look()
    if snapshot is None:
        raise ClusterError(f"there is no group {arguments.group}; `klamm group list` shows those there are")
    explanation = explain(_evidence(arguments, snapshot))
    members = _chosen(arguments, snapshot.picture, explanation.members)
    _print(arguments, explanation if arguments.member is None else Explanation((), tuple(members)))
    return 0


def _evidence(arguments: argparse.Namespace, snapshot: Snapshot) -> Evidence:
    tail = CoordinatorTail(arguments, arguments.group)
    try:
        replayed = tail.update()
    finally:
        tail.close()
    return Evidence(
        picture=snapshot.picture,
        now_ms=time.time_ns() // 1_000_000,
        partition_counts=snapshot.partition_counts,
        lags={key: snapshot.lag(key) for key in snapshot.partitions},
        history=_history(arguments),
        replayed=replayed,
        members_needed=snapshot.picture.members_needed,
    )


def _history(arguments: argparse.Namespace) -> list[HistoryRecord]:
    """The group's changes; none, where there is no history or nobody lets us read it, which is said then."""
    try:
        reader = HistoryReader(arguments, arguments.group)
        try:
            reader.start()
            told = reader.available(PATIENCE_S)
        finally:
            reader.close()
    except ClusterError as error:
        print(f"klamm group: the history can't be read: {error}", file=sys.stderr)
        return []
    return [
        each.record
        for each in told
        if each.record is not None and not any(isinstance(entry, Repeat) for entry in each.entries)
    ]


def _chosen(
    arguments: argparse.Namespace, picture: GroupPicture, explained: Sequence[MemberExplanation]
) -> list[MemberExplanation]:
    """The members that the word on the command line names."""
    if arguments.member is None:
        return list(explained)
    by_id = {member.member_id: member for member in picture.members}
    chosen = []
    for each in explained:
        member = by_id[each.member_id]
        if arguments.member in (each.name, member.member_id, member.instance_id, member.client_id):
            chosen.append(each)
    if not chosen:
        there = ", ".join(each.name for each in explained) or "nobody"
        raise ClusterError(f"group {arguments.group} has no member {arguments.member}; there is {there}")
    return chosen


def _print(arguments: argparse.Namespace, explanation: Explanation) -> None:
    from rich.table import Table
    from rich.text import Text

    console = new_console()

    def show(heading: str, lines: Sequence[str]) -> None:
        console.print(Text(heading, style="bold"))
        table = Table.grid(padding=(0, 1))
        table.add_column(width=3, justify="right", style="dim")
        table.add_column(overflow="fold")
        for line in lines:
            table.add_row("·", line)
        console.print(table)

    if explanation.lines:
        show(f"group {arguments.group}", explanation.lines)
    for member in explanation.members:
        show(member.name, member.lines)
