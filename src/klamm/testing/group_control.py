"""Lets a test act on a group in its coordinator: rebalances the group, or fences a member."""

from __future__ import annotations

from klamm.broker.server import BrokerServer
from klamm.errors import KlammError
from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = ["fence_member", "rebalance_group"]


async def rebalance_group(server: BrokerServer, group: str) -> None:
    """Makes the group rebalance. Raises KafkaError GROUP_ID_NOT_FOUND or NOT_COORDINATOR."""
    assert server.context is not None
    server.context.groups.administration.rebalance(group)


async def fence_member(server: BrokerServer, group: str, member_id: str) -> None:
    """Removes the member as if its session had timed out.

    Raises KafkaError GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID or NOT_COORDINATOR, and KlammError for a member that waits
    for a rebalance.
    """
    assert server.context is not None
    groups = server.context.groups.administration
    groups.end_session(group, member_id)
    try:
        groups.end_session(group, member_id)
    except KafkaError as error:
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            return
        raise
    raise KlammError(f"member {member_id} of group {group} waits for a rebalance, and has no session that can time out")
