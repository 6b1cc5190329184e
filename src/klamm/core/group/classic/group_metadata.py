"""What the log says of a classic group: the value of its latest GroupMetadata record.

This is durable state. The round that a group is in right now (`classic_group.py`) starts from it after a load, and
writes a new one when a generation has its assignment.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.protocol.types import Generation, Millis

__all__ = ["GroupMetadata", "MemberMetadata", "NO_METADATA"]


class MemberMetadata(NamedTuple):
    """One member of the generation that the log knows."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the group's protocol; for other protocols it is forgotten."""
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A group as of its latest record. Without members it is empty; without a protocol type only its offsets matter."""

    generation: Generation
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: Millis | None
    """When the group got into the state that the record describes; None in records of very old brokers."""
    members: tuple[MemberMetadata, ...]


NO_METADATA: Final = GroupMetadata(Generation(0), None, None, None, None, ())
"""A simple group: it has offsets, but never had members, so no record of its own."""
