"""AddRaftVoter: adds a voter to the quorum of controllers (KIP-853).

Versions 0 to 1: v1 the response may come before the change is committed (KIP-1186). klamm's quorum always has one
voter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.quorum import check_voter_change
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.add_raft_voter_request import AddRaftVoterRequest
from klamm.protocol.schema.add_raft_voter_response import AddRaftVoterResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Raises UNSUPPORTED_VERSION, as Kafka does if `kraft.version` is 0."""
    is_valid = request.voter_id >= 0 and request.voter_directory_id != ZERO_UUID
    check_voter_change(context.broker, request.cluster_id, is_valid, "add")
    raise AssertionError("a voter can't be changed")


def error_response(
    request: AddRaftVoterRequest, version: int, code: ErrorCode, message: str | None = None
) -> AddRaftVoterResponse:
    """Returns a response with this error."""
    return AddRaftVoterResponse(error_code=code, error_message=message)
