"""The option --throttle: limits the copies of moves while they last."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from klamm.cli.arguments import natural_number
from klamm.cli.output import say
from klamm.errors import KlammError
from klamm.insight.cluster.move_throttle import remove_throttles, throttle_moves
from klamm.insight.cluster.moving_partitions import reassignments_in_progress
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.skew_words import size_words
from klamm.insight.words import PartitionKey

__all__ = [
    "THROTTLE_STAYS",
    "add_throttle_option",
    "begin_throttle",
    "end_throttle",
    "say_throttle",
    "telling_that_throttle_stays",
]

THROTTLE_STAYS: Final = (
    "the throttle stays while partitions move: after that, `klamm cluster reassign --status` removes it"
)
_PATIENCE_S: Final = 5.0
"""How long a broker may take to learn that a reassignment has ended."""
_PAUSE_S: Final = 0.2


def add_throttle_option(parser: argparse.ArgumentParser) -> None:
    """Adds --throttle."""
    parser.add_argument(
        "--throttle",
        type=natural_number,
        metavar="BYTES_PER_SECOND",
        help="what each broker may copy for moves, in and out, until they have ended (default: no limit)",
    )


def begin_throttle(
    arguments: argparse.Namespace, requests: ClusterRequests, plan: Mapping[PartitionKey, tuple[int, ...]]
) -> None:
    """Throttles the moves of a plan before they begin, and those in progress, if the option is given.

    Raises ClusterError.
    """
    if arguments.throttle is not None:
        throttle_moves(requests, plan, arguments.throttle)


@contextmanager
def telling_that_throttle_stays(arguments: argparse.Namespace) -> Iterator[None]:
    """Says that the throttle stays if an error or an interrupt ends the command, and the option is given."""
    try:
        yield
    except (KlammError, KeyboardInterrupt):
        if arguments.throttle is not None:
            print(f"klamm cluster: {THROTTLE_STAYS}", file=sys.stderr)
        raise


def say_throttle(arguments: argparse.Namespace) -> None:
    """Prints the limit, if the option is given."""
    if arguments.throttle is not None:
        say(arguments, f"each broker copies at most {size_words(arguments.throttle)} a second for moves")


def end_throttle(
    arguments: argparse.Namespace, requests: ClusterRequests, moved: Collection[PartitionKey] = ()
) -> None:
    """Removes the throttle, unless other partitions than `moved` still move. Raises ClusterError."""
    deadline = time.monotonic() + _PATIENCE_S
    while moving := reassignments_in_progress(requests).keys():
        if not moving <= set(moved) or time.monotonic() > deadline:
            say(arguments, THROTTLE_STAYS)
            return
        time.sleep(_PAUSE_S)
    if remove_throttles(requests):
        say(arguments, "the throttle is removed")
