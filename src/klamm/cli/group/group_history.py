"""`klamm group history`: shows a group's changes, when and why they happened, from the topic `__group_history`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from klamm.cli.cluster_options import access_of
from klamm.cli.output import new_console
from klamm.insight.errors import ClusterError, HistoryMissing
from klamm.insight.group.history_reader import HistoryReader, Told
from klamm.insight.group.history_timeline import Gap, Repeat
from klamm.insight.topic.partition_records import END

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Prints the changes, oldest first.

    Raises ClusterError if the cluster has no history.
    """
    reader = HistoryReader(access_of(arguments), arguments.group, follow=arguments.follow)
    try:
        _show(arguments, reader)
    except HistoryMissing as error:
        raise ClusterError(f"{error}. `klamm group watch` and `klamm group explain` work with any cluster") from None
    except KeyboardInterrupt:
        if not arguments.follow:
            raise
    finally:
        reader.close()
    return 0


def _show(arguments: argparse.Namespace, reader: HistoryReader) -> None:
    console = new_console()
    past: list[Told] | None = []
    for told in reader.read(arguments.since):
        if told is not END and past is not None:
            past.append(told)
        elif told is not END:
            _print(arguments, console, reader, [told])
        elif past is not None:
            if not past and not arguments.follow:
                _say_that_there_is_none(arguments)
            _print(arguments, console, reader, past[-arguments.limit :] if arguments.limit is not None else past)
            past = None
        if past is None and not arguments.follow:
            return


def _say_that_there_is_none(arguments: argparse.Namespace) -> None:
    if arguments.since is None:
        raise ClusterError(
            f"no change of group {arguments.group} is on record; `klamm group list` shows the groups there are"
        )
    print(f"klamm group: group {arguments.group} has not changed since then", file=sys.stderr)


def _print(arguments: argparse.Namespace, console: Console, reader: HistoryReader, past: Sequence[Told]) -> None:
    for told in past:
        if arguments.json and told.data is not None:
            gap = next((entry.text for entry in told.entries if isinstance(entry, Gap)), None)
            is_repeat = any(isinstance(entry, Repeat) for entry in told.entries)
            print(json.dumps(told.data | {"gap": gap, "is_repeat": is_repeat}))
        elif told.complaint is None:
            from klamm.cli.group.history_view import entry_view

            for entry in told.entries:
                console.print(entry_view(entry, reader.names))
            console.print()
        if told.complaint is not None:
            print(f"klamm group: offset {told.offset} of the history: {told.complaint}", file=sys.stderr)
    sys.stdout.flush()
