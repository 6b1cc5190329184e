"""`klamm cluster reassign`: moves partitions to other brokers, or changes the number of their replicas."""

from __future__ import annotations

import argparse
import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from klamm.cli.arguments import natural_number
from klamm.cli.cluster.plan_file import plan_text, read_plan
from klamm.cli.cluster.reassign_wait import progress_line, wait_for_moves
from klamm.cli.cluster.throttle_option import (
    THROTTLE_STAYS,
    add_throttle_option,
    begin_throttle,
    end_throttle,
    say_throttle,
    telling_that_throttle_stays,
)
from klamm.cli.cluster_options import access_of
from klamm.cli.errors import UsageError
from klamm.cli.output import id_list, say, show_rows
from klamm.insight.cluster.moving_partitions import begin_reassignments, cancel_reassignments, reassignments_in_progress
from klamm.insight.cluster.reassignment_progress import MoveProgress, moves_in_progress
from klamm.insight.cluster.wanted_replicas import PlanOptions, changes_of, plan_for
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.words import PartitionKey, count

__all__ = ["MOVE_COLUMNS", "broker_ids", "configure", "run"]

MOVE_COLUMNS: Final = (
    "topic",
    "partition",
    "replicas",
    "adding",
    "removing",
    "lag",
    "copied_bytes",
    "size_bytes",
)


def broker_ids(text: str) -> tuple[int, ...]:
    """Parses ID,..., each once."""
    words = text.split(",")
    if not all(word.isdecimal() for word in words) or len(set(map(int, words))) < len(words):
        raise ArgumentTypeError(f"takes the ids of brokers, as 1,2,3, not {text!r}")
    return tuple(map(int, words))


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds what to move, where to, and how to follow it."""
    parser.add_argument("topics", nargs="*", metavar="topic", help="the topics whose partitions are planned")
    parser.add_argument("--internal", action="store_true", help="internal topics too")
    parser.add_argument(
        "--to", type=broker_ids, metavar="ID,...", help="the only brokers that may have replicas (default: all)"
    )
    parser.add_argument(
        "--replication-factor",
        type=natural_number,
        metavar="N",
        help="how many replicas each partition is to have (default: as many as it has)",
    )
    others = parser.add_mutually_exclusive_group()
    others.add_argument(
        "--file", type=Path, metavar="PLAN.json", help="a plan in the format of kafka-reassign-partitions"
    )
    others.add_argument(
        "--status",
        action="store_true",
        help="show the reassignments in progress; if there are none, remove the throttle of earlier ones",
    )
    others.add_argument(
        "--cancel", action="store_true", help="cancel reassignments in progress: of the named topics, or all"
    )
    add_throttle_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the plan as JSON, and change nothing")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until all partitions have moved")


def run(arguments: argparse.Namespace) -> int:
    """Runs one of the modes. Raises UsageError, ClusterError, ImpossiblePlan."""
    plans = arguments.to is not None or arguments.replication_factor is not None
    if plans and (arguments.file or arguments.status or arguments.cancel):
        raise UsageError("--to and --replication-factor plan: they do not go with --file, --status or --cancel")
    if arguments.file is not None and (arguments.topics or arguments.internal):
        raise UsageError("--file names the partitions: give no topics")
    wanted = read_plan(arguments.file) if arguments.file is not None else None
    if not (plans or wanted is not None or arguments.status or arguments.cancel):
        raise UsageError("give --to, --replication-factor, --file, --status or --cancel")
    if arguments.throttle is not None and arguments.cancel:
        raise UsageError("--cancel removes the throttle: it does not go with --throttle")
    if plans and not (arguments.topics or arguments.internal):
        raise UsageError("name the topics, or give --internal for the internal ones")
    with ClusterRequests(access_of(arguments)) as requests:
        if arguments.status:
            return _status(arguments, requests)
        if arguments.cancel:
            return _cancel(arguments, requests)
        if wanted is not None:
            plan = changes_of(requests, wanted)
        else:
            options = PlanOptions(
                topics=set(arguments.topics),
                internal=arguments.internal,
                brokers=arguments.to,
                replication_factor=arguments.replication_factor,
            )
            plan = plan_for(requests, options)
        return _move(arguments, requests, plan)


def _move(
    arguments: argparse.Namespace, requests: ClusterRequests, plan: Mapping[PartitionKey, tuple[int, ...]]
) -> int:
    if arguments.dry_run:
        print(plan_text(plan))
        return 0
    if not plan:
        say(arguments, "nothing to change: all partitions have these replicas, or move to them (--status shows it)")
        return 0
    with telling_that_throttle_stays(arguments):
        return _begin_and_wait(arguments, requests, plan)


def _begin_and_wait(
    arguments: argparse.Namespace, requests: ClusterRequests, plan: Mapping[PartitionKey, tuple[int, ...]]
) -> int:
    begin_throttle(arguments, requests, plan)
    say_throttle(arguments)
    refused = begin_reassignments(requests, plan)
    _warn(refused)
    begun = {key: replicas for key, replicas in plan.items() if key not in refused}
    status = 1 if refused else 0
    if begun and arguments.no_wait:
        say(
            arguments,
            f"{count(len(begun), 'partition')} began to move; `klamm cluster reassign --status` shows how far",
        )
        if arguments.throttle is not None:
            say(arguments, THROTTLE_STAYS)
        return status
    if begun:
        status = max(wait_for_moves(arguments, requests, begun), status)
    if arguments.throttle is not None:
        end_throttle(arguments, requests, begun)
    return status


def _status(arguments: argparse.Namespace, requests: ClusterRequests) -> int:
    all_moves = moves_in_progress(requests)
    moves = {key: each for key, each in all_moves.items() if not arguments.topics or key[0] in arguments.topics}
    show_rows(arguments, MOVE_COLUMNS, [_row(each) for each in moves.values()])
    say(arguments, progress_line(moves.values(), len(moves)) if moves else "no reassignment is in progress")
    if all_moves:
        begin_throttle(arguments, requests, {})
        say_throttle(arguments)
    else:
        end_throttle(arguments, requests)
    return 0


def _cancel(arguments: argparse.Namespace, requests: ClusterRequests) -> int:
    moving = reassignments_in_progress(requests, set(arguments.topics) or None)
    if arguments.dry_run:
        show = [f"{topic}-{index}" for topic, index in moving]
        say(arguments, f"would cancel: {', '.join(show)}" if show else "no reassignment is in progress")
        return 0
    refused = cancel_reassignments(requests, moving)
    _warn(refused)
    cancelled = len(moving) - len(refused)
    if moving:
        say(arguments, f"cancelled the reassignment of {count(cancelled, 'partition')}")
        end_throttle(arguments, requests, moving)
    else:
        say(arguments, "no reassignment is in progress")
    return 1 if refused else 0


def _warn(refused: Mapping[PartitionKey, str]) -> None:
    for (topic, index), why in sorted(refused.items()):
        print(f"klamm cluster: {topic}-{index}: {why}", file=sys.stderr)


def _row(move: MoveProgress) -> dict[str, Any]:
    moving = move.moving
    return {
        "topic": moving.topic,
        "partition": moving.index,
        "replicas": id_list(moving.replicas),
        "adding": id_list(moving.adding),
        "removing": id_list(moving.removing),
        "lag": move.lag,
        "copied_bytes": move.copied_bytes,
        "size_bytes": move.size_bytes,
    }
