"""DescribeUserScramCredentials: returns the users that have a SCRAM password (KIP-554).

Version 0 only. klamm does not authenticate clients yet, so there are no users.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from klamm.protocol.schema.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Work[DescribeUserScramCredentialsResponse]:
    """Returns no users if the request is for all users.

    A named user gets RESOURCE_NOT_FOUND, or DUPLICATE_RESOURCE if the request names it more than once.
    """
    counts: Counter[str] = Counter()
    for user in request.users or ():
        counts[user.name] += 1
        yield None
    response = DescribeUserScramCredentialsResponse()
    for name, count in counts.items():
        response.results.append(_absent(name, count))
        yield None
    return response


def error_response(
    request: DescribeUserScramCredentialsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeUserScramCredentialsResponse:
    """Returns a response with this error."""
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message)


def _absent(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    else:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
