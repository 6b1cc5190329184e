"""The options of the `klamm group` verbs that have their own modules. The modules are not imported here."""

from __future__ import annotations

import argparse
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from klamm.cli.arguments import duration, natural_number, since_ms, timestamp_ms
from klamm.cli.output import add_output_option

__all__ = ["VERBS", "Verb"]

_LEAST_INTERVAL: Final = timedelta(milliseconds=100)
_MEASURED: Final = timedelta(seconds=12)
"""Long enough for two commits of consumers that commit every five seconds."""


class Verb(NamedTuple):
    """A verb. Its module has a function `run(arguments) -> int`."""

    module: str
    summary: str
    configure: Callable[[argparse.ArgumentParser], None]
    takes_full_ids: bool = False
    """Whether group ids are complete, so that the context's environment is never added."""


def _configure_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group")
    parser.add_argument(
        "--since", type=since_ms, metavar="WHEN", help="only what ended from then on: a time, or a duration such as 2h"
    )
    parser.add_argument("-n", "--limit", type=natural_number, metavar="N", help="only the last N changes")
    parser.add_argument("-f", "--follow", action="store_true", help="continue with new changes, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _configure_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group")
    parser.add_argument(
        "-i",
        "--interval",
        type=_interval,
        default=timedelta(seconds=1),
        metavar="DURATION",
        help="how often to look (default 1s)",
    )


def _configure_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group")
    parser.add_argument("member", nargs="?", help="only this one: instance id, client id, member id or its short name")
    parser.add_argument(
        "--measure",
        type=duration,
        default=_MEASURED,
        metavar="DURATION",
        help="how long to measure the rates of a group with lag, at most (default 12s; 0s: not at all)",
    )


def _configure_clone(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="the group to copy from, by its complete id")
    parser.add_argument("target", help="the group that gets the offsets, by its complete id")
    parser.add_argument(
        "--at",
        type=timestamp_ms,
        metavar="TIME",
        help="not the source's offsets, but those of the first records from that time on",
    )
    parser.add_argument("--execute", action="store_true", help="do it")
    add_output_option(parser)


def _interval(text: str) -> timedelta:
    interval = duration(text)
    if interval < _LEAST_INTERVAL:
        raise ArgumentTypeError("looks every 100ms at most")
    return interval


VERBS: Final = {
    "clone": Verb(
        "klamm.cli.group.group_clone",
        "give a group the offsets of another one",
        _configure_clone,
        takes_full_ids=True,
    ),
    "explain": Verb(
        "klamm.cli.group.group_explain",
        "say why members have what they have, and who waits for whom",
        _configure_explain,
    ),
    "history": Verb(
        "klamm.cli.group.group_history",
        "show what has changed in a group, when and why",
        _configure_history,
    ),
    "watch": Verb(
        "klamm.cli.group.group_watch",
        "see a group live: members, partitions, lag, who waits for whom",
        _configure_watch,
    ),
}
