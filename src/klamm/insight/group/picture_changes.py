"""The changes of a group since the last look, as lines: `klamm group watch` prints them without a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.group.group_waits import Wait
from klamm.insight.group.member_names import MemberNames
from klamm.insight.words import PartitionKey, count, partition_ranges

__all__ = ["changed", "new_waits", "summary"]


def summary(picture: GroupPicture, lag_in_words: str | None) -> str:
    """Returns the group in one line."""
    parts = [picture.kind, picture.state]
    if picture.epoch is not None:
        parts.append(f"epoch {picture.epoch}")
    if picture.assignor is not None:
        parts.append(picture.assignor)
    parts.append(count(len(picture.members), "member"))
    if lag_in_words is not None:
        parts.append(lag_in_words)
    return ", ".join(parts)


def changed(before: GroupPicture | None, after: GroupPicture | None, names: MemberNames) -> Iterator[str]:
    """Yields the differences in words; nothing if there are none."""
    if before is None or after is None:
        if before is not after:
            yield "the group is gone" if after is None else "the group is there"
        return
    if before.kind != after.kind:
        yield f"protocol {before.kind} → {after.kind}"
    if before.state != after.state:
        yield f"state {before.state} → {after.state}"
    if before.epoch != after.epoch and after.epoch is not None:
        yield f"epoch {before.epoch} → {after.epoch}"
    if after.assignor is not None and before.assignor not in (None, after.assignor):
        yield f"assignor {before.assignor} → {after.assignor}"
    yield from _people(before, after, names)
    yield from _moves(before, after, names)


def _people(before: GroupPicture, after: GroupPicture, names: MemberNames) -> Iterator[str]:
    was = {member.member_id: member for member in before.members}
    is_now = {member.member_id: member for member in after.members}
    for member_id in sorted(was.keys() - is_now.keys(), key=names.of):
        yield f"{names.of(member_id)} is gone"
    for member_id in sorted(is_now.keys() - was.keys(), key=names.of):
        yield f"{names.of(member_id)} has come from {is_now[member_id].host.removeprefix('/')}"


def _moves(before: GroupPicture, after: GroupPicture, names: MemberNames) -> Iterator[str]:
    owned_before, owned_after = before.owners, after.owners
    moves: dict[tuple[str, str, str], list[int]] = {}
    for key in sorted(owned_before.keys() | owned_after.keys()):
        way = (_owner(owned_before, key, names), _owner(owned_after, key, names))
        if way[0] != way[1]:
            moves.setdefault((key[0], *way), []).append(key[1])
    for (topic, source, target), indexes in moves.items():
        yield f"{topic} {partition_ranges(indexes)}: {source} → {target}"


def _owner(owners: dict[PartitionKey, MemberPicture], key: PartitionKey, names: MemberNames) -> str:
    return names.of(owners[key].member_id) if key in owners else "no owner"


def new_waits(before: Sequence[Wait], after: Sequence[Wait]) -> list[Wait]:
    """Returns the waits in `after` that are not in `before`."""
    known = {(wait.member_id, wait.partitions, wait.holder_id) for wait in before}
    return [wait for wait in after if (wait.member_id, wait.partitions, wait.holder_id) not in known]
