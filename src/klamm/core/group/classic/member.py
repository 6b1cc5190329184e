"""One member of a classic group: the coordinator's volatile state of it.

`group_metadata.py` has the durable state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

from klamm.core.coordinator.shard_contract import Ticket
from klamm.core.group.classic.timers import session_timer
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.types import Millis

__all__ = ["Member", "Protocols", "protocols_of"]

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""The protocols that a member supports, most preferred first, each with the member's metadata for it."""

_MAXIMUM_PROTOCOLS: Final = 1000
"""Limit of a member's protocols that count, the most preferred ones. Clients have one for each assignor, a handful.
Kafka has no limit, but a decision on a hundred thousand of them delays all other groups."""
_LONG_AGO: Final = Millis(0)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """Returns the protocols in a request, at most `_MAXIMUM_PROTOCOLS`."""
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols[:_MAXIMUM_PROTOCOLS])


class Member:
    """A member; `join_ticket` and `sync_ticket` are its parked requests, at most one of each."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "has_committed",
        "is_new",
        "join_ticket",
        "joined_at",
        "kept_assignment",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "session_timer",
        "sync_ticket",
    )

    def __init__(
        self,
        *,
        group_id: str,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
        joined_at: Millis = _LONG_AGO,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.kept_assignment = b""
        """The last assignment, after a rebalance that began again has dropped it: a cooperative member still has it."""
        self.joined_at = joined_at
        """When the member joined under this member id; 0 if it joined under another coordinator."""
        self.has_committed = False
        """Whether the member has committed an offset since then."""
        self.is_new = False
        """Whether the member is in its first join and can't send heartbeats, since it does not know its generation."""
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        self.session_timer = session_timer(group_id, member_id)

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place over restarts of the client (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_alive_while_waiting(self) -> bool:
        """Whether the member needs no heartbeat now: a client that waits for a response can't send any.

        The join of a new member may still time out.
        """
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Returns the member's metadata for that protocol. Raises ValueError if the member does not support it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise ValueError(f"member {self.member_id} does not support protocol {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        """Returns the candidate that the member prefers. Raises ValueError if the member supports none."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ValueError(f"member {self.member_id} supports none of {sorted(candidates)}")

    def protocol_names(self) -> Sequence[str]:
        """Returns the names of the member's protocols, each once."""
        return list(dict.fromkeys(name for name, _ in self.protocols))
