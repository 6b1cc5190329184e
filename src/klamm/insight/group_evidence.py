"""Gathers from a cluster what the explanation of a group needs."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Final, NamedTuple

from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.coordinator_tail import CoordinatorTail
from klamm.insight.errors import ClusterError
from klamm.insight.group_explanation import Evidence
from klamm.insight.group_snapshot import Snapshot
from klamm.insight.history_reader import HistoryReader

__all__ = ["GatheredEvidence", "gather_evidence"]

PATIENCE_S: Final = 5.0


class GatheredEvidence(NamedTuple):
    """The evidence, and what is missing from it."""

    evidence: Evidence
    history_problem: str | None
    """Why the history can't be read; None where it was read, or where the cluster keeps none."""


def gather_evidence(access: ClusterAccess, group: str, snapshot: Snapshot) -> GatheredEvidence:
    """Reads the coordinator's log and the history of the group that the snapshot shows. Raises ClusterError."""
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
        history=history,
        replayed=replayed,
        members_needed=snapshot.picture.members_needed,
    )
    return GatheredEvidence(evidence, history_problem)


def _history(access: ClusterAccess, group: str) -> list[HistoryRecord]:
    """The changes of the group; none where the cluster keeps no history."""
    with closing(HistoryReader(access, group)) as reader:
        reader.start()
        return [told.change for told in reader.available(PATIENCE_S) if told.change is not None]
