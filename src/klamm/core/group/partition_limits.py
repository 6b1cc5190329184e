"""Decides what limits a group whose lag grows: one partition, the number of its partitions, how they are assigned, or
its members.

A partition has one owner. So a partition in which more records arrive than its owner processes holds up the group, even
if all other members are idle. The rule needs only rates and owners: the broker and the command line apply it to their
own measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from math import ceil
from typing import Final, NamedTuple

__all__ = ["GroupLimit", "LimitKind", "PartitionFlow", "find_limits", "limit_help", "limit_text"]

_KEEPS_UP: Final = 0.9
"""An owner that processes at least this share of the arriving records keeps up: measurements differ by some percent."""
_MOST_LIMITS: Final = 3
_MOST_NAMED: Final = 4
_FEW: Final = 10


class PartitionFlow(NamedTuple):
    """The traffic of one partition of a group over some seconds."""

    topic: str
    partition: int
    owner: str | None
    """The id of the member that owns the partition."""
    arriving: float
    """Records a second."""
    done: float
    """Records a second that are done: the rise of the committed offset, and what workers finish beyond it."""
    lag: int
    is_growing: bool
    """Whether the unfinished records have become more, apart from the steps of periodic commits."""

    @property
    def is_behind(self) -> bool:
        """Whether more records arrive than the owner processes."""
        return self.is_growing and self.lag > 0 and self.done < _KEEPS_UP * self.arriving

    @property
    def name(self) -> str:
        """Topic and index: `orders-3`."""
        return f"{self.topic}-{self.partition}"


class LimitKind(Enum):
    """What limits a group; the value is the code of the cause in `__group_history`."""

    PARTITION = "limited_by_partition"
    """More records arrive in one partition than its owner processes in all its partitions together."""
    PARTITION_COUNT = "limited_by_partition_count"
    """The lag grows in every partition, and there are no more partitions for more members."""
    OWNER = "limited_by_owner"
    """One member has more partitions than it can process, and other members have time."""
    MEMBERS = "limited_by_members"
    """Every member is behind, and there are partitions for more members."""
    NO_COMMITS = "no_commits"
    """Records arrive, but nothing was committed."""


class GroupLimit(NamedTuple):
    """What limits a group, with the figures."""

    kind: LimitKind
    flow: PartitionFlow
    """The partition whose lag grows fastest."""
    flows: tuple[PartitionFlow, ...]
    """PARTITION: only `flow`. OWNER: all of the owner. NO_COMMITS: those behind. Else: all that have an owner."""
    pace: float
    """Records a second that one member processes in all its partitions: the owner of `flow`, or the average owner."""
    members: int
    idle: int
    """Members without partitions."""
    in_time: int
    """Members with partitions, none of which has a lag that grows."""

    @property
    def arriving(self) -> float:
        """Records a second that arrive in `flows`."""
        return sum(flow.arriving for flow in self.flows)

    @property
    def done(self) -> float:
        """Records a second that are processed in `flows`."""
        return sum(flow.done for flow in self.flows)


def find_limits(
    flows: Sequence[PartitionFlow], members: Collection[str], owners: Collection[str] = ()
) -> tuple[GroupLimit, ...]:
    """Returns what limits the group, worst first; at most three limits, none if it keeps up.

    `members` are ids. `owners` are the ids of members whose partitions may not be among `flows`, because nothing was
    committed for them yet: these members are not idle.
    """
    owned: dict[str, list[PartitionFlow]] = {}
    for flow in flows:
        if flow.owner in members:
            owned.setdefault(str(flow.owner), []).append(flow)
    behind = sorted((flow for of in owned.values() for flow in of if flow.is_behind), key=_growth, reverse=True)
    if not behind:
        return ()
    late = {flow.owner for flow in behind}
    idle = len(set(members) - owned.keys() - set(owners))
    counts = (len(members), idle, len(owned.keys() - late))
    if not any(flow.done for flow in flows):
        return (GroupLimit(LimitKind.NO_COMMITS, behind[0], tuple(behind), 0.0, *counts),)
    every = tuple(flow for of in owned.values() for flow in of)
    if len(members) >= len(every) and all(flow.is_behind for flow in every):
        pace = sum(flow.done for flow in every) / len(owned)
        return (GroupLimit(LimitKind.PARTITION_COUNT, behind[0], every, pace, *counts),)
    limits = _of_owners(behind, owned, counts)
    if len(late) == len(members):
        pace = sum(flow.done for flow in every) / len(owned)
        of_members = GroupLimit(LimitKind.MEMBERS, behind[0], every, pace, *counts)
        return (of_members, *(each for each in limits if each.kind is LimitKind.PARTITION))[:_MOST_LIMITS]
    return tuple(limits)[:_MOST_LIMITS]


def _of_owners(
    behind: Sequence[PartitionFlow], owned: Mapping[str, Sequence[PartitionFlow]], counts: tuple[int, int, int]
) -> Iterator[GroupLimit]:
    """Yields the limits of the owners that are behind, at most one for each owner."""
    seen: set[str | None] = set()
    for flow in behind:
        if flow.owner in seen or flow.owner is None:
            continue
        seen.add(flow.owner)
        of_owner = owned[flow.owner]
        pace = sum(each.done for each in of_owner)
        heaviest = max((each for each in behind if each.owner == flow.owner), key=lambda each: each.arriving)
        if heaviest.arriving > pace:
            yield GroupLimit(LimitKind.PARTITION, heaviest, (heaviest,), pace, *counts)
        else:
            yield GroupLimit(LimitKind.OWNER, heaviest, tuple(of_owner), pace, *counts)


def limit_text(limit: GroupLimit) -> str:
    """Returns the limit with its figures in words. Members are named by their ids."""
    flow = limit.flow
    if limit.kind is LimitKind.PARTITION:
        return (
            f"limited by {flow.name}: {_rate(flow.arriving)} records/s arrive, its owner {flow.owner} does "
            f"{_rate(flow.done)}/s of them, the lag of {flow.lag:,} grows by {_rate(_growth(flow))}/s; "
            f"{_others(limit)}"
        )
    if limit.kind is LimitKind.OWNER:
        return (
            f"limited by the assignment: {_rate(limit.arriving)} records/s arrive in the {len(limit.flows)} partitions "
            f"of {flow.owner} ({_names(limit.flows)}), it does {_rate(limit.pace)}/s; {_others(limit)}"
        )
    rates = f"{_rate(limit.arriving)} records/s arrive, {_rate(limit.done)}/s are done"
    if limit.kind is LimitKind.NO_COMMITS:
        lag = sum(each.lag for each in limit.flows)
        return f"the lag of {lag:,} grows: {_rate(limit.arriving)} records/s arrive, and nothing was committed"
    if limit.kind is LimitKind.PARTITION_COUNT:
        partitions = _count(len(limit.flows), "partition")
        where = "the lag grows in each" if len(limit.flows) > 1 else "its lag grows"
        idle = f"; {_others(limit)}" if limit.idle else ""
        return (
            f"limited by the number of partitions: {partitions} for {_count(limit.members, 'member')}, and {where}: "
            f"{rates}, {_rate(limit.pace)}/s by each owner{idle}"
        )
    return f"limited by the number of members: the lag grows with every member: {rates}, {_rate(limit.pace)}/s by each"


def limit_help(limit: GroupLimit) -> str:
    """Returns in words what would help, with the figures."""
    flow = limit.flow
    look = f"`klamm topic skew {flow.topic}`"
    if limit.kind is LimitKind.PARTITION:
        times = (
            f"{flow.arriving / limit.pace:,.1f} times the {_rate(limit.pace)}/s that its owner does in all"
            if limit.pace > 0
            else "and its owner commits nothing: it may hang, or not commit yet"
        )
        return (
            f"more members do not help, because a partition has one owner: {flow.name} alone gets {times}. {look} "
            "shows whether one key fills it. What helps: a faster handler, several keys of the partition at once "
            '(klamm.worker with order="key"), or a key with more parts'
        )
    if limit.kind is LimitKind.OWNER:
        return (
            f"another assignment helps: its heaviest partition {flow.name} gets {_rate(flow.arriving)}/s, which it can "
            "do if it has fewer others. The assignor `load` (consumer protocol, klamm's broker) assigns by arrival "
            "rate and lag"
        )
    if limit.kind is LimitKind.NO_COMMITS:
        return (
            "the members may hang, or commit less often than they were measured (`--measure 60s` measures longer); "
            f"{flow.owner} has {flow.name}"
        )
    needed = ceil(limit.arriving / limit.pace) if limit.pace > 0 else None
    if limit.kind is LimitKind.PARTITION_COUNT:
        more = (
            f"about {max(needed, len(limit.flows) + 1)} partitions do" if needed is not None else "more partitions do"
        )
        return (
            f"more members do not help; {more}, if the keys spread over them ({look}; with more partitions a key may "
            "get another one), or a faster handler"
        )
    enough = f"about {max(needed, limit.members + 1)}" if needed is not None else f"up to {len(limit.flows)}"
    if needed is not None and needed > len(limit.flows):
        return f"more members help, up to {len(limit.flows)}: one for each partition; {enough} would be needed"
    return f"more members help: {enough} for the {len(limit.flows)} partitions"


def _growth(flow: PartitionFlow) -> float:
    return flow.arriving - flow.done


def _others(limit: GroupLimit) -> str:
    """Returns which members have time: `3 of 4 members are idle, 1 has no lag that grows`."""
    parts = []
    if limit.idle:
        parts.append(f"{limit.idle} of {_count(limit.members, 'member')} {_be(limit.idle)} idle")
    if limit.in_time:
        of = "" if parts else f" of {_count(limit.members, 'member')}"
        parts.append(f"{limit.in_time}{of} {'has' if limit.in_time == 1 else 'have'} no lag that grows")
    return ", ".join(parts) or f"no member of {limit.members} has time left"


def _names(flows: Sequence[PartitionFlow]) -> str:
    names = [flow.name for flow in sorted(flows, key=lambda flow: flow.arriving, reverse=True)]
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what if number == 1 else what + 's'}"


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= _FEW or rate == 0 else f"{rate:.1f}"
