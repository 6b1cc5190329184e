"""The screen of `klamm group watch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from klamm.cli.group.fitted_table import Column, fitted_table
from klamm.cli.group.history_view import brief
from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.group.group_rates import Rate, Rates
from klamm.insight.group.group_snapshot import Snapshot
from klamm.insight.group.group_waits import group_wait, wait_words, waits
from klamm.insight.group.group_watcher import WatchedGroup
from klamm.insight.group.member_names import MemberNames
from klamm.insight.words import PartitionKey, count, moment, partition_names

__all__ = ["watch_view"]

_HISTORY_ENTRIES: Final = 3
_STATES: Final = {"stable": "green", "empty": "dim", "dead": "red"}
# Headings, blank lines, and the lines that tell how many rows are left out.
_FRAME_LINES: Final = 10
_LEAST_PARTITIONS: Final = 4
_LEAST_MEMBERS: Final = 3


def watch_view(watched: WatchedGroup, width: int, height: int) -> RenderableType:
    """Returns the screen, with lines of at most `width` characters, and at most `height` lines if possible."""
    snapshot, names, replayed = watched.snapshot, watched.names, watched.replayed
    if snapshot is None:
        if watched.problem is not None:
            return Text(watched.problem, style="red")
        return Text(f"there is no group {watched.group_id} now; it is watched for", style="yellow")
    picture = snapshot.picture
    waiting = [*group_wait(picture, replayed, names)]
    waiting += [
        f"{names.of(wait.member_id)} waits for {wait_words(wait, names, snapshot.at_ms)}"
        for wait in waits(picture, replayed)
    ]
    past = _history(watched.history, names)
    left = height - _FRAME_LINES - min(len(waiting), 4) - len(past)
    members = max(_LEAST_MEMBERS, min(len(picture.members), left // 2))
    partitions = max(_LEAST_PARTITIONS, left - min(members, len(picture.members)))
    parts: list[RenderableType] = [_head(watched.group_id, snapshot, watched.rates.total()), Text()]
    if picture.members:
        parts += [*_members(snapshot, names, members, width), Text()]
    if snapshot.partitions:
        parts += [*_partitions(snapshot, watched.rates, names, partitions, width), Text()]
    if watched.problem is not None:
        parts.append(Text(f"as of {moment(snapshot.at_ms)}: {watched.problem}", style="red"))
    for line in waiting[:4]:
        parts.append(Text(f"… {line}", style="yellow", no_wrap=True, overflow="ellipsis"))
    return Group(*parts, *past)


def _head(group: str, snapshot: Snapshot, rate: Rate) -> Text:
    picture = snapshot.picture
    parts = [f"epoch {picture.epoch}"] if picture.epoch is not None else []
    if picture.assignment_epoch is not None and picture.assignment_epoch != picture.epoch:
        parts.append(f"target of epoch {picture.assignment_epoch}")
    parts += [picture.assignor] if picture.assignor is not None else []
    parts.append(count(len(picture.members), "member"))
    if snapshot.picture.members_needed is not None:
        parts.append(f"{snapshot.picture.members_needed} needed")
    line = Text(f"group {group}", style="bold", no_wrap=True, overflow="ellipsis")
    line.append(f"  {picture.kind}  ", style="not bold")
    line.append(picture.state, style=_STATES.get(picture.state, "yellow"))
    line.append("  ".join(["", *parts]), style="not bold")
    traffic = [moment(snapshot.at_ms)[11:]]
    if snapshot.lag_in_words is not None:
        traffic.append(snapshot.lag_in_words)
    if rate.arriving is not None:
        traffic.append(f"{_rate(rate.arriving)} records/s arrive")
    if rate.committed is not None:
        traffic.append(f"{_rate(rate.committed)}/s are done")
    line.append("\n" + "  ".join(traffic), style="not bold dim")
    return line


def _members(snapshot: Snapshot, names: MemberNames, most: int, width: int) -> Iterator[RenderableType]:
    """Yields the table of at most `most` members, with columns for partitions to revoke and to get if there are any."""
    picture = snapshot.picture
    has_epochs = any(member.epoch is not None for member in picture.members)
    is_moving = any(member.surplus or member.missing for member in picture.members)
    columns = [Column("MEMBER"), Column("HOST")]
    columns += [Column("EPOCH", is_number=True)] if has_epochs else []
    columns.append(Column("HAS"))
    columns += [Column("GIVES BACK"), Column("IS TO GET")] if is_moving else []
    columns.append(Column("LAG", is_number=True))
    shown = picture.members[:most]
    rows = []
    for member in shown:
        cells = [names.of(member.member_id), member.host.removeprefix("/")]
        cells += [_epoch(member, picture)] if has_epochs else []
        cells.append(_short(member.assigned & member.target or member.assigned))
        cells += [_short(member.surplus, ""), _short(member.missing, "")] if is_moving else []
        rows.append([*cells, _lag([snapshot.lag(key) for key in member.assigned])])
    yield fitted_table(columns, rows, width)
    if len(picture.members) > len(shown):
        yield Text(f"and {len(picture.members) - len(shown)} more", style="dim")


def _epoch(member: MemberPicture, picture: GroupPicture) -> str:
    if member.epoch is None:
        return ""
    return f"{member.epoch}" + ("" if member.epoch == picture.epoch else f" → {picture.epoch}")


def _short(keys: frozenset[PartitionKey], none: str = "nothing") -> str:
    return partition_names(keys) if keys else none


def _partitions(
    snapshot: Snapshot, rates: Rates, names: MemberNames, most: int, width: int
) -> Iterator[RenderableType]:
    """Yields the table of all partitions; if they are more than `most`, of those with the largest lag."""
    owners = snapshot.picture.owners
    targets = {key: member for member in snapshot.picture.members for key in member.target}
    every = snapshot.partitions
    shown = every
    if len(every) > most:
        shown = sorted(sorted(every, key=lambda key: _sort_key(snapshot.lag(key)))[: most - 1])
    rows = []
    for key in shown:
        owner = names.of(owners[key].member_id) if key in owners else "no owner"
        target = names.of(targets[key].member_id) if key in targets else "no owner"
        rate = rates.of(key)
        start_and_end = snapshot.ends.get(key)
        rows.append(
            [
                f"{key[0]}-{key[1]}",
                owner if owner == target else f"{owner} → {target}",
                _number(snapshot.committed.get(key)),
                _number(start_and_end[1] if start_and_end is not None else None),
                _number(snapshot.lag(key)),
                _rate(rate.arriving),
                _rate(rate.committed),
            ]
        )
    numbers = [Column(heading, is_number=True) for heading in ("COMMITTED", "END", "LAG", "IN/S", "DONE/S")]
    yield fitted_table([Column("PARTITION"), Column("OWNER"), *numbers], rows, width)
    if len(every) > len(shown):
        yield Text(f"and {len(every) - len(shown)} more, with less lag", style="dim")


def _sort_key(lag: int | None) -> float:
    """Returns the key that sorts the largest lag first. An unknown lag counts as the largest."""
    return float("-inf") if lag is None else -lag


def _lag(lags: Sequence[int | None]) -> str:
    """Returns the total lag; a lower bound if a partition has no commit."""
    known = [lag for lag in lags if lag is not None]
    if not known:
        return "unknown" if lags else ""
    return f"{sum(known):,}" if len(known) == len(lags) else f"≥ {sum(known):,}"


def _number(number: int | None) -> str:
    return "none" if number is None else f"{number:,}"


def _rate(rate: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= 1 or rate == 0 else f"{rate:.1f}"


def _history(history: Sequence[HistoryRecord], names: MemberNames) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for record in list(history)[-_HISTORY_ENTRIES:]:
        line = brief(record, names)
        line.no_wrap, line.overflow = True, "ellipsis"
        lines.append(line)
    return lines
