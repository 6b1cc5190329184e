"""Which broker coordinates a group: the API FindCoordinator.

Version notes: 4 asks for several groups at once (KIP-699).
"""

from __future__ import annotations

from typing import Final

from klamm.client.cluster import Cluster, error_code
from klamm.client.config import Address
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse

__all__ = ["find_coordinator"]

_GROUP: Final = 0
_BATCHED_FROM: Final = 4


def find_coordinator(cluster: Cluster, group_id: str) -> Address | ErrorCode:
    """The address of the group's coordinator, or the error that whoever was asked answered with.

    Raises `ConnectionFailed`.
    """
    connection = cluster.any_connection()
    version = connection.version_of(FindCoordinatorRequest.API_KEY, "FindCoordinator", 0, 6)
    request = FindCoordinatorRequest(key_type=_GROUP)
    if version >= _BATCHED_FROM:
        request.coordinator_keys = [group_id]
    else:
        request.key = group_id
    answer = connection.request(request, FindCoordinatorResponse)
    found = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code != ErrorCode.none:
        return error_code(found.error_code)
    return found.host, found.port
