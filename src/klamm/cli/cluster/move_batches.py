"""Moves partitions, some at a time, and shows moves before they begin."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from klamm.cli.arguments import natural_number
from klamm.cli.cluster.reassign_wait import progress_line, wait_for_moves
from klamm.cli.cluster.throttle_option import (
    begin_throttle,
    end_throttle,
    say_throttle,
    telling_that_throttle_stays,
)
from klamm.cli.output import id_list, say, show_rows
from klamm.insight.cluster.moving_partitions import begin_reassignments
from klamm.insight.cluster.reassignment_progress import moves_in_progress
from klamm.insight.cluster.replica_layout import PartitionMove, ReplicaLayout
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.partition_states import partition_states
from klamm.insight.topic.skew_words import size_words
from klamm.insight.words import PartitionKey, count

__all__ = ["PLAN_COLUMNS", "add_batch_option", "move_in_batches", "show_loads", "show_plan"]

PLAN_COLUMNS: Final = ("topic", "partition", "before", "after", "copied_bytes")
_AT_ONCE: Final = 5
_PAUSE_S: Final = 0.5
_QUIET_S: Final = 10.0
"""How long nothing is shown while no partition is done."""
_PATIENCE_S: Final = 5.0
"""How long a broker may take to learn that a reassignment began or ended."""


def add_batch_option(parser: argparse.ArgumentParser) -> None:
    """Adds --at-once."""
    parser.add_argument(
        "--at-once",
        type=natural_number,
        default=_AT_ONCE,
        metavar="N",
        help=f"how many partitions move at the same time (default {_AT_ONCE})",
    )


def show_plan(arguments: argparse.Namespace, moves: Sequence[PartitionMove]) -> None:
    """Prints the moves as rows, and a line with the bytes to copy."""
    show_rows(arguments, PLAN_COLUMNS, [_row(move) for move in moves])
    say(
        arguments,
        f"{count(len(moves), 'partition')} to change, {size_words(sum(move.copied_bytes for move in moves))} to copy",
    )


def show_loads(arguments: argparse.Namespace, layout: ReplicaLayout, moves: Sequence[PartitionMove]) -> None:
    """Prints a line for each broker: its replicas, preferred leaders and bytes before and after the moves."""
    after = layout.after(moves).loads()
    for broker, load in layout.loads().items():
        rack = layout.racks.get(broker)
        where = f"broker {broker}" if rack is None else f"broker {broker} (rack {rack})"
        new = after[broker]
        parts = [
            _change(f"{load.replicas:,}", f"{new.replicas:,}", "replicas"),
            _change(f"{load.leaders:,}", f"{new.leaders:,}", "preferred leaders"),
            _change(size_words(load.size_bytes), size_words(new.size_bytes), ""),
        ]
        closed = ", gets no new replicas" if broker in layout.closed else ""
        say(arguments, f"{where}: {', '.join(parts)}{closed}")


def move_in_batches(arguments: argparse.Namespace, requests: ClusterRequests, moves: Sequence[PartitionMove]) -> int:
    """Begins the moves, `--at-once` at a time, and waits for all. Returns 0, or 1 if a partition did not move.

    An interrupt ends the command. The moves that have begun go on. Raises ClusterError.
    """
    plan = {move.key: move.after for move in moves}
    say_throttle(arguments)
    with telling_that_throttle_stays(arguments):
        try:
            refused = _move_all(arguments, requests, plan)
        except KeyboardInterrupt:
            print(
                "klamm cluster: no more moves begin, and those that have begun go on. "
                "`klamm cluster reassign --status` shows them, and `klamm cluster reassign --cancel` ends them",
                file=sys.stderr,
            )
            raise
        begun = {key: replicas for key, replicas in plan.items() if key not in refused}
        status = max(wait_for_moves(arguments, requests, begun) if begun else 0, 1 if refused else 0)
        if arguments.throttle is not None:
            end_throttle(arguments, requests, begun)
    return status


def _move_all(
    arguments: argparse.Namespace, requests: ClusterRequests, plan: dict[PartitionKey, tuple[int, ...]]
) -> set[PartitionKey]:
    """Returns the partitions whose move was refused."""
    leaderless = _leaderless(requests, plan)
    for topic, index in leaderless:
        why = "it moves when one of its replicas is back"
        print(f"klamm cluster: {topic}-{index} has no leader: {why}", file=sys.stderr)
    # Last, because a partition without a leader copies nothing, and holds its place among those that move.
    waiting = [*(key for key in plan if key not in leaderless), *leaderless]
    begun: dict[PartitionKey, float] = {}
    refused: set[PartitionKey] = set()
    shown, shown_at = -1, 0.0
    while waiting or begun:
        batch = {key: plan[key] for key in waiting[: arguments.at_once - len(begun)]}
        del waiting[: len(batch)]
        if batch:
            # For each batch again: `--status` removes the throttle if it is asked between two batches.
            begin_throttle(arguments, requests, {key: plan[key] for key in (*begun, *batch)})
        # A planned partition that does not exist was deleted meanwhile: `wait_for_moves` tells it.
        for (topic, index), why in sorted(begin_reassignments(requests, batch, leaves_out_missing=True).items()):
            print(f"klamm cluster: {topic}-{index}: {why}", file=sys.stderr)
            refused.add((topic, index))
            del batch[topic, index]
        begun |= dict.fromkeys(batch, time.monotonic())
        moves = moves_in_progress(requests, begun.keys())
        done = _done(requests, {key: plan[key] for key in begun.keys() - moves.keys()})
        now = time.monotonic()
        begun = {
            key: since
            for key, since in begun.items()
            if key in moves or (key not in done and now - since < _PATIENCE_S)
        }
        left = len(waiting) + len(begun)
        if left and (left != shown or now - shown_at >= _QUIET_S):
            ended = len(plan) - left
            say(arguments, f"{ended:,} of {count(len(plan), 'partition')} done; {progress_line(moves.values(), left)}")
            sys.stdout.flush()
            shown, shown_at = left, now
        if len(begun) >= arguments.at_once or not waiting:
            time.sleep(_PAUSE_S if begun else 0)
            requests.refresh()
    return refused


def _leaderless(requests: ClusterRequests, plan: Mapping[PartitionKey, tuple[int, ...]]) -> list[PartitionKey]:
    """Returns the partitions of the plan that no broker leads."""
    topics = partition_states(requests, {topic for topic, _ in plan}, leaves_out_missing=True)
    return [
        state.key
        for topic in topics.values()
        for state in topic.partitions
        if state.key in plan and state.is_unavailable
    ]


def _done(requests: ClusterRequests, wanted: dict[PartitionKey, tuple[int, ...]]) -> set[PartitionKey]:
    """Returns the partitions that have the wanted replicas, or no longer exist."""
    topics = partition_states(requests, {topic for topic, _ in wanted}, leaves_out_missing=True)
    replicas = {state.key: state.replicas for topic in topics.values() for state in topic.partitions}
    return {key for key, planned in wanted.items() if replicas.get(key, planned) == planned}


def _row(move: PartitionMove) -> dict[str, Any]:
    topic, index = move.key
    return {
        "topic": topic,
        "partition": index,
        "before": id_list(move.before),
        "after": id_list(move.after),
        "copied_bytes": move.copied_bytes,
    }


def _change(before: str, after: str, what: str) -> str:
    return f"{before if before == after else f'{before} -> {after}'} {what}".rstrip()
