"""Collects the evidence for a group's explanation from a cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final, NamedTuple

from klamm.core.group.history.history_record import HistoryRecord
from klamm.core.group.partition_limits import find_limits
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group.coordinator_tail import CoordinatorTail
from klamm.insight.group.group_explanation import Evidence
from klamm.insight.group.group_flows import flows_of
from klamm.insight.group.group_snapshot import Snapshot
from klamm.insight.group.history_reader import HistoryReader

__all__ = ["GatheredEvidence", "gather_evidence"]

PATIENCE_S: Final = 5.0


class GatheredEvidence(NamedTuple):
    """The evidence, and the reason why its history is missing."""

    evidence: Evidence
    history_problem: str | None
    """Why the history can't be read; None if it was read, or if the cluster keeps no history."""


def gather_evidence(access: ClusterAccess, group: str, snapshots: Sequence[Snapshot]) -> GatheredEvidence:
    """Reads the coordinator's log and the history of a group. Raises ClusterError.

    The evidence is of the last snapshot. With several snapshots, it says what limits the group over their time.
    """
    snapshot = snapshots[-1]
    with closing(CoordinatorTail(access, group)) as tail:
        replayed = tail.update()
    now_ms = time.time_ns() // 1_000_000
    history: list[HistoryRecord] = []
    history_problem = None
    try:
        history = _history(access, group)
    except ClusterError as error:
        history_problem = str(error)
    evidence = Evidence(
        picture=snapshot.picture,
        now_ms=now_ms,
        partition_counts=snapshot.partition_counts,
        lags={key: snapshot.lag(key) for key in snapshot.partitions},
        unavailable=snapshot.unavailable,
        history=history,
        replayed=replayed,
        members_needed=snapshot.picture.members_needed,
        limits=(
            find_limits(
                flows_of(snapshots),
                {member.member_id for member in snapshot.picture.members},
                {owner.member_id for owner in snapshot.picture.owners.values()},
            )
            if len(snapshots) > 1
            else None
        ),
    )
    return GatheredEvidence(evidence, history_problem)


def _history(access: ClusterAccess, group: str) -> list[HistoryRecord]:
    """Returns the changes of the group; an empty list if the cluster keeps no history."""
    with closing(HistoryReader(access, group)) as reader:
        reader.start()
        return [told.change for told in reader.available(PATIENCE_S) if told.change is not None]
