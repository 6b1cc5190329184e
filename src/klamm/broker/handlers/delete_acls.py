"""DeleteAcls: deletes access rules (KIP-140).

Versions 1 to 3: v1 patterns of names (KIP-290), v2 flexible, v3 users as resources (KIP-373). klamm has no authorizer
yet, so there are no rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.schema.delete_acls_request import DeleteAclsRequest
from klamm.protocol.schema.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: DeleteAclsRequest) -> Work[DeleteAclsResponse]:
    """Raises SECURITY_DISABLED, as Kafka does without an authorizer.

    Raises MalformedMessage for a filter of unknown type; Kafka closes the connection then, too.
    """
    for rule in request.filters:
        if 0 in (rule.resource_type_filter, rule.pattern_type_filter, rule.operation, rule.permission_type):
            raise MalformedMessage(
                "a filter of ACLs has a resource type, pattern type, operation or permission of code 0"
            )
        yield None
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def error_response(
    request: DeleteAclsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DeleteAclsResponse:
    """Returns a response with this error for every filter."""
    refusal = DeleteAclsFilterResult(error_code=code, error_message=message)
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
