"""Which states the groups of a cluster are in: the API ListGroups, asked of every broker."""

from __future__ import annotations

import contextlib

from klamm.client.cluster import Cluster
from klamm.errors import KlammError
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse

__all__ = ["group_states"]


def group_states(cluster: Cluster) -> dict[str, str]:
    """States by group id, in the words of the protocol (KIP-518).

    Groups of a broker that can't be reached, that still loads them, or that doesn't tell states are left out. Raises
    `GaveUp` when no broker at all answers.
    """
    states: dict[str, str] = {}
    cluster.refresh(())
    for broker in cluster.brokers():
        with contextlib.suppress(KlammError):
            answer = cluster.connection_to(broker).request(ListGroupsRequest(), ListGroupsResponse)
            states |= {group.group_id: group.group_state for group in answer.groups if group.group_state}
    return states
