"""AlterConfigs: replaces all settings of a resource, and unsets those that the request leaves out.

Superseded by IncrementalAlterConfigs, and served for older clients. Versions 0 to 2: v1 response before throttling,
v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.config_resources import MAXIMUM_CHANGES, AlterRequest, alter_resources
from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.config.alteration import Alteration, Operation
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from klamm.protocol.schema.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: AlterConfigsRequest) -> Work[AlterConfigsResponse]:
    """Alters each resource separately, with the codes and messages of Kafka's `ConfigAdminManager`."""
    wanted_changes: list[AlterRequest] = []
    results: list[KafkaError | None] = []
    try:
        return (yield from _alter(context, request, wanted_changes, results))
    finally:
        free_later(wanted_changes, results)


def _alter(
    context: RequestContext,
    request: AlterConfigsRequest,
    wanted_changes: list[AlterRequest],
    results: list[KafkaError | None],
) -> Work[AlterConfigsResponse]:
    """Returns the response. The caller frees the changes and their results."""
    for resource in request.resources:
        alterations: list[Alteration] = []
        for config in resource.configs:
            if len(alterations) <= MAXIMUM_CHANGES:  # one above the limit suffices to refuse the resource
                alterations.append(Alteration(config.name, Operation.SET, config.value))
            yield None
        wanted_changes.append(AlterRequest(resource.resource_type, resource.resource_name, alterations, replaces=True))
        yield None
    if wanted_changes:
        yield from reach_newest_metadata(context)
    results += yield from wait_for(alter_resources(context.broker, wanted_changes, validate_only=request.validate_only))
    response = AlterConfigsResponse()
    for resource, error in zip(request.resources, results, strict=True):
        response.responses.append(_response(resource, error))
        yield None
    return response


def error_response(
    request: AlterConfigsRequest, version: int, code: ErrorCode, message: str | None = None
) -> AlterConfigsResponse:
    """Returns a response with this error for every resource."""
    error = KafkaError(code, message)
    return AlterConfigsResponse(responses=[_response(resource, error) for resource in request.resources])


def _response(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
