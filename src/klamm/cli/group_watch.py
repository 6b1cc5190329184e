"""`klamm group watch`: a group as it lives.

On a terminal it is one screen that stays up to date, elsewhere a line for everything that changes.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from klamm.cli.coordinator_tail import CoordinatorTail
from klamm.cli.errors import ClusterError
from klamm.cli.group_picture import GroupPicture
from klamm.cli.group_snapshot import GroupObserver, Snapshot
from klamm.cli.group_waits import Wait, group_wait, wait_words, waits
from klamm.cli.history_reader import HistoryReader, Told
from klamm.cli.history_record import HistoryRecord
from klamm.cli.history_timeline import Repeat
from klamm.cli.history_view import headline, move_lines
from klamm.cli.member_names import MemberNames
from klamm.cli.output import new_console
from klamm.cli.watch_changes import changed, new_waits, summary
from klamm.cli.watch_view import WatchedGroup, watch_view
from klamm.cli.words import moment
from klamm.errors import KlammError

__all__ = ["run"]

# Whoever watches wants to see soon that there is no answer.
PATIENCE_S: Final = 3.0
HISTORY_PATIENCE_S: Final = 5.0
HISTORY_MS: Final = 86_400_000
KEPT_CHANGES: Final = 16


def run(arguments: argparse.Namespace) -> int:
    """Watches until Ctrl-C.

    Raises KlammError when the cluster can't be reached, or there is no such group at the beginning.
    """
    with contextlib.ExitStack() as stack, contextlib.suppress(KeyboardInterrupt):
        observer = GroupObserver(arguments, patience_s=PATIENCE_S)
        stack.callback(observer.close)
        history = HistoryReader(arguments, arguments.group, follow=True)
        stack.callback(history.close)
        tail = CoordinatorTail(arguments, arguments.group, follow=True)
        stack.callback(tail.close)
        history.start(time.time_ns() // 1_000_000 - HISTORY_MS)
        watcher = _Watcher(arguments, observer, history, tail)
        if watcher.look() is None:
            raise ClusterError(f"there is no group {arguments.group}; `klamm group list` shows those there are")
        console = new_console()
        if console.is_terminal:
            _show_screen(watcher)
        else:
            _print_lines(watcher)
    return 0


class _Watcher:
    """Keeps what is known of the group up to date."""

    def __init__(
        self, arguments: argparse.Namespace, observer: GroupObserver, history: HistoryReader, tail: CoordinatorTail
    ) -> None:
        self.seen = WatchedGroup(arguments.group, history.names)
        self.new_changes: list[HistoryRecord] = []
        """Those that the last look has brought."""
        self._interval_s: float = arguments.interval / timedelta(seconds=1)
        self._past: deque[HistoryRecord] = deque(maxlen=KEPT_CHANGES)
        self._observer, self._history, self._tail = observer, history, tail
        self._patience_s = HISTORY_PATIENCE_S

    def look_again(self) -> None:
        """Brings everything up to date; a cluster that doesn't answer is a thing to watch too."""
        try:
            self.look()
            self.seen.problem = None
        except KlammError as error:
            self.new_changes = []
            self.seen.problem = str(error)

    def look(self) -> Snapshot | None:
        """Brings everything up to date. Raises KlammError."""
        self.new_changes = self._changes()
        self._past.extend(self.new_changes)
        self.seen.history = list(self._past)
        self.seen.replayed = self._tail.update()
        self.seen.snapshot = self._observer.look()
        if self.seen.snapshot is not None:
            self._history.look_again(self.seen.snapshot.partition_counts)
            self.seen.snapshot.picture.name_members(self.seen.names)
            self.seen.rates.add(self.seen.snapshot)
        return self.seen.snapshot

    def _changes(self) -> list[HistoryRecord]:
        """What is new in the history; nothing, where nobody lets us read it."""
        try:
            told = self._history.available(self._patience_s)
        except ClusterError:
            return []
        self._patience_s = 0.0  # the first time everything has to come, later only what is there
        return [record for each in told if (record := _record(each)) is not None]

    def pause(self) -> None:
        """Until the next look."""
        time.sleep(self._interval_s)


def _record(told: Told) -> HistoryRecord | None:
    return None if any(isinstance(entry, Repeat) for entry in told.entries) else told.record


def _show_screen(watcher: _Watcher) -> None:
    from rich.live import Live

    console = new_console()
    with Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(watch_view(watcher.seen, console.width, console.height), refresh=True)
            watcher.pause()
            watcher.look_again()


def _print_lines(watcher: _Watcher) -> None:
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
        watcher.pause()
        watcher.look_again()
        for record in watcher.new_changes:
            _say(record.finished_ms, _change_words(seen.names, record))


@dataclass(slots=True)
class _Said:
    """What was printed last."""

    picture: GroupPicture | None = None
    waits: Sequence[Wait] = ()
    words: Sequence[str] = ()
    problem: str | None = None


def _print_news(seen: WatchedGroup, before: _Said, now_ms: int) -> None:
    """What is different from what was printed last."""
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
