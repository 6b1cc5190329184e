"""DescribeAcls: returns the access rules that match a filter (KIP-140).

Versions 1 to 3: v1 patterns of names (KIP-290), v2 flexible, v3 users as resources (KIP-373). klamm has no authorizer
yet, so there are no rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.schema.describe_acls_request import DescribeAclsRequest
from klamm.protocol.schema.describe_acls_response import DescribeAclsResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Raises SECURITY_DISABLED, as Kafka does without an authorizer.

    Raises MalformedMessage for a filter of unknown type; Kafka closes the connection then, too.
    """
    kinds = (request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    if 0 in kinds:
        raise MalformedMessage("a filter of ACLs has a resource type, pattern type, operation or permission of code 0")
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def error_response(
    request: DescribeAclsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeAclsResponse:
    """Returns a response with this error."""
    return DescribeAclsResponse(error_code=code, error_message=message)
