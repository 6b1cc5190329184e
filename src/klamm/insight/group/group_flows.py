"""The traffic of a group's partitions, computed from successive snapshots.

Most consumers commit every few seconds, so the committed offset rises in steps. Its rate is measured from step to step,
and a lag counts as growing only if its lowest value rises. What a worker has finished beyond the committed offset
counts as done: one slow record holds up the commit, not the worker.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from klamm.core.group.partition_limits import PartitionFlow
from klamm.insight.group.group_snapshot import GroupObserver, Snapshot
from klamm.insight.words import PartitionKey

__all__ = ["flows_of", "follow_group", "is_worth_following"]

_INTERVAL_S: Final = 0.5
_STEPS: Final = 3
"""How many commits of a partition are enough to know its rate."""
_SHORTEST_MS: Final = 3_000


def is_worth_following(snapshot: Snapshot) -> bool:
    """Returns whether the group is stable and has lag, so that it may be limited."""
    return snapshot.picture.state == "stable" and any(snapshot.lag(key) for key in snapshot.picture.owners)


def follow_group(observer: GroupObserver, first: Snapshot, duration_s: float) -> list[Snapshot]:
    """Returns snapshots of the next seconds, beginning with `first`; fewer if the rates are known earlier.

    Returns only `first` if the group changes meanwhile. Raises KlammError.
    """
    snapshots = [first]
    deadline = time.monotonic() + duration_s
    while time.monotonic() < deadline and not _is_enough(snapshots):
        time.sleep(_INTERVAL_S)
        snapshot = observer.look()
        if snapshot is None or _owners(snapshot) != _owners(first):
            return [first]
        snapshots.append(snapshot)
    return snapshots


def flows_of(snapshots: Sequence[Snapshot]) -> list[PartitionFlow]:
    """Returns the traffic of the partitions that have an owner and a commit, over the time of the snapshots."""
    first, last = snapshots[0], snapshots[-1]
    seconds = (last.at_ms - first.at_ms) / 1000
    if seconds <= 0:
        return []
    flows = []
    for key, owner in sorted(last.picture.owners.items()):
        ends = first.ends.get(key), last.ends.get(key)
        lag = last.lag(key)
        if ends[0] is None or ends[1] is None or lag is None or first.committed.get(key) is None:
            continue
        arriving = max(0, ends[1][1] - ends[0][1]) / seconds
        flows.append(
            PartitionFlow(*key, owner.member_id, arriving, _done(snapshots, key), lag, _is_growing(snapshots, key))
        )
    return flows


def _done(snapshots: Sequence[Snapshot], key: PartitionKey) -> float:
    """Returns the rate of done records from the first step to the last one, or over the whole time if there is one."""
    steps = _steps(snapshots, key)
    if len(steps) < 2:
        steps = [(each.at_ms, each.done(key) or 0) for each in (snapshots[0], snapshots[-1])]
    (began_ms, began), (ended_ms, ended) = steps[0], steps[-1]
    return max(0, ended - began) / max(1, ended_ms - began_ms) * 1000


def _steps(snapshots: Sequence[Snapshot], key: PartitionKey) -> list[tuple[int, int]]:
    """Returns when a snapshot first showed another number of done records, and that number."""
    steps = []
    for before, after in pairwise(snapshots):
        done = after.done(key)
        if done is not None and done != before.done(key):
            steps.append((after.at_ms, done))
    return steps


def _is_growing(snapshots: Sequence[Snapshot], key: PartitionKey) -> bool:
    lags = [lag - each.finished_beyond.get(key, 0) for each in snapshots if (lag := each.lag(key)) is not None]
    middle = len(lags) // 2
    return middle > 0 and min(lags[middle:]) > min(lags[:middle])


def _is_enough(snapshots: Sequence[Snapshot]) -> bool:
    """Returns whether every partition that had lag has read it, or has committed often enough to know its rate."""
    first, last = snapshots[0], snapshots[-1]
    if len(snapshots) < 2:
        return False
    late = [
        key
        for key in last.picture.owners
        if first.lag(key) and last.committed.get(key, 0) < first.ends.get(key, (0, 0))[1]
    ]
    is_long = last.at_ms - first.at_ms >= _SHORTEST_MS
    return not late or (is_long and all(len(_steps(snapshots, key)) >= _STEPS for key in late))


def _owners(snapshot: Snapshot) -> dict[PartitionKey, str]:
    return {key: member.member_id for key, member in snapshot.picture.owners.items()}
