"""AlterClientQuotas: sets and removes quotas of users, clients and addresses (KIP-546).

Versions 0 to 1: v1 flexible. klamm has no quotas yet.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.broker.handlers.shared.client_quotas import ENTITY_TYPES, HIGHEST, keys_of
from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema import alter_client_quotas_request, alter_client_quotas_response
from klamm.protocol.schema.alter_client_quotas_request import AlterClientQuotasRequest, OpData
from klamm.protocol.schema.alter_client_quotas_response import AlterClientQuotasResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

Refusal: TypeAlias = "tuple[ErrorCode, str | None]"

_ACCEPTED: Final[Refusal] = (ErrorCode.NONE, None)
_NOT_ENFORCED: Final[Refusal] = (
    ErrorCode.UNSUPPORTED_VERSION,
    "klamm has no quotas yet: nothing would enforce this one.",
)
_TOLERANCE: Final = 1e-6
"""How far a quota that has to be a whole number may be away from one."""


def handle(context: RequestContext, request: AlterClientQuotasRequest) -> Work[AlterClientQuotasResponse]:
    """Accepts removals of absent quotas, as Kafka does, and refuses to set a quota: nothing would enforce it.

    The answer has each entity once. Checks, codes and messages are those of Kafka's `ClientQuotaControlManager`, except
    that names of hosts are not looked up.
    """
    outcomes: dict[Hashable, tuple[dict[str, str | None], Refusal]] = {}
    for entry in request.entries:
        entity: dict[str, str | None] = {}
        for each in entry.entity:
            entity[each.entity_type] = each.entity_name
            yield None
        # An entity with more types is invalid. It may be very large.
        key = frozenset(entity.items()) if len(entity) <= len(ENTITY_TYPES) else object()
        if key in outcomes or (yield from _has_duplicates(entry.ops)):
            outcomes[key] = entity, _invalid(f"Ignoring duplicate entity {_text(entity)}")
        else:
            outcomes[key] = entity, (yield from _outcome(entity, entry.ops))
    response = AlterClientQuotasResponse()
    for entity, (code, message) in outcomes.values():
        answer = alter_client_quotas_response.EntryData(error_code=code, error_message=message)
        for kind, name in entity.items():
            answer.entity.append(alter_client_quotas_response.EntityData(entity_type=kind, entity_name=name))
            yield None
        response.entries.append(answer)
        yield None
    return response


def error_response(
    request: AlterClientQuotasRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterClientQuotasResponse:
    """Returns a response with this error for every entity."""
    return AlterClientQuotasResponse(entries=[_refuse(entry, code, message) for entry in request.entries])


def _refuse(
    entry: alter_client_quotas_request.EntryData, code: ErrorCode, message: str | None
) -> alter_client_quotas_response.EntryData:
    return alter_client_quotas_response.EntryData(
        error_code=code,
        error_message=message,
        entity=[
            alter_client_quotas_response.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ],
    )


def _has_duplicates(operations: Collection[OpData]) -> Work[bool]:
    keys: set[str] = set()
    for operation in operations:
        if operation.key in keys:
            return True
        keys.add(operation.key)
        yield None
    return False


def _outcome(entity: dict[str, str | None], operations: Collection[OpData]) -> Work[Refusal]:
    refusal = _why_no_entity(entity)
    if refusal is not None:
        return refusal
    keys = keys_of(entity)
    outcome = _ACCEPTED
    for operation in operations:
        # A quota that is not there can be removed, even one with an unknown key.
        if not operation.remove:
            refusal = _why_no_quota(operation, keys)
            if refusal is not None:
                return refusal
            outcome = _NOT_ENFORCED
        yield None
    return outcome


def _why_no_entity(entity: dict[str, str | None]) -> Refusal | None:
    if not entity:
        return _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            return _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            return _invalid(f"Empty {kind} not supported")
    if "ip" in entity and len(entity) > 1:
        return _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"  # as in Kafka
        )
    return None


def _why_no_quota(operation: OpData, keys: Collection[str]) -> Refusal | None:
    key, value = operation.key, operation.value
    if key not in keys:
        return _invalid(f"Invalid configuration key {key}")
    if value <= 0:
        return _invalid(f"Quota {key} must be greater than 0")
    if key in HIGHEST:
        highest, kind = HIGHEST[key]
        if value > highest:
            return _invalid(f"Proposed value for {key} is too large for {kind}.")
        if value % 1 > _TOLERANCE:
            return _invalid(f"{key} cannot be a fractional value.")
    return None


def _invalid(reason: str) -> Refusal:
    return ErrorCode.INVALID_REQUEST, reason


def _text(entity: dict[str, str | None]) -> str:
    """Returns an entity as Kafka prints it."""
    pairs = (f"{kind}={'null' if name is None else name}" for kind, name in entity.items())
    return f"ClientQuotaEntity(entries={{{', '.join(pairs)}}})"
