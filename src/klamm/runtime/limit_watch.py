"""Watches which groups are limited by their partitions, from the traffic of partitions and the committed offsets.

A group is looked at every half minute: often enough to see a limit soon, and seldom enough that periodic commits do not
look like one. A limit is published when two successive looks find it, and so is its end. What a worker (`klamm.worker`)
has finished beyond the committed offset counts as done.

Only this broker's partitions have traffic. A group that reads a partition of another leader is not judged, and neither
is a group that reads very many partitions, to bound time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from klamm.core.delivery.commit_text import count_finished
from klamm.core.group.events import Cause, GroupLimited
from klamm.core.group.history.change import MemberThen
from klamm.core.group.history.trackers import GroupTrackers
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.core.group.partition_limits import LimitKind, PartitionFlow, find_limits, limit_help, limit_text
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.types import Millis, PartitionIndex

__all__ = ["LimitWatch"]

_ROUNDS: Final = 6
"""A look at the groups comes with every sixth report of traffic: every half minute by default."""
_LOOKS: Final = 2
"""How many looks in a row have to find the same."""
_MOST_PARTITIONS: Final = 1_000
"""The most partitions of a measured group: a look at so large a group takes a few milliseconds."""

_RECORDED: Final = (LimitKind.PARTITION, LimitKind.PARTITION_COUNT, LimitKind.OWNER)
"""The limits of the partitions and their assignment. The other limits do not depend on them."""

_PartitionKey: TypeAlias = tuple[str, int]
_Offsets: TypeAlias = Mapping[str, Mapping[PartitionIndex, CommittedOffset]]
_Found: TypeAlias = tuple[LimitKind, str | None]
"""The limit, and the partition that it names."""


class _Mark(NamedTuple):
    """A partition at one look."""

    committed: int
    high_watermark: int
    lag: int
    finished_beyond: int
    """How many records beyond the committed offset are finished."""

    @property
    def done(self) -> int:
        """The committed offset plus the number of records that are finished beyond it."""
        return self.committed + self.finished_beyond

    @property
    def left(self) -> int:
        """How many records are not finished."""
        return self.lag - self.finished_beyond


@dataclass(slots=True)
class _Watched:
    """A group that had lag at its last look, or whose limit is published."""

    partition: PartitionIndex
    at_ms: float
    owners: Mapping[_PartitionKey, str]
    marks: Mapping[_PartitionKey, _Mark]
    found: _Found | None = None
    """What the last look found."""
    looks: int = 0
    """How many looks in a row have found it."""
    published: _Found | None = None


class LimitWatch:
    """Looks at the groups of `trackers`, and publishes limits."""

    def __init__(
        self,
        trackers: GroupTrackers,
        committed_offsets: Callable[[str], _Offsets],
        publish: Callable[[PartitionIndex, GroupLimited], None],
    ) -> None:
        self._trackers = trackers
        self._committed_offsets = committed_offsets
        self._publish = publish
        self._watched: dict[str, _Watched] = {}
        self._round = 0

    def look(self, traffic: Traffic, now_ms: float, at: Millis) -> Iterator[None]:
        """Looks at all groups with every sixth report of traffic. A step is one group, or one commit with metadata.

        `now_ms` is monotonic; `at` is the time of the records.
        """
        self._round += 1
        if self._round % _ROUNDS:
            return
        seen = set()
        for partition, group_id, members in self._trackers.at_rest():
            seen.add(group_id)
            yield from self._look_at(partition, group_id, members, traffic, now_ms=now_ms, at=at)
            yield
        for group_id in self._watched.keys() - seen:
            del self._watched[group_id]

    def forget(self, partition: PartitionIndex) -> None:
        """Forgets the groups of a partition that has another coordinator now."""
        for group_id in [each for each, watched in self._watched.items() if watched.partition == partition]:
            del self._watched[group_id]

    def _look_at(
        self,
        partition: PartitionIndex,
        group_id: str,
        members: Mapping[str, MemberThen],
        traffic: Traffic,
        *,
        now_ms: float,
        at: Millis,
    ) -> Iterator[None]:
        before = self._watched.get(group_id)
        committed = self._committed_offsets(group_id)
        if sum(map(len, committed.values())) > _MOST_PARTITIONS:
            self._watched.pop(group_id, None)
            return
        if before is None and not _has_lag(committed, traffic):
            return  # spares nearly all groups the decoding of their assignments
        owners = _owners(members)
        marks = None
        if len(owners) <= _MOST_PARTITIONS:
            marks = yield from _marks(owners, committed, traffic)
            members_now = self._trackers.members_at_rest(partition, group_id)
            if self._watched.get(group_id) is not before or not members_now or _owners(members_now) != owners:
                return  # the group changed between two steps
        if marks is None or (before is None and not any(mark.lag for mark in marks.values())):
            self._watched.pop(group_id, None)
            return
        now = _Watched(partition, now_ms, owners, marks)
        self._watched[group_id] = now
        if before is None:
            return
        now.published = before.published
        if before.owners != owners or now_ms <= before.at_ms:
            return
        limits = find_limits(_flows(before, now), members.keys(), set(owners.values()))
        limit = next((each for each in limits if each.kind in _RECORDED), None)
        if limit is not None:
            now.found = (limit.kind, limit.flow.name if limit.kind is LimitKind.PARTITION else None)
        now.looks = before.looks + 1 if now.found == before.found else 1
        if now.looks >= _LOOKS and now.found != now.published:
            now.published = now.found
            if limit is not None:
                detail = f"{limit_text(limit)}; {limit_help(limit)}"
                self._publish(partition, GroupLimited(group_id, Cause(limit.kind.value), detail, at))
            else:
                self._publish(partition, GroupLimited(group_id, Cause.KEEPS_UP, _keeps_up(before, now), at))
        if now.published is None and not any(mark.lag for mark in marks.values()):
            del self._watched[group_id]


def _has_lag(committed: _Offsets, traffic: Traffic) -> bool:
    for topic, offsets in committed.items():
        partitions = traffic.get(topic, ())
        for index, offset in offsets.items():
            flow = partitions[index] if index < len(partitions) else None
            if flow is not None and flow.lag_of(offset.offset):
                return True
    return False


def _owners(members: Mapping[str, MemberThen]) -> dict[_PartitionKey, str]:
    return {
        (topic, index): member_id
        for member_id, member in members.items()
        for topic, indexes in member.partitions.items()
        for index in indexes
    }


def _marks(
    owners: Mapping[_PartitionKey, str],
    committed: _Offsets,
    traffic: Traffic,
) -> Generator[None, None, dict[_PartitionKey, _Mark] | None]:
    """Returns the partitions that the group has committed for; None if another broker leads a partition.

    Reads the metadata of one commit in a step, because a worker's metadata may be long.
    """
    marks = {}
    for topic, index in owners:
        partitions = traffic.get(topic, ())
        flow = partitions[index] if index < len(partitions) else None
        if flow is None:
            return None
        offset = committed.get(topic, {}).get(PartitionIndex(index))
        if offset is not None:
            finished = 0
            if offset.metadata:
                finished = count_finished(offset.offset, offset.metadata)
                yield
            marks[topic, index] = _Mark(offset.offset, flow.high_watermark, flow.lag_of(offset.offset), finished)
    return marks


def _flows(before: _Watched, now: _Watched) -> list[PartitionFlow]:
    seconds = (now.at_ms - before.at_ms) / 1000
    flows = []
    for key, mark in now.marks.items():
        earlier = before.marks.get(key)
        if earlier is not None:
            arriving = max(0, mark.high_watermark - earlier.high_watermark) / seconds
            done = max(0, mark.done - earlier.done) / seconds
            flows.append(PartitionFlow(*key, now.owners[key], arriving, done, mark.lag, mark.left > earlier.left))
    return flows


def _keeps_up(before: _Watched, now: _Watched) -> str:
    flows = _flows(before, now)
    arriving, done = sum(flow.arriving for flow in flows), sum(flow.done for flow in flows)
    lag = sum(mark.lag for mark in now.marks.values())
    return f"no longer limited: {arriving:,.0f} records/s arrive, {done:,.0f}/s are done, the lag is {lag:,}"
