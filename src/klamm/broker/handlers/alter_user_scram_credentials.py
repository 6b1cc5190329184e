"""AlterUserScramCredentials: sets and deletes SCRAM passwords of users (KIP-554).

Version 0 only. klamm does not authenticate clients yet. A password would protect nothing, so klamm stores none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from klamm.protocol.schema.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


Refusal: TypeAlias = "tuple[ErrorCode, str]"

_NOT_TAKEN: Final[Refusal] = (
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    "klamm has no SASL yet: a password would protect nothing.",
)
_TWICE: Final[Refusal] = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)

_ITERATIONS: Final = {1: (4096, 16384), 2: (4096, 16384)}
"""Lowest and highest number of iterations by mechanism: SCRAM-SHA-256, SCRAM-SHA-512."""


def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Work[AlterUserScramCredentialsResponse]:
    """Refuses every user, with the messages of Kafka's `ScramControlManager` where Kafka also refuses.

    A password that Kafka would store gets UNSUPPORTED_SASL_MECHANISM: no listener of klamm uses SASL.
    """
    refusals: dict[str, Refusal] = {}
    accepted_by_kafka: set[str] = set()
    for deletion in request.deletions:
        refusals.setdefault(deletion.name, _why_nothing_to_delete(deletion.name, deletion.mechanism))
        yield None
    for upsertion in request.upsertions:
        name = upsertion.name
        if name in accepted_by_kafka:
            refusals[name] = _TWICE
        elif name not in refusals:
            refusals[name] = refusal = _why_not_taken(upsertion)
            if refusal is _NOT_TAKEN:
                accepted_by_kafka.add(name)
        yield None
    response = AlterUserScramCredentialsResponse()
    for name, (code, message) in refusals.items():
        response.results.append(AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message))
        yield None
    return response


def error_response(
    request: AlterUserScramCredentialsRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterUserScramCredentialsResponse:
    """Returns a response with this error for every user."""
    names = dict.fromkeys(
        [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
    )
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message) for name in names]
    )


def _why_invalid(name: str, mechanism: int) -> Refusal | None:
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in _ITERATIONS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _why_nothing_to_delete(name: str, mechanism: int) -> Refusal:
    absent = ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    return _why_invalid(name, mechanism) or absent


def _why_not_taken(upsertion: ScramCredentialUpsertion) -> Refusal:
    invalid = _why_invalid(upsertion.name, upsertion.mechanism)
    if invalid is not None:
        return invalid
    lowest, highest = _ITERATIONS[upsertion.mechanism]
    if upsertion.iterations < lowest:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > highest:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return _NOT_TAKEN
