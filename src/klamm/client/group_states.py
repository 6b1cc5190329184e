"""The states of a cluster's groups: the API ListGroups, sent to every broker."""

from __future__ import annotations

import contextlib

from klamm.client.cluster import Cluster
from klamm.errors import KlammError
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse

__all__ = ["group_states"]


def group_states(cluster: Cluster) -> dict[str, str]:
    """Returns the state of each group by its id, in the words of the protocol (KIP-518).

    Leaves out the groups of a broker that is unreachable, still loads them, or returns no states. Raises `GaveUp` when
    no broker responds.
    """
    states: dict[str, str] = {}
    cluster.refresh(())
    for broker in cluster.brokers():
        with contextlib.suppress(KlammError):
            answer = cluster.connection_to(broker).request(ListGroupsRequest(), ListGroupsResponse)
            states |= {group.group_id: group.group_state for group in answer.groups if group.group_state}
    return states
