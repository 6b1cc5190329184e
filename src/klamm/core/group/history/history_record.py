"""The record of a change, in the form in which `__group_history` has it: docs/reference/group-history.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from klamm.core.group.events import PartitionsByTopic, RebalanceNeeded
from klamm.core.group.history.change import Change, MemberThen, Move
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex

__all__ = ["CommittedOffsets", "history_record"]

CommittedOffsets: TypeAlias = Mapping[str, Mapping[PartitionIndex, CommittedOffset]]
"""What a group has committed, by topic and partition."""

_VERSION: Final = 1


def history_record(change: Change, coordinator_epoch: LeaderEpoch, committed: CommittedOffsets) -> dict[str, Any]:
    """The record as JSON has it. `committed` is what the group had committed when the change was over."""
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
