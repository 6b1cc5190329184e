"""`klamm cluster elect`: elects the preferred leaders of partitions, or any replica that is left."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any, Final

from klamm.cli.arguments import topic_partitions
from klamm.cli.cluster_options import access_of
from klamm.cli.errors import UsageError
from klamm.cli.output import say, show_rows
from klamm.insight.cluster.leader_elections import ElectionOutcome, elect_leaders
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.partition_states import partition_states
from klamm.insight.words import PartitionKey

__all__ = ["ELECTION_COLUMNS", "configure", "run"]

ELECTION_COLUMNS: Final = ("topic", "partition", "old_leader", "new_leader", "result")
_LOSS: Final = (
    "--unclean lets a replica lead that was not in sync: records that only other replicas have are lost for ever. "
    "--yes confirms this"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the partitions, and which leader is to be elected."""
    parser.add_argument(
        "partitions",
        nargs="*",
        type=topic_partitions,
        metavar="TOPIC[:PARTITION,...]",
        help="the partitions (default with --preferred: all that are not led by their preferred leader)",
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--preferred", action="store_true", help="elect the first replica, if it is in sync (this is the default)"
    )
    kind.add_argument(
        "--unclean",
        action="store_true",
        help="let any replica lead a partition without a leader; records may be lost; needs TOPIC:PARTITION and --yes",
    )
    parser.add_argument("--yes", action="store_true", help="confirm that --unclean may lose records")


def run(arguments: argparse.Namespace) -> int:
    """Holds the elections and prints their results. Returns 1 if one failed. Raises UsageError, ClusterError."""
    if arguments.unclean:
        if not arguments.partitions or not all(indexes for _, indexes in arguments.partitions):
            raise UsageError("--unclean needs the partitions as TOPIC:PARTITION: it elects no others")
        if not arguments.yes:
            raise UsageError(_LOSS)
    with ClusterRequests(access_of(arguments)) as requests:
        chosen = _chosen(requests, arguments.partitions) if arguments.partitions else None
        outcomes = elect_leaders(requests, chosen, is_unclean=arguments.unclean)
    show_rows(arguments, ELECTION_COLUMNS, [_row(outcome) for outcome in outcomes])
    failed = [outcome for outcome in outcomes if outcome.problem is not None]
    for outcome in failed:
        topic, index = outcome.key
        print(f"klamm cluster: {topic}-{index}: {outcome.problem}", file=sys.stderr)
    if not outcomes:
        say(arguments, "no partition needs an election")
    return 1 if failed else 0


def _chosen(requests: ClusterRequests, named: Iterable[tuple[str, tuple[int, ...]]]) -> set[PartitionKey]:
    """Returns the named partitions; all partitions of a topic without indexes."""
    whole = {topic for topic, indexes in named if not indexes}
    states = partition_states(requests, whole)
    return {(topic, index) for topic, indexes in named for index in indexes} | {
        state.key for topic in states.values() for state in topic.partitions
    }


def _row(outcome: ElectionOutcome) -> dict[str, Any]:
    topic, index = outcome.key
    result = "failed" if outcome.problem is not None else "not needed" if outcome.is_needless else "elected"
    return {
        "topic": topic,
        "partition": index,
        "old_leader": outcome.old_leader,
        "new_leader": outcome.new_leader,
        "result": result,
    }
