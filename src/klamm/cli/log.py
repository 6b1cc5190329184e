"""`klamm log`: replay the log of a group coordinator."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from typing import Final

from klamm.cli.connection import add_cluster_options

__all__ = ["configure", "coordinator_partition", "run"]

OFFSETS_TOPIC: Final = "__consumer_offsets"


def configure(parser: argparse.ArgumentParser) -> None:
    """The subcommands of `klamm log`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    replay = verbs.add_parser("replay", help="show what a group coordinator's log says, record by record")
    replay.add_argument(
        "partition",
        type=coordinator_partition,
        metavar=f"{OFFSETS_TOPIC}-N",
        help="a partition of the topic that group coordinators keep their state in",
    )
    replay.add_argument("--to", type=int, metavar="OFFSET", help="stop behind the record at that offset")
    replay.add_argument("--group", help="show only this group's records")
    replay.add_argument("--json", action="store_true", help="one JSON object a line, at last a summary")
    add_cluster_options(replay, names_groups=True)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb.

    Raises KlammError when the cluster refuses.
    """
    from klamm.cli.log_replay import replay

    return replay(arguments)


def coordinator_partition(text: str) -> int:
    """The N of `__consumer_offsets-N`."""
    match = re.fullmatch(rf"{OFFSETS_TOPIC}-(\d+)", text)
    if match is None:
        raise ArgumentTypeError(f"takes {OFFSETS_TOPIC}-N, a partition that a group coordinator leads, not {text!r}")
    return int(match[1])
