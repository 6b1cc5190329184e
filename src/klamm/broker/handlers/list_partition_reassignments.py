"""ListPartitionReassignments: which partitions are on their way to other brokers (KIP-455).

There is version 0 only. A partition has one replica, and stays where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from klamm.protocol.schema.list_partition_reassignments_response import ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """Answers that none is."""
    return ListPartitionReassignmentsResponse(error_message=None)


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListPartitionReassignmentsResponse:
    """The answer that refuses the request."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
