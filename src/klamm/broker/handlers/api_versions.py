"""ApiVersions: what this broker serves.

Version 0 to 4: 1 throttle time, 2 no change, 3 flexible, client software and features (KIP-584), 4 features whose
minimum is 0 (KAFKA-17492). The answer's header is always version 0, because the client doesn't know yet what it talks
to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.features import FEATURES
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

SOFTWARE_PATTERN: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""KIP-511's pattern for the name and the version of a client's software."""

_MINIMUM_OF_ZERO_FROM: Final = 4


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Lists the APIs and their versions; remembers what software the client says it is."""
    from klamm.broker.network.dispatch import ADVERTISED_VERSIONS

    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not SOFTWARE_PATTERN.fullmatch(name) or not SOFTWARE_PATTERN.fullmatch(version):
            return error_response(request, context.api_version, ErrorCode.invalid_request)
        context.connection.client_software_name = name
        context.connection.client_software_version = version
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=lowest, max_version=highest)
            for key, (lowest, highest) in ADVERTISED_VERSIONS.items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in FEATURES.items()
            if lowest or context.api_version >= _MINIMUM_OF_ZERO_FROM
        ],
        finalized_features_epoch=context.broker.metadata.image.revision,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=highest, max_version_level=highest)
            for name, (_, highest) in FEATURES.items()
            if highest  # 0 is what a cluster is at that has not finalized the feature
        ],
    )


def error_response(
    request: ApiVersionsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ApiVersionsResponse:
    """The answer that refuses the request."""
    return ApiVersionsResponse(error_code=code)


def unsupported_version_response() -> ApiVersionsResponse:
    """The answer, to be sent in version 0, to a version of ApiVersions that is not served: which ones are
    (KIP-511)."""
    from klamm.broker.network.dispatch import ADVERTISED_VERSIONS

    lowest, highest = ADVERTISED_VERSIONS[ApiKey.API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)],
    )
