"""ApiVersions: returns the APIs and versions that this broker serves.

Versions 0 to 4: v1 throttle time, v2 no change, v3 flexible, client software and features (KIP-584), v4 features whose
minimum is 0 (KAFKA-17492). The response header is always version 0, because the client does not know yet which versions
the broker supports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.features import finalized_levels, supported_features
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle", "unsupported_version_response"]

_SOFTWARE_PATTERN: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""KIP-511's pattern for the name and the version of a client's software."""

_MINIMUM_OF_ZERO_FROM: Final = 4


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Returns the APIs and their versions, and stores name and version of the client's software."""
    from klamm.broker.network.dispatch import ADVERTISED_VERSIONS

    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _SOFTWARE_PATTERN.fullmatch(name) or not _SOFTWARE_PATTERN.fullmatch(version):
            return error_response(request, context.api_version, ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name = name
        context.connection.client_software_version = version
    metadata = context.broker.metadata
    finalized = finalized_levels(metadata.image.metadata_version, is_shared=metadata.is_shared)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in ADVERTISED_VERSIONS.items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in supported_features(is_shared=metadata.is_shared).items()
            if lowest or context.api_version >= _MINIMUM_OF_ZERO_FROM
        ],
        finalized_features_epoch=metadata.image.revision,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized.items()
        ],
    )


def error_response(
    request: ApiVersionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ApiVersionsResponse:
    """Returns a response with this error."""
    return ApiVersionsResponse(error_code=code)


def unsupported_version_response() -> ApiVersionsResponse:
    """Returns the response to an unsupported version of ApiVersions, with the supported versions (KIP-511).

    It is sent in version 0.
    """
    from klamm.broker.network.dispatch import ADVERTISED_VERSIONS

    lowest, highest = ADVERTISED_VERSIONS[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)],
    )
