"""IncrementalAlterConfigs: sets, unsets, appends to and subtracts from single settings (KIP-339).

Versions 0 to 1: v1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.config_resources import MAXIMUM_CHANGES, AlterRequest, alter_resources
from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.config.alteration import Alteration
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> Work[IncrementalAlterConfigsResponse]:
    """Alters each resource separately, with the codes and messages of Kafka's `ConfigAdminManager`."""
    wanted_changes: list[AlterRequest] = []
    results: list[KafkaError | None] = []
    try:
        return (yield from _alter(context, request, wanted_changes, results))
    finally:
        free_later(wanted_changes, results)


def _alter(
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    wanted_changes: list[AlterRequest],
    results: list[KafkaError | None],
) -> Work[IncrementalAlterConfigsResponse]:
    """Returns the response. The caller frees the changes and their results."""
    for resource in request.resources:
        alterations: list[Alteration] = []
        for config in resource.configs:
            if len(alterations) <= MAXIMUM_CHANGES:  # one above the limit suffices to refuse the resource
                alterations.append(Alteration(config.name, config.config_operation, config.value))
            yield None
        wanted_changes.append(AlterRequest(resource.resource_type, resource.resource_name, alterations, replaces=False))
        yield None
    if wanted_changes:
        yield from reach_newest_metadata(context)
    results += yield from wait_for(alter_resources(context.broker, wanted_changes, validate_only=request.validate_only))
    response = IncrementalAlterConfigsResponse()
    for resource, error in zip(request.resources, results, strict=True):
        response.responses.append(_response(resource, error))
        yield None
    return response


def error_response(
    request: IncrementalAlterConfigsRequest, version: int, code: ErrorCode, message: str | None = None
) -> IncrementalAlterConfigsResponse:
    """Returns a response with this error for every resource."""
    error = KafkaError(code, message)
    return IncrementalAlterConfigsResponse(responses=[_response(resource, error) for resource in request.resources])


def _response(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
