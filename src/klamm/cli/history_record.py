"""A record of the topic `__group_history`: one change of one group. docs/reference/group-history.md has the schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from klamm.cli.words import PartitionKey
from klamm.errors import KlammError

__all__ = ["HISTORY_TOPIC", "HistoryCause", "HistoryMember", "HistoryRecord", "Move", "NotUnderstood", "Pause"]

HISTORY_TOPIC: Final = "__group_history"
VERSION: Final = 1


class NotUnderstood(KlammError):
    """A value that is no record of this version of the schema."""


class HistoryCause(NamedTuple):
    """One of the reasons for a change."""

    code: str
    member_id: str | None
    text: str
    at_ms: int
    is_crash_loop: bool = False
    """Whether the member, or one of its name, has died again and again without a commit."""


class HistoryMember(NamedTuple):
    """A member, and what it had."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: frozenset[PartitionKey]


class Move(NamedTuple):
    """A partition that changed hands."""

    topic: str
    partition: int
    from_member: str | None
    to_member: str | None
    committed_offset: int | None


class Pause(NamedTuple):
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
    moved: tuple[Move, ...]
    pauses: tuple[Pause, ...]

    @property
    def members(self) -> dict[str, HistoryMember]:
        """Everybody who was there before or after, by member id."""
        return {member.member_id: member for member in (*self.members_before, *self.members_after)}

    @classmethod
    def decode(cls, value: bytes) -> HistoryRecord:
        """The record in a value of the topic. Raises NotUnderstood."""
        try:
            data = json.loads(value)
            version = data["version"]
            if version != VERSION:
                raise NotUnderstood(f"a record of version {version}; this klamm understands version {VERSION}")
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
            members_before=tuple(map(_member, data["members_before"])),
            members_after=tuple(map(_member, data["members_after"])),
            moved=tuple(
                Move(str(each["topic"]), int(each["partition"]), each["from"], each["to"], each.get("committed_offset"))
                for each in data["moved"]
            ),
            pauses=tuple(Pause(str(each["member"]), int(each["ms"])) for each in data["pauses"]),
        )


def _member(data: Mapping[str, Any]) -> HistoryMember:
    return HistoryMember(
        member_id=str(data["member"]),
        instance_id=data.get("instance"),
        client_id=str(data["client"]),
        host=str(data["host"]),
        partitions=frozenset((topic, int(index)) for topic, indexes in data["partitions"].items() for index in indexes),
    )
