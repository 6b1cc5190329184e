"""Finds the coordinator of a group or a transactional id: the API FindCoordinator.

Version notes: 4 takes several keys at once (KIP-699).
"""

from __future__ import annotations

from typing import Final

from klamm.client.cluster import Cluster, error_code
from klamm.client.config import Address
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse

__all__ = ["GROUP", "TRANSACTION", "coordinator_request", "find_coordinator"]

GROUP: Final = 0
TRANSACTION: Final = 1
_BATCHED_FROM: Final = 4


def find_coordinator(cluster: Cluster, key: str, key_type: int = GROUP) -> Address | ErrorCode:
    """Returns the address of the coordinator of a group or transactional id, or the error code of the response.

    Raises `ConnectionFailed`.
    """
    connection = cluster.any_connection()
    version = connection.version_of(FindCoordinatorRequest.API_KEY, "FindCoordinator", 0, 6)
    answer = connection.request(coordinator_request(key, key_type, version), FindCoordinatorResponse)
    found = answer.coordinators[0] if answer.coordinators else answer
    if found.error_code != ErrorCode.NONE:
        return error_code(found.error_code)
    return found.host, found.port


def coordinator_request(key: str, key_type: int, version: int) -> FindCoordinatorRequest:
    """Returns the request for the coordinator of one group or transactional id, for this version."""
    request = FindCoordinatorRequest(key_type=key_type)
    if version >= _BATCHED_FROM:
        request.coordinator_keys = [key]
    else:
        request.key = key
    return request
