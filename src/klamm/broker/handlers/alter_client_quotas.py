"""AlterClientQuotas: sets and removes quotas of users, clients and addresses (KIP-546).

Versions 0 to 1: v1 flexible. klamm has no quotas yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.client_quotas import KEYS
from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema import alter_client_quotas_request, alter_client_quotas_response
from klamm.protocol.schema.alter_client_quotas_request import AlterClientQuotasRequest
from klamm.protocol.schema.alter_client_quotas_response import AlterClientQuotasResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: AlterClientQuotasRequest) -> Work[AlterClientQuotasResponse]:
    """Accepts removals of absent quotas, as Kafka does, and refuses to set a quota: nothing would enforce it."""
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        code, message = yield from _why_refused(entry)
        answer = alter_client_quotas_response.EntryData(error_code=code, error_message=message)
        response.entries.append(answer)
        for entity in entry.entity:
            answer.entity.append(_answer_entity(entity))
            yield None
        yield None
    return response


def error_response(
    request: AlterClientQuotasRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterClientQuotasResponse:
    """Returns a response with this error for every entity."""
    return AlterClientQuotasResponse(entries=[_answer(entry, code, message) for entry in request.entries])


def _why_refused(entry: alter_client_quotas_request.EntryData) -> Work[tuple[ErrorCode, str | None]]:
    known: set[str] = set()
    for entity in entry.entity:
        if entity.entity_type not in KEYS:
            return ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {entity.entity_type}"
        known.update(KEYS[entity.entity_type])
        yield None
    sets_something = False
    for operation in entry.ops:
        if operation.key not in known:
            return ErrorCode.INVALID_REQUEST, f"Invalid configuration key {operation.key}"
        sets_something = sets_something or not operation.remove
        yield None
    if sets_something:
        return ErrorCode.UNSUPPORTED_VERSION, "klamm has no quotas yet: nothing would enforce this one."
    return ErrorCode.NONE, None


def _answer(
    entry: alter_client_quotas_request.EntryData, code: ErrorCode, message: str | None
) -> alter_client_quotas_response.EntryData:
    return alter_client_quotas_response.EntryData(
        error_code=code,
        error_message=message,
        entity=[_answer_entity(entity) for entity in entry.entity],
    )


def _answer_entity(entity: alter_client_quotas_request.EntityData) -> alter_client_quotas_response.EntityData:
    return alter_client_quotas_response.EntityData(entity_type=entity.entity_type, entity_name=entity.entity_name)
