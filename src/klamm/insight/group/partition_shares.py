"""Describes in words how an assignor distributes partitions, with the numbers of one group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.words import count, enumeration

__all__ = ["share_lines", "subscribed_topics"]

_EVEN: Final = {"uniform", "sticky", "cooperative-sticky", "roundrobin"}
_KEEPS: Final = {"uniform", "sticky", "cooperative-sticky", "load"}


def subscribed_topics(
    picture: GroupPicture, patterns: Mapping[str, Sequence[str]], *, only: MemberPicture | None = None
) -> set[str]:
    """Returns the topics that the members (or one of them) subscribe to.

    For a member whose subscription is unknown, returns the topics of its partitions.
    """
    members = picture.members if only is None else (only,)
    topics: set[str] = set()
    for member in members:
        if member.topics is None:
            topics |= {topic for topic, _ in member.assigned | member.target}
        else:
            topics |= member.topics | set(patterns.get(member.pattern or "", ()))
    return topics


def share_lines(
    picture: GroupPicture, partition_counts: Mapping[str, int], patterns: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yields the assignor's rule with the numbers of this group; nothing while the group has no assignor."""
    if picture.assignor is None or not picture.members:
        return
    sizes = {
        topic: partition_counts[topic] for topic in subscribed_topics(picture, patterns) if topic in partition_counts
    }
    are_alike = len({(member.topics, member.pattern) for member in picture.members}) <= 1
    members = len(picture.members)
    if picture.assignor == "range":
        each_has = _ranges(sizes, _subscribers(picture, patterns))
        rule = f"range shares out each topic by itself, in the order of the members' ids: {each_has}"
    elif picture.assignor in _EVEN and are_alike:
        rule = f"{picture.assignor} shares out evenly: {_shares(sum(sizes.values()), members)}"
    elif picture.assignor == "load":
        rule = "load shares out by arrival rate and lag: members get equal work, not equal numbers of partitions"
    elif picture.assignor in _EVEN:
        rule = f"{picture.assignor} shares out evenly, as far as members subscribe to the same topics; here they differ"
    else:
        rule = f"{picture.assignor}, an assignor of its own, shares out"
    yield rule + ("; it leaves partitions where they are as far as it can" if picture.assignor in _KEEPS else "")
    if picture.kind == "classic":
        yield "the group's leader, one of its members, applies the assignor"


def _shares(partitions: int, members: int) -> str:
    """Returns the shares: `6 partitions among 4 members: 2 have 2, 2 have 1`."""
    least, more = divmod(partitions, members)
    whole = f"{count(partitions, 'partition')} among {count(members, 'member')}: "
    if more == 0:
        return whole + (f"each has {least}" if members > 1 else f"it has {least}")
    return f"{whole}{_have(more)} {least + 1}, {_have(members - more)} {least}"


def _have(members: int) -> str:
    return f"{members} {'has' if members == 1 else 'have'}"


def _subscribers(picture: GroupPicture, patterns: Mapping[str, Sequence[str]]) -> Counter[str]:
    """Returns how many members subscribe to each topic. A member whose subscription is unknown counts for all."""
    unknown = sum(member.topics is None for member in picture.members)
    found = Counter(dict.fromkeys(subscribed_topics(picture, patterns), unknown))
    for member in picture.members:
        if member.topics is not None:
            found.update(subscribed_topics(picture, patterns, only=member))
    return found


def _ranges(sizes: Mapping[str, int], subscribers: Mapping[str, int]) -> str:
    """Returns the shares by topic: `bills: 1 for the first 2 of 4 and orders: 2 each`."""
    parts = []
    for topic, size in sorted(sizes.items()):
        members = subscribers[topic]
        least, more = divmod(size, members)
        if more == 0:
            parts.append(f"{topic}: {least} each")
        elif least == 0:
            parts.append(f"{topic}: 1 for the first {more} of {members}" if more > 1 else f"{topic}: 1 for the first")
        else:
            first = "the first has" if more == 1 else f"the first {more} have"
            parts.append(f"{topic}: {first} {least + 1}, the others {least}")
    return enumeration(parts, most=6) or "nothing to share"
