"""ListPartitionReassignments: returns the partitions that are moving to other brokers (KIP-455).

Version 0 only. Partitions are not reassigned so far.
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
    """Returns no partitions."""
    return ListPartitionReassignmentsResponse(error_message=None)


def error_response(
    request: ListPartitionReassignmentsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListPartitionReassignmentsResponse:
    """Returns a response with this error."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
