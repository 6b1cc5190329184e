"""Finds out which members of a group wait for which other members."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import NamedTuple

from klamm.insight.group.group_picture import GroupPicture
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.replayed_group import ReplayedGroup
from klamm.insight.words import PartitionKey, enumeration, partition_names, span

__all__ = ["Wait", "group_wait", "wait_words", "waits"]


class Wait(NamedTuple):
    """A member waits for partitions of its target that it does not own yet."""

    member_id: str
    partitions: frozenset[PartitionKey]
    holder_id: str | None
    """The owner; None if the partitions have no owner, so that the member gets them with its next heartbeat."""
    since_ms: int | None
    """When the owner was told to revoke, or else when the target was written; None if the log has no record of it."""


def waits(picture: GroupPicture, replayed: ReplayedGroup | None = None) -> list[Wait]:
    """Returns all waits in a consumer group. In a classic group the coordinator waits, see `group_wait`."""
    owners = picture.owners
    found: list[Wait] = []
    for member in picture.members:
        by_holder: dict[str | None, set[PartitionKey]] = {}
        for key in member.missing:
            holder = owners.get(key)
            by_holder.setdefault(holder.member_id if holder is not None else None, set()).add(key)
        for holder_id, keys in sorted(by_holder.items(), key=lambda item: item[0] or ""):
            found.append(Wait(member.member_id, frozenset(keys), holder_id, _since(keys, holder_id, replayed)))
    return found


def _since(keys: set[PartitionKey], holder_id: str | None, replayed: ReplayedGroup | None) -> int | None:
    if replayed is None:
        return None
    holder = replayed.members.get(holder_id or "")
    if holder is not None and keys & holder.pending_revocation:
        return holder.changed_ms
    return replayed.assigned_ms


def wait_words(wait: Wait, names: MemberNames, now_ms: int) -> str:
    """Returns the wait in words, without the name of the waiting member."""
    what = partition_names(wait.partitions)
    if wait.holder_id is None:
        return f"{what}, which no member owns any more: the coordinator assigns them with the next heartbeat"
    since = f", who was told {span(now_ms - wait.since_ms)} ago" if wait.since_ms is not None else ""
    return f"{what} from {names.of(wait.holder_id)}{since}"


def group_wait(picture: GroupPicture, replayed: ReplayedGroup | None, names: MemberNames) -> Iterator[str]:
    """Yields what a classic group's coordinator waits for, in words; nothing if it does not wait."""
    if picture.state == "preparing-rebalance":
        limit_ms = _rebalance_timeout(replayed)
        limit = f", for {span(limit_ms)} at most" if limit_ms is not None else ""
        if picture.awaited is None:
            yield f"the coordinator waits until all members have joined again{limit}; it does not say who has not yet"
        elif picture.awaited:
            yield f"the coordinator waits for {_names(picture, picture.awaited, names)} to join again{limit}"
        else:
            yield "all members have joined: the coordinator waits a moment for more to come"
    elif picture.state == "completing-rebalance":
        leader = next(iter(picture.awaited or ()), replayed.leader if replayed is not None else None)
        is_there = any(member.member_id == leader for member in picture.members)
        probably = "" if picture.awaited else "probably still "
        who = f"the leader, {probably}{names.of(leader)}," if leader is not None and is_there else "the leader"
        yield f"the coordinator waits for {who} to share out the partitions"
    elif picture.state == "assigning":
        yield "the coordinator computes a new target"


def _names(picture: GroupPicture, member_ids: Set[str], names: MemberNames) -> str:
    """Returns the names of the awaited members. A client with a new member id is not a member until it joins with that
    id."""
    members = {member.member_id for member in picture.members}
    newcomers = [f"{member_id}, who is new," for member_id in sorted(member_ids - members)]
    return enumeration(names.all_of(member_ids & members) + newcomers, most=4)


def _rebalance_timeout(replayed: ReplayedGroup | None) -> int | None:
    known = [each.rebalance_timeout_ms for each in replayed.members.values()] if replayed is not None else []
    return max((ms for ms in known if ms is not None), default=None)
