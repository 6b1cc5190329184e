"""`klamm cluster rebalance`: spreads replicas, bytes and leaders evenly over racks and brokers."""

from __future__ import annotations

import argparse
import sys

from klamm.cli.cluster.move_batches import add_batch_option, move_in_batches, show_loads, show_plan
from klamm.cli.cluster.throttle_option import add_throttle_option
from klamm.cli.cluster_options import access_of
from klamm.cli.output import say
from klamm.insight.cluster.balance_plan import plan_balance
from klamm.insight.cluster.cluster_layout import read_layout
from klamm.insight.cluster.leader_elections import elect_leaders
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.errors import ClusterError
from klamm.insight.words import count

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds whether to move, and how much at once."""
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--dry-run", action="store_true", help="show the moves and their bytes, and change nothing (the default)"
    )
    modes.add_argument("--execute", action="store_true", help="move the partitions")
    add_batch_option(parser)
    add_throttle_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Shows the plan, and with --execute carries it out. Raises ClusterError."""
    with ClusterRequests(access_of(arguments)) as requests:
        layout = read_layout(requests)
        moves = plan_balance(layout.replicas)
        show_plan(arguments, moves)
        show_loads(arguments, layout.replicas, moves)
        if layout.moving:
            say(
                arguments,
                f"{count(len(layout.moving), 'partition')} of the cluster move now; the plan begins after that",
            )
        if not arguments.execute:
            if moves:
                say(arguments, "nothing was changed: `klamm cluster rebalance --execute` moves the partitions")
            return 0
        if layout.moving:
            raise ClusterError(
                "partitions move already: wait for them, or cancel them with `klamm cluster reassign --cancel`"
            )
        status = move_in_batches(arguments, requests, moves) if moves else 0
        return max(status, _elect(arguments, requests))


def _elect(arguments: argparse.Namespace, requests: ClusterRequests) -> int:
    """Elects the preferred leaders of all partitions that have others."""
    outcomes = elect_leaders(requests, None)
    failed = [outcome for outcome in outcomes if outcome.problem is not None]
    for outcome in failed:
        print(f"klamm cluster: {outcome.key[0]}-{outcome.key[1]}: {outcome.problem}", file=sys.stderr)
    say(arguments, f"elected the preferred leader of {count(len(outcomes) - len(failed), 'partition')}")
    return 1 if failed else 0
