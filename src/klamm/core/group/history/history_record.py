"""The record of a change in the topic `__group_history`; docs/reference/group-history.md has the schema.

`history_record` encodes a record for the broker, `HistoryRecord.decode` decodes one for readers of the history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from klamm.core.group.events import PartitionsByTopic, RebalanceNeeded
from klamm.core.group.history.change import Change, MemberThen, Move, Outcome
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.errors import KlammError
from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex

__all__ = [
    "CommittedOffsets",
    "HistoryCause",
    "HistoryMember",
    "HistoryMove",
    "HistoryPause",
    "HistoryRecord",
    "NotUnderstood",
    "history_record",
]

CommittedOffsets: TypeAlias = Mapping[str, Mapping[PartitionIndex, CommittedOffset]]
"""The committed offsets of a group, by topic and partition."""

_VERSION: Final = 1
_LIMITS: Final = (Outcome.LIMITED.value, Outcome.KEEPS_UP.value)


def history_record(change: Change, coordinator_epoch: LeaderEpoch, committed: CommittedOffsets) -> dict[str, Any]:
    """Returns the record as JSON data. `committed` are the group's committed offsets when the change was over."""
    change.decode()
    return {
        "version": _VERSION,
        "group": change.group_id,
        "type": change.group_type.value,
        "coordinator_epoch": coordinator_epoch,
        "sequence": change.sequence,
        "previous_epoch": change.previous_epoch,
        "epoch": change.epoch,
        "outcome": change.outcome.value,
        "causes": [_cause(cause) for cause in change.causes],
        "assignor": change.assignor,
        "started_ms": change.started_at,
        "finished_ms": change.finished_at,
        "members_before": _members(change.before),
        "members_after": _members(change.after),
        "moved": [
            {
                "topic": move.topic,
                "partition": move.partition,
                "from": move.from_member,
                "to": move.to_member,
                "committed_offset": _committed_offset(committed, move),
            }
            for move in change.moves()
        ],
        "pauses": [{"member": member_id, "ms": ms} for member_id, ms in change.pauses_ms()],
    }


def _committed_offset(committed: CommittedOffsets, move: Move) -> Offset | None:
    of_topic = committed.get(move.topic)
    offset = None if of_topic is None else of_topic.get(move.partition)
    return None if offset is None else offset.offset


def _cause(cause: RebalanceNeeded) -> dict[str, Any]:
    return {
        "code": cause.cause.value,
        "member": cause.member_id,
        "text": cause.detail,
        "at_ms": cause.at,
        "crash_loop": cause.crash_loop,
    }


def _members(members: Mapping[str, MemberThen]) -> list[dict[str, Any]]:
    return [
        {
            "member": member.identity.member_id,
            "instance": member.identity.instance_id,
            "client": member.identity.client_id,
            "host": member.identity.client_host,
            "partitions": _partitions(member.partitions),
        }
        for member in members.values()
    ]


def _partitions(partitions: PartitionsByTopic) -> dict[str, list[PartitionIndex]]:
    return {topic: sorted(indexes) for topic, indexes in sorted(partitions.items()) if indexes}


class NotUnderstood(KlammError):
    """A value is not a record of this version of the schema."""


class HistoryCause(NamedTuple):
    """One cause of a change."""

    code: str
    member_id: str | None
    text: str
    at_ms: int
    is_crash_loop: bool = False
    """Whether the member, or others of its name, have died again and again without a commit."""


class HistoryMember(NamedTuple):
    """A member with its partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: frozenset[tuple[str, int]]


class HistoryMove(NamedTuple):
    """A partition with another owner than before."""

    topic: str
    partition: int
    from_member: str | None
    to_member: str | None
    committed_offset: int | None


class HistoryPause(NamedTuple):
    """How long a member was without partitions that it had before and after."""

    member_id: str
    ms: int


class HistoryRecord(NamedTuple):
    """One change of one group."""

    group_id: str
    group_type: str
    coordinator_epoch: int
    sequence: int
    previous_epoch: int
    epoch: int
    outcome: str
    causes: tuple[HistoryCause, ...]
    assignor: str | None
    started_ms: int
    finished_ms: int
    members_before: tuple[HistoryMember, ...]
    members_after: tuple[HistoryMember, ...]
    moved: tuple[HistoryMove, ...]
    pauses: tuple[HistoryPause, ...]

    @property
    def is_change(self) -> bool:
        """Whether the group has changed: false for a record that only says what limits it, or that it keeps up."""
        return self.outcome not in _LIMITS

    @property
    def members(self) -> dict[str, HistoryMember]:
        """All members before or after the change, by member id."""
        return {member.member_id: member for member in (*self.members_before, *self.members_after)}

    @classmethod
    def decode(cls, value: bytes) -> HistoryRecord:
        """Decodes a value of the topic. Raises NotUnderstood."""
        try:
            data = json.loads(value)
            version = data["version"]
            if version != _VERSION:
                raise NotUnderstood(f"a record of version {version}; this klamm understands version {_VERSION}")
            return cls._from(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise NotUnderstood(f"no record of a group's history: {type(error).__name__} {error}") from None

    @classmethod
    def _from(cls, data: Mapping[str, Any]) -> HistoryRecord:
        return cls(
            group_id=str(data["group"]),
            group_type=str(data["type"]),
            coordinator_epoch=int(data["coordinator_epoch"]),
            sequence=int(data["sequence"]),
            previous_epoch=int(data["previous_epoch"]),
            epoch=int(data["epoch"]),
            outcome=str(data["outcome"]),
            causes=tuple(
                HistoryCause(
                    str(each["code"]),
                    each.get("member"),
                    str(each["text"]),
                    int(each["at_ms"]),
                    bool(each.get("crash_loop", False)),
                )
                for each in data["causes"]
            ),
            assignor=data.get("assignor"),
            started_ms=int(data["started_ms"]),
            finished_ms=int(data["finished_ms"]),
            members_before=tuple(map(_decode_member, data["members_before"])),
            members_after=tuple(map(_decode_member, data["members_after"])),
            moved=tuple(
                HistoryMove(
                    str(each["topic"]), int(each["partition"]), each["from"], each["to"], each.get("committed_offset")
                )
                for each in data["moved"]
            ),
            pauses=tuple(HistoryPause(str(each["member"]), int(each["ms"])) for each in data["pauses"]),
        )


def _decode_member(data: Mapping[str, Any]) -> HistoryMember:
    return HistoryMember(
        member_id=str(data["member"]),
        instance_id=data.get("instance"),
        client_id=str(data["client"]),
        host=str(data["host"]),
        partitions=frozenset((topic, int(index)) for topic, indexes in data["partitions"].items() for index in indexes),
    )
