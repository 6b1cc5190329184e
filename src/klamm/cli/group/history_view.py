"""Formats a group's history for a terminal: a block for each change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from klamm.core.group.history.history_record import HistoryCause, HistoryRecord
from klamm.insight.group.history_timeline import Change, Entry, Gap, Repeat
from klamm.insight.group.member_names import MemberNames
from klamm.insight.words import count, moment, partition_ranges, span

__all__ = ["brief", "entry_view", "headline", "move_lines"]

_MOST_LINES: Final = 8
_STYLES: Final = {"stable": "green", "superseded": "yellow", "taken_over": "yellow", "limited": "yellow"}


def entry_view(entry: Entry, names: MemberNames) -> RenderableType:
    """Returns the view of one entry of the timeline. `names` must contain the record's members."""
    if isinstance(entry, Gap):
        return Text(f"    ⚠ {entry.text}", style="bold red")
    if isinstance(entry, Repeat):
        return Text(
            f"    ↻ epoch {entry.record.epoch} was written twice (coordinator epoch {entry.record.coordinator_epoch}, "
            f"sequence {entry.record.sequence})",
            style="dim",
        )
    return _change_view(entry, names)


def _change_view(entry: Change, names: MemberNames) -> RenderableType:
    record = entry.record
    details = Table.grid(padding=(0, 2))
    details.add_column(width=2)
    details.add_column(width=6, style="dim")
    details.add_column(overflow="fold")
    for label, lines in (
        ("why", [_cause(cause, record, names) for cause in record.causes]),
        ("moved", list(move_lines(record, names))),
        ("paused", list(_pause_lines(record, names)) if record.is_change else []),
    ):
        for number, line in enumerate(_at_most(lines)):
            details.add_row("", label if number == 0 else "", line)
    return Group(headline(record), details)


def headline(record: HistoryRecord) -> Text:
    """Returns the change in one line."""
    before, after = len(record.members_before), len(record.members_after)
    members = count(after, "member") if before == after else f"{before} → {count(after, 'member')}"
    epochs = f"{record.previous_epoch} → {record.epoch}" if record.previous_epoch != record.epoch else f"{record.epoch}"
    line = Text(moment(record.finished_ms, with_milliseconds=True), style="bold")
    line.append(f"  {_epoch_word(record)} {epochs}  ", style="not bold")
    line.append(_outcome(record), style=f"not bold {_STYLES.get(record.outcome, 'dim')}")
    line.append(f"  {members}" + (f"  {record.assignor}" if record.assignor else ""), style="not bold")
    return line


def brief(record: HistoryRecord, names: MemberNames) -> Text:
    """Returns the time of day, the outcome and the causes in one line."""
    causes = ", ".join(names.in_text(cause.text) for cause in record.causes)
    line = Text(f"{moment(record.finished_ms)[11:]}  {_epoch_word(record)} {record.epoch}  ")
    line.append(_outcome(record), style=_STYLES.get(record.outcome, "dim"))
    line.append(f"  {causes}", style="dim")
    return line


def _epoch_word(record: HistoryRecord) -> str:
    return "epoch" if record.group_type == "consumer" else "generation"


def _outcome(record: HistoryRecord) -> str:
    after = span(record.finished_ms - record.started_ms)
    return {
        "stable": f"stable after {after}",
        "superseded": f"superseded after {after}",
        "taken_over": "another coordinator took over",
        "limited": "limited",
        "keeps_up": "keeps up",
        "empty": "empty",
        "deleted": "deleted",
    }.get(record.outcome, record.outcome)


def _cause(cause: HistoryCause, record: HistoryRecord, names: MemberNames) -> str:
    """Returns the cause in words, with the address of the member that caused it."""
    text = names.in_text(cause.text) or cause.code.replace("_", " ")
    text += ", in a crash loop" if cause.is_crash_loop and "crash" not in text else ""
    member = record.members.get(cause.member_id or "")
    if member is None:
        return text
    name = names.of(member.member_id)
    who = f"{name} at {_host(member.host)}" if name not in text else _host(member.host)
    return f"{text} ({who})" if member.host else text


def _host(host: str) -> str:
    """Returns the address without the leading slash, which Kafka writes as Java does."""
    return host.removeprefix("/")


def move_lines(record: HistoryRecord, names: MemberNames) -> Iterator[str]:
    """Yields the moved partitions, in one line for each topic, old owner and new owner."""
    moved: dict[tuple[str, str | None, str | None], list[int]] = defaultdict(list)
    for move in record.moved:
        moved[move.topic, move.from_member, move.to_member].append(move.partition)
    for (topic, before, after), indexes in sorted(moved.items(), key=lambda item: (item[0][0], min(item[1]))):
        if before is None and after is not None:
            way = f"→ {names.of(after)}"
        elif after is None and before is not None:
            way = f"{names.of(before)} → no owner"
        else:
            way = f"{names.of(before or '')} → {names.of(after or '')}"
        yield f"{topic} {partition_ranges(indexes)}: {way}"


def _pause_lines(record: HistoryRecord, names: MemberNames) -> Iterator[str]:
    """Yields the members' pauses, longest first, with equal pauses in one line."""
    paused: dict[int, list[str]] = defaultdict(list)
    for pause in record.pauses:
        paused[pause.ms].append(names.of(pause.member_id))
    if set(paused) == {0}:
        yield "no member"
        return
    for ms, members in sorted(paused.items(), reverse=True):
        yield f"{span(ms)}: {', '.join(sorted(members))}"


def _at_most(lines: list[str]) -> list[str]:
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], f"and {len(lines) - _MOST_LINES + 1} more; --json has them all"]
