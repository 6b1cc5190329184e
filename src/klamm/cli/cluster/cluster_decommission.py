"""`klamm cluster decommission`: moves all replicas of a broker to other brokers, so that it can leave the cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from klamm.cli.cluster.move_batches import add_batch_option, move_in_batches, show_loads, show_plan
from klamm.cli.cluster.reassign_wait import wait_for_moves
from klamm.cli.cluster.throttle_option import (
    add_throttle_option,
    begin_throttle,
    end_throttle,
    say_throttle,
    telling_that_throttle_stays,
)
from klamm.cli.cluster_options import access_of
from klamm.cli.output import say
from klamm.insight.cluster.broker_removal import cordon, uncordon, unregister
from klamm.insight.cluster.cluster_layout import ClusterLayout, read_layout
from klamm.insight.cluster.drain_plan import plan_drain
from klamm.insight.cluster.moving_partitions import cancel_reassignments, reassignments_in_progress
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.errors import ClusterError
from klamm.insight.words import PartitionKey, count

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the broker, and what to do with it."""
    parser.add_argument("broker", type=int, help="the id of the broker that is to leave")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--dry-run", action="store_true", help="show the moves and their bytes, and change nothing")
    modes.add_argument(
        "--unregister", action="store_true", help="remove the broker from the cluster, after it was stopped"
    )
    modes.add_argument(
        "--cancel",
        action="store_true",
        help="let the broker get replicas again, and cancel the moves away from it that are in progress",
    )
    add_batch_option(parser)
    add_throttle_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs one of the modes. Raises ClusterError, ImpossiblePlan."""
    with ClusterRequests(access_of(arguments)) as requests:
        layout = read_layout(requests)
        if arguments.broker not in layout.replicas.loads():
            raise ClusterError(f"there is no broker {arguments.broker}; `klamm cluster describe` shows the brokers")
        if arguments.unregister:
            return _unregister(arguments, requests, layout)
        if arguments.cancel:
            return _cancel(arguments, requests, layout)
        if arguments.dry_run:
            moves = plan_drain(layout.replicas, arguments.broker)
            show_plan(arguments, moves)
            show_loads(arguments, layout.replicas, moves)
            return 0
        return _drain(arguments, requests, layout)


def _drain(arguments: argparse.Namespace, requests: ClusterRequests, layout: ClusterLayout) -> int:
    broker = arguments.broker
    plan_drain(layout.replicas, broker)  # an impossible plan is refused before anything is changed
    _cordon(arguments, requests, layout)
    # Planned again: before it was cordoned, the broker may have got replicas of a new topic.
    while moves := plan_drain(read_layout(requests).replicas, broker):
        if move_in_batches(arguments, requests, moves):
            return 1
    leaving = {
        key: moving.target for key, moving in reassignments_in_progress(requests).items() if broker in moving.removing
    }
    if leaving and _wait_for_others(arguments, requests, leaving):
        return 1
    say(
        arguments,
        f"broker {broker} has no replicas now, and gets no new ones. Stop it, then remove it from the cluster with "
        f"`klamm cluster decommission {broker} --unregister`. To keep it: --cancel",
    )
    return 0


def _wait_for_others(
    arguments: argparse.Namespace, requests: ClusterRequests, moves: Mapping[PartitionKey, tuple[int, ...]]
) -> int:
    """Waits for moves that another command began, perhaps with a throttle. Returns as `wait_for_moves` does."""
    say_throttle(arguments)
    with telling_that_throttle_stays(arguments):
        begin_throttle(arguments, requests, {})
        status = wait_for_moves(arguments, requests, moves)
        if arguments.throttle is not None:
            end_throttle(arguments, requests, moves)
    return status


def _cordon(arguments: argparse.Namespace, requests: ClusterRequests, layout: ClusterLayout) -> None:
    broker = arguments.broker
    if broker in layout.cordoned:
        return
    if broker in layout.fenced or broker not in layout.replicas.racks:
        say(arguments, f"broker {broker} is not running, so it can't be cordoned; leave it stopped")
    elif cordon(requests, broker):
        say(arguments, f"broker {broker} is cordoned: it gets no new replicas")
    else:
        say(arguments, f"this cluster can't cordon broker {broker}: create no topics until the broker has left")


def _unregister(arguments: argparse.Namespace, requests: ClusterRequests, layout: ClusterLayout) -> int:
    broker = arguments.broker
    replicas = layout.replicas.loads()[broker].replicas
    if replicas:
        raise ClusterError(
            f"broker {broker} has {count(replicas, 'replica')}: `klamm cluster decommission {broker}` moves them first"
        )
    leaving = [key for key, each in reassignments_in_progress(requests).items() if broker in each.replicas]
    if leaving:
        raise ClusterError(
            f"moves of {count(len(leaving), 'partition')} away from broker {broker} are in progress: wait until "
            "`klamm cluster reassign --status` shows none"
        )
    if broker not in layout.fenced:
        raise ClusterError(f"broker {broker} is running: stop it first")
    unregister(requests, broker)
    say(arguments, f"broker {broker} has left the cluster")
    return 0


def _cancel(arguments: argparse.Namespace, requests: ClusterRequests, layout: ClusterLayout) -> int:
    broker = arguments.broker
    is_live = broker in layout.replicas.racks and broker not in layout.fenced
    if is_live:
        uncordon(requests, broker)
    moving = [key for key, each in reassignments_in_progress(requests).items() if broker in each.removing]
    refused = cancel_reassignments(requests, moving)
    for (topic, index), why in sorted(refused.items()):
        print(f"klamm cluster: {topic}-{index}: {why}", file=sys.stderr)
    can = (
        "can get replicas again"
        if is_live
        else "is not running, so a cordon stays: repeat the command when the broker runs"
    )
    say(
        arguments,
        f"broker {broker} {can}; cancelled {count(len(moving) - len(refused), 'move')}. "
        "`klamm cluster rebalance` plans how replicas come back to it",
    )
    if moving:
        end_throttle(arguments, requests, moving)
    return 1 if refused else 0
