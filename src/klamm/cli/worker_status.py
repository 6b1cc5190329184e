"""`klamm worker`: status."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import Final

from klamm.cli.cluster_options import access_of, add_cluster_options
from klamm.cli.output import add_output_option, say, show_rows
from klamm.insight.errors import ClusterError
from klamm.insight.group.group_offsets import count_members
from klamm.insight.group.worker_commits import worker_commits
from klamm.insight.words import count

__all__ = ["STATUS_COLUMNS", "configure", "run"]

STATUS_COLUMNS: Final = (
    "topic",
    "partition",
    "committed",
    "high_watermark",
    "lag",
    "in_flight",
    "finished_beyond",
    "held_ms",
    "attempts",
    "hot_key",
    "hot_records",
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands of `klamm worker`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    status = verbs.add_parser("status", help="show what a group of workers has in flight, and what holds up a commit")
    status.add_argument("group")
    add_cluster_options(status, names_groups=True)
    add_output_option(status)


def run(arguments: argparse.Namespace) -> int:
    """Runs one verb. Raises KlammError if the cluster refuses a request."""
    access = access_of(arguments)
    admin = access.admin_client()
    commits = worker_commits(access, admin, arguments.group, time.time_ns() // 1_000_000)
    if not commits:
        raise ClusterError(f"the group {arguments.group} has committed nothing; `klamm group list` shows the groups")
    in_flight = sum(each.in_flight for each in commits)
    say(
        arguments,
        f"group {arguments.group}: {count(in_flight, 'record')} in flight in {count(len(commits), 'partition')}, "
        "at the last commits",
    )
    show_rows(arguments, STATUS_COLUMNS, [asdict(each) for each in commits])
    if not count_members(access, admin, arguments.group):
        say(arguments, f"the group {arguments.group} has no members: no worker handles records now")
    for each in sorted(commits, key=lambda commit: -(commit.held_ms or 0)):
        if each.in_words:
            say(arguments, each.in_words)
    return 0
