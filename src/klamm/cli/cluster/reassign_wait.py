"""Waits for reassignments, and shows how far they came."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Mapping
from typing import Final

from klamm.cli.output import say
from klamm.insight.cluster.reassignment_progress import MoveProgress, moves_in_progress
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.partition_states import partition_states
from klamm.insight.topic.skew_words import size_words
from klamm.insight.words import PartitionKey, count

__all__ = ["progress_line", "wait_for_moves"]

_PAUSE_S: Final = 0.5
_QUIET_S: Final = 10.0
"""How long nothing is shown while no partition is done."""
_PATIENCE_S: Final = 5.0


def wait_for_moves(
    arguments: argparse.Namespace, requests: ClusterRequests, plan: Mapping[PartitionKey, tuple[int, ...]]
) -> int:
    """Waits until no partition of the plan moves any more. Returns 0, or 1 if a partition has other replicas then.

    An interrupt ends the wait and leaves the reassignments running. Raises ClusterError.
    """
    try:
        _show_progress(arguments, requests, plan)
    except KeyboardInterrupt:
        print(
            "klamm cluster: the reassignment goes on. `klamm cluster reassign --status` shows it, --cancel ends it",
            file=sys.stderr,
        )
        raise
    others = _others(requests, plan)
    for (topic, index), replicas in sorted(others.items()):
        what = "no longer exists"
        if replicas:
            what = (
                f"has replicas {list(replicas)} instead of {list(plan[topic, index])}: the reassignment was cancelled, "
                "or another one came after it"
            )
        print(f"klamm cluster: {topic}-{index} {what}", file=sys.stderr)
    say(arguments, f"{count(len(plan) - len(others), 'partition')} moved")
    return 1 if any(others.values()) else 0


def progress_line(moves: Collection[MoveProgress], total: int) -> str:
    """Returns one line about the partitions that still move."""
    parts = [f"{len(moves):,} of {count(total, 'partition')} left"]
    lags = [each.lag for each in moves if each.lag is not None]
    if lags:
        parts.append(f"added replicas {count(sum(lags), 'offset')} behind")
    if moves and all(each.size_bytes is not None for each in moves):
        size = sum(each.size_bytes or 0 for each in moves)
        parts.append(f"{size_words(sum(each.copied_bytes for each in moves))} of {size_words(size)} copied")
    return ", ".join(parts)


def _show_progress(
    arguments: argparse.Namespace, requests: ClusterRequests, plan: Mapping[PartitionKey, tuple[int, ...]]
) -> None:
    shown, shown_at = -1, 0.0
    while moves := moves_in_progress(requests, plan.keys()):
        now = time.monotonic()
        if len(moves) != shown or now - shown_at >= _QUIET_S:
            say(arguments, progress_line(moves.values(), len(plan)))
            sys.stdout.flush()
            shown, shown_at = len(moves), now
        time.sleep(_PAUSE_S)
        requests.refresh()


def _others(
    requests: ClusterRequests, plan: Mapping[PartitionKey, tuple[int, ...]]
) -> dict[PartitionKey, tuple[int, ...]]:
    """Returns the replicas of partitions that are not as planned; none for a partition that was deleted meanwhile.

    The broker that is asked may learn of them late.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        topics = partition_states(requests, {topic for topic, _ in plan}, leaves_out_missing=True)
        replicas = {state.key: state.replicas for topic in topics.values() for state in topic.partitions}
        others = {key: replicas.get(key, ()) for key, planned in plan.items() if replicas.get(key) != planned}
        if not any(others.values()) or time.monotonic() > deadline:
            return others
        time.sleep(_PAUSE_S)
