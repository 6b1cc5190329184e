"""RemoveRaftVoter: removes a voter from the quorum of controllers (KIP-853).

Version 0 only. klamm's quorum always has one voter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.quorum import check_voter_change
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.remove_raft_voter_request import RemoveRaftVoterRequest
from klamm.protocol.schema.remove_raft_voter_response import RemoveRaftVoterResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Raises UNSUPPORTED_VERSION, as Kafka does if `kraft.version` is 0."""
    is_valid = request.voter_id >= 0 and request.voter_directory_id != ZERO_UUID
    check_voter_change(context.broker, request.cluster_id, is_valid, "remove")
    raise AssertionError("a voter can't be changed")


def error_response(
    request: RemoveRaftVoterRequest, version: int, code: ErrorCode, message: str | None = None
) -> RemoveRaftVoterResponse:
    """Returns a response with this error."""
    return RemoveRaftVoterResponse(error_code=code, error_message=message)
