"""Formats a coordinator's records and the resulting groups for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from klamm.insight.group.coordinator_state import ReplayedRecord
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.replayed_group import ReplayedGroup, ReplayedMember
from klamm.insight.plain_message import plain
from klamm.insight.words import count, enumeration, partition_names

__all__ = ["group_lines", "record_words"]

_MOST_OFFSETS: Final = 24


def record_words(record: ReplayedRecord, state: ReplayedGroup | None, names: MemberNames) -> str:
    """Returns the record's content in words. `state` is its group's state after it."""
    if record.key is None:
        return record.complaint or "no record"
    key: Any = record.key
    value: Any = record.value
    match record.name:
        case "OffsetCommit" | "LegacyOffsetCommit":
            text = _offset_words(key, value)
        case "GroupMetadata":
            text = _classic_words(value, names)
        case "ConsumerGroupMetadata":
            text = "the consumer group is gone" if value is None else f"group epoch {value.epoch}"
        case "ConsumerGroupTargetAssignmentMetadata":
            text = "the target is gone" if value is None else f"target of epoch {value.assignment_epoch}"
        case "ConsumerGroupRegularExpression":
            topics = "gone" if value is None else enumeration(value.topics) or "no topic"
            text = f"pattern {key.regular_expression}: {topics}"
        case (
            "ConsumerGroupMemberMetadata"
            | "ConsumerGroupTargetAssignmentMember"
            | "ConsumerGroupCurrentMemberAssignment"
        ):
            text = _member_words(record.name, key.member_id, value, state, names)
        case _:
            rest = {name: field for name, field in plain(key).items() if name not in ("group_id", "group")}
            text = "gone" if value is None else json.dumps(plain(value))
            text = f"{json.dumps(rest)}: {text}" if rest else text
    return text


def _classic_words(value: Any, names: MemberNames) -> str:
    if value is None:
        return "the classic group is gone"
    leader = f", leader {names.of(value.leader)}" if value.leader else ""
    protocol = value.protocol or f"no protocol of {value.protocol_type or 'any type'}"
    return f"generation {value.generation}, {protocol}, {count(len(value.members), 'member')}{leader}"


def _offset_words(key: Any, value: Any) -> str:
    place = f"{key.topic}-{key.partition}"
    if value is None:
        return f"{place}: the commit is gone"
    metadata = f" with metadata {value.metadata!r}" if value.metadata else ""
    return f"{place} at {value.offset}{metadata}"


def _member_words(record_name: str, member_id: str, value: Any, state: ReplayedGroup | None, names: MemberNames) -> str:
    name = names.of(member_id)
    member = state.members.get(member_id) if state is not None else None
    if record_name == "ConsumerGroupMemberMetadata":
        return f"{name} is no member any more" if value is None or member is None else f"{name} {_subscription(member)}"
    if record_name == "ConsumerGroupTargetAssignmentMember":
        has = value is not None and member is not None
        return f"{name} is to have {partition_names(member.target) if has and member is not None else 'nothing'}"
    if value is None or member is None:
        return f"{name} has nothing any more"
    return f"{name} {_assignment(member)}"


def _subscription(member: ReplayedMember) -> str:
    wanted = [*member.topics, *([f"pattern {member.pattern}"] if member.pattern else [])]
    protocol = " by the classic protocol" if member.uses_classic_protocol else ""
    assignor = f", assignor {member.assignor}" if member.assignor else ""
    host = f" ({member.host.removeprefix('/')})" if member.host else ""
    return f"subscribes to {enumeration(wanted) or 'nothing'}{protocol}{assignor}{host}"


def _assignment(member: ReplayedMember) -> str:
    text = f"has {partition_names(member.assigned)} at epoch {member.epoch}"
    if member.pending_revocation:
        text += f", has to give back {partition_names(member.pending_revocation)}"
    missing = member.target - member.assigned
    if missing:
        text += f", is to get {partition_names(missing)}"
    return text


def group_lines(state: ReplayedGroup | None, names: MemberNames) -> Iterator[str]:
    """Yields the group's state: a line for the group, one for each member, one for its offsets."""
    if state is None:
        yield "nothing is left of the group"
        return
    kind = state.kind or ("no type yet" if state.members else "only offsets")
    word = "generation" if state.kind == "classic" else "epoch"
    parts = [kind]
    if state.epoch is not None:
        parts.append(f"{word} {state.epoch}")
    if state.assignment_epoch is not None and state.assignment_epoch != state.epoch:
        parts.append(f"target of epoch {state.assignment_epoch}")
    if state.assignor is not None:
        parts.append(state.assignor)
    parts += [count(len(state.members), "member"), count(len(state.offsets), "offset")]
    yield ", ".join(parts)
    for member in sorted(state.members.values(), key=lambda member: names.of(member.member_id)):
        if state.kind == "classic":
            yield f"{names.of(member.member_id)}: {partition_names(member.assigned)}"
        elif member.epoch is None:
            yield f"{names.of(member.member_id)}: no assignment yet, is to get {partition_names(member.target)}"
        else:
            yield f"{names.of(member.member_id)}: {_assignment(member)}"
    if state.offsets:
        offsets = [
            f"{topic}-{partition} {committed.offset}"
            for (topic, partition), committed in sorted(state.offsets.items())[: _MOST_OFFSETS + 1]
        ]
        more = len(state.offsets) - _MOST_OFFSETS
        yield "offsets: " + ", ".join(offsets[:_MOST_OFFSETS] + ([f"and {more} more"] if more > 0 else []))
