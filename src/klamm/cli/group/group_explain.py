"""`klamm group explain`: explains a group's state in words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta

from klamm.cli.cluster_options import access_of
from klamm.cli.output import new_console
from klamm.insight.errors import ClusterError
from klamm.insight.group.group_evidence import gather_evidence
from klamm.insight.group.group_explanation import Explanation, MemberExplanation, explain
from klamm.insight.group.group_flows import follow_group, is_worth_following
from klamm.insight.group.group_picture import GroupPicture
from klamm.insight.group.group_snapshot import GroupObserver, Snapshot
from klamm.insight.words import span

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Prints the explanation.

    Raises ClusterError if the group or the member does not exist.
    """
    access = access_of(arguments)
    with closing(GroupObserver(access, arguments.group)) as observer:
        snapshot = observer.look()
        if snapshot is None:
            raise ClusterError(f"there is no group {arguments.group}; `klamm group list` shows the groups")
        snapshots = _follow(arguments, observer, snapshot)
    gathered = gather_evidence(access, arguments.group, snapshots)
    if gathered.history_problem is not None:
        print(f"klamm group: the history can't be read: {gathered.history_problem}", file=sys.stderr)
    explanation = explain(gathered.evidence)
    members = _chosen(arguments, snapshots[-1].picture, explanation.members)
    _print(arguments, explanation if arguments.member is None else Explanation((), tuple(members)))
    return 0


def _follow(arguments: argparse.Namespace, observer: GroupObserver, snapshot: Snapshot) -> list[Snapshot]:
    """Returns snapshots of some seconds if the group has lag, otherwise only the first one."""
    if arguments.member is not None or not arguments.measure or not is_worth_following(snapshot):
        return [snapshot]
    at_most = span(arguments.measure / timedelta(milliseconds=1))
    print(f"klamm group: the group has lag; its rates are measured for up to {at_most}", file=sys.stderr)
    return follow_group(observer, snapshot, arguments.measure / timedelta(seconds=1))


def _chosen(
    arguments: argparse.Namespace, picture: GroupPicture, explained: Sequence[MemberExplanation]
) -> list[MemberExplanation]:
    """Returns the members that the command line names: all, or those with the given id or name."""
    if arguments.member is None:
        return list(explained)
    by_id = {member.member_id: member for member in picture.members}
    chosen = []
    for each in explained:
        member = by_id[each.member_id]
        if arguments.member in (each.name, member.member_id, member.instance_id, member.client_id):
            chosen.append(each)
    if not chosen:
        members = ", ".join(each.name for each in explained) or "none"
        raise ClusterError(f"group {arguments.group} has no member {arguments.member}; its members: {members}")
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
