"""UpdateFeatures: changes the levels of the cluster's features (KIP-584).

Versions 0 to 2: v1 kinds of downgrades and validation (KIP-778), v2 no result for each feature any more (KIP-1022).
klamm's features are at their highest level from the first start on and stay there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.features import FEATURES, why_no_level
from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.schema.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Work[UpdateFeaturesResponse]:
    """Accepts the current level of a feature.

    Raises INVALID_UPDATE_VERSION for any other level, with the messages of Kafka's `FeatureControlManager`.
    """
    for update in request.feature_updates:
        reason = _why_refused(update, context.broker.node_id)
        if reason is not None:
            reason = (
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}"
            )
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, reason)
        yield None
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version < 2:
        for update in request.feature_updates:
            response.results.append(UpdatableFeatureResult(feature=update.feature, error_message="NONE"))
            yield None
    return response


def error_response(
    request: UpdateFeaturesRequest, version: int, code: ErrorCode, message: str | None = None
) -> UpdateFeaturesResponse:
    """Returns a response with this error."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)


def _why_refused(update: FeatureUpdateKey, node_id: int) -> str | None:
    kind = update.upgrade_type  # version 0 has `allow_downgrade` instead, which Kafka's controller ignores
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    reason = why_no_level(update.feature, update.max_version_level, node_id)
    if reason is not None:
        return reason
    if update.max_version_level == FEATURES[update.feature].max_version:
        return None
    if kind == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return "klamm does not downgrade features."
