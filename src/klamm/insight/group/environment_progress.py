"""The progress of the same group in each environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.group.coordinator_tail import CoordinatorTail
from klamm.insight.group.group_offsets import committed_offsets, end_offsets, lag
from klamm.insight.words import PartitionKey

__all__ = [
    "EnvironmentGroup",
    "EnvironmentProgress",
    "behind",
    "environments_in",
    "has_peers",
    "look_at",
    "partitions_of",
    "total_behind",
]


@dataclass(frozen=True, slots=True)
class EnvironmentGroup:
    """The group of one environment, and access to its cluster."""

    label: str
    """The environment; the context's name if several contexts have this environment."""
    group: str
    access: ClusterAccess = field(compare=False)


@dataclass(frozen=True, slots=True)
class EnvironmentProgress:
    """The progress of one environment's group."""

    place: EnvironmentGroup
    cluster_id: str
    committed: Mapping[PartitionKey, int]
    ends: Mapping[PartitionKey, tuple[int, int]]
    commit_ms: Mapping[PartitionKey, int]
    """When each offset was committed, if the newest records of the coordinator's log contain the commit."""

    def lag(self, key: PartitionKey) -> int | None:
        """Returns the number of records left to read; None without a commit."""
        start, end = self.ends.get(key, (None, None))
        return lag(self.committed.get(key), start, end)

    @property
    def last_commit_ms(self) -> int | None:
        """The time of the newest known commit in ms; None if no time is known."""
        return max(self.commit_ms.values(), default=None)


def environments_in(group_ids: Iterable[str], name: str) -> dict[str, str]:
    """Returns the groups that are named `<environment>.<name>`, by environment."""
    suffix = f".{name}"
    found = {each.removesuffix(suffix): each for each in sorted(group_ids) if each.endswith(suffix)}
    return {environment: group for environment, group in found.items() if environment}


def partitions_of(progress: Iterable[EnvironmentProgress]) -> list[PartitionKey]:
    """Returns the partitions in which an environment has committed."""
    return sorted(set().union(*(each.committed for each in progress)))


def has_peers(progress: Iterable[EnvironmentProgress], one: EnvironmentProgress) -> bool:
    """Returns whether there is another environment on the cluster of `one`, so that their offsets can be compared."""
    return sum(each.cluster_id == one.cluster_id for each in progress) > 1


def total_behind(progress: Sequence[EnvironmentProgress], one: EnvironmentProgress) -> int:
    """Returns how many records `one` is behind the furthest environments on its cluster, over all partitions."""
    return sum(behind(progress, one, key) or 0 for key in one.committed)


def behind(progress: Sequence[EnvironmentProgress], one: EnvironmentProgress, key: PartitionKey) -> int | None:
    """Returns how many records `one` is behind the furthest environment on its cluster; None without a commit.

    Offsets of two clusters can't be compared.
    """
    if key not in one.committed:
        return None
    return (
        max(each.committed.get(key, 0) for each in progress if each.cluster_id == one.cluster_id) - one.committed[key]
    )


def look_at(place: EnvironmentGroup) -> EnvironmentProgress:
    """Reads the progress from the cluster. Raises ClusterError."""
    access = place.access
    admin = access.admin_client()
    cluster_id = access.translate(lambda: admin.list_topics(timeout=TIMEOUT_S)).cluster_id
    committed = committed_offsets(access, admin, place.group)
    ends = end_offsets(access, admin, sorted(committed))
    with closing(CoordinatorTail(access, place.group)) as tail:
        replayed = tail.update()
    offsets = replayed.offsets if replayed is not None else {}
    commit_ms = {key: each.commit_ms for key, each in offsets.items() if committed.get(key) == each.offset}
    return EnvironmentProgress(place, str(cluster_id), committed, ends, commit_ms)
