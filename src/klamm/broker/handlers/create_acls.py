"""CreateAcls: creates access rules (KIP-140).

Versions 1 to 3: v1 patterns of names (KIP-290), v2 flexible, v3 users as resources (KIP-373). klamm has no authorizer
yet that could enforce a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.schema.create_acls_request import CreateAclsRequest
from klamm.protocol.schema.create_acls_response import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: CreateAclsRequest) -> Work[CreateAclsResponse]:
    """Raises SECURITY_DISABLED, as Kafka does without an authorizer.

    Raises MalformedMessage for a rule of unknown type; Kafka closes the connection then, too.
    """
    for rule in request.creations:
        if 0 in (rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type):
            raise MalformedMessage("an ACL has a resource type, pattern type, operation or permission of code 0")
        yield None
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def error_response(
    request: CreateAclsRequest, version: int, code: ErrorCode, message: str | None = None
) -> CreateAclsResponse:
    """Returns a response with this error for every rule."""
    refusal = AclCreationResult(error_code=code, error_message=message)
    return CreateAclsResponse(results=[refusal] * len(request.creations))
