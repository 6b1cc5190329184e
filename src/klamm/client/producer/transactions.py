"""Transactions of a producer."""

from __future__ import annotations

from typing import NamedTuple

from klamm.protocol.types import LeaderEpoch, Offset

__all__ = ["GroupMember", "OffsetToCommit"]


class OffsetToCommit(NamedTuple):
    """An offset for a partition: the next one to be consumed."""

    offset: Offset
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    metadata: str = ""


class GroupMember(NamedTuple):
    """The member of a group on whose behalf offsets are committed; the coordinator refuses the commit of a member that
    has lost its place."""

    member_id: str
    generation: int
    group_instance_id: str | None = None
