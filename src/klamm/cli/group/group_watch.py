"""`klamm group watch`: shows a group live.

On a terminal it shows one screen that stays up to date, elsewhere it prints a line for each change.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from klamm.cli.cluster_options import access_of
from klamm.cli.group.history_view import headline, move_lines
from klamm.cli.group.watch_view import watch_view
from klamm.cli.output import new_console
from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.errors import ClusterError
from klamm.insight.group.group_picture import GroupPicture
from klamm.insight.group.group_waits import Wait, group_wait, wait_words, waits
from klamm.insight.group.group_watcher import GroupWatcher, WatchedGroup
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.picture_changes import changed, new_waits, summary
from klamm.insight.words import moment

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Watches until Ctrl-C.

    Raises KlammError if at the beginning the cluster can't be reached or the group does not exist.
    """
    interval_s = arguments.interval / timedelta(seconds=1)
    with (
        contextlib.suppress(KeyboardInterrupt),
        contextlib.closing(GroupWatcher(access_of(arguments), arguments.group)) as watcher,
    ):
        if watcher.look() is None:
            raise ClusterError(f"there is no group {arguments.group}; `klamm group list` shows the groups")
        console = new_console()
        if console.is_terminal:
            _show_screen(watcher, interval_s)
        else:
            _print_lines(watcher, interval_s)
    return 0


def _show_screen(watcher: GroupWatcher, interval_s: float) -> None:
    from rich.live import Live

    console = new_console()
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(watch_view(watcher.seen, console.width, console.height), refresh=True)
            time.sleep(interval_s)
            watcher.look_again()


def _print_lines(watcher: GroupWatcher, interval_s: float) -> None:
    seen = watcher.seen
    before = _Said()
    if seen.snapshot is not None:
        before.picture = seen.snapshot.picture
        _say(seen.snapshot.at_ms, f"group {seen.group_id}: {summary(before.picture, seen.snapshot.lag_in_words)}")
    while True:
        now_ms = time.time_ns() // 1_000_000
        if seen.problem != before.problem:
            _say(now_ms, seen.problem or "the cluster answers again")
            before.problem = seen.problem
        if seen.problem is None:
            _print_news(seen, before, now_ms)
        time.sleep(interval_s)
        watcher.look_again()
        for record in watcher.new_changes:
            _say(record.finished_ms, _change_words(seen.names, record))


@dataclass(slots=True)
class _Said:
    """The last printed state."""

    picture: GroupPicture | None = None
    waits: Sequence[Wait] = ()
    words: Sequence[str] = ()
    problem: str | None = None


def _print_news(seen: WatchedGroup, before: _Said, now_ms: int) -> None:
    """Prints the differences to the last printed state."""
    picture = seen.snapshot.picture if seen.snapshot is not None else None
    for line in changed(before.picture, picture, seen.names):
        _say(now_ms, line)
    waiting = waits(picture, seen.replayed) if picture is not None else []
    for wait in new_waits(before.waits, waiting):
        _say(now_ms, f"{seen.names.of(wait.member_id)} waits for {wait_words(wait, seen.names, now_ms)}")
    words = [*group_wait(picture, seen.replayed, seen.names)] if picture is not None else []
    for line in words:
        if line not in before.words:
            _say(now_ms, line)
    before.picture, before.waits, before.words = picture, waiting, words


def _change_words(names: MemberNames, record: HistoryRecord) -> str:
    causes = "; ".join(names.in_text(cause.text) for cause in record.causes)
    moves = "; ".join(move_lines(record, names))
    what = headline(record).plain.partition("  ")[2].replace("  ", ", ")
    return f"{what}: {causes}" + (f"; moved {moves}" if moves else "")


def _say(at_ms: int, line: str) -> None:
    print(f"{moment(at_ms)}  {line}", flush=True)
