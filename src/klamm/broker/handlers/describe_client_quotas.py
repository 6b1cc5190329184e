"""DescribeClientQuotas: returns the quotas of users, clients and addresses (KIP-546).

Versions 0 to 1: v1 flexible. klamm has no quotas yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.client_quotas import ENTITY_TYPES
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from klamm.protocol.schema.describe_client_quotas_response import DescribeClientQuotasResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def handle(context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Returns no quotas.

    Raises INVALID_REQUEST or UNSUPPORTED_VERSION for filters that Kafka refuses, with the messages of its
    `ClientQuotasImage`.
    """
    kinds: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if kind in kinds:
            reason = f"Entity type {kind} cannot appear more than once in the filter."
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
        _check_match(component)
        kinds.add(kind)
    if "ip" in kinds and len(kinds) > 1:
        reason = (
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    return DescribeClientQuotasResponse()


def error_response(
    request: DescribeClientQuotasRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeClientQuotasResponse:
    """Returns a response with this error."""
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


def _check_match(component: ComponentData) -> None:
    kind, match_type, match = component.entity_type, component.match_type, component.match
    if not kind:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if kind not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if match_type == _EXACT:
        if match is None:
            reason = "Request specified MATCH_TYPE_EXACT, but set match string to null."
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    elif match_type in (_DEFAULT, _ANY):
        if match is not None:
            name = "MATCH_TYPE_DEFAULT" if match_type == _DEFAULT else "MATCH_TYPE_SPECIFIED"
            reason = f"Request specified {name}, but also specified a match string."
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {match_type}")
