"""UpdateFeatures: changes the levels of the cluster's features (KIP-584).

Versions 0 to 2: v1 kinds of downgrades and validation (KIP-778), v2 no result for each feature any more (KIP-1022).
`klamm.metadata.version` can be raised. Kafka's features are at their highest level from the first start on and stay
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.features import finalized_levels, why_no_level
from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.time_slices import Work, wait_for
from klamm.metadata.metadata_version import METADATA_VERSION_FEATURE
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.schema.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_KAFKAS_METADATA_VERSION: Final = "metadata.version"


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Work[UpdateFeaturesResponse]:
    """Raises klamm's metadata version, and accepts the current level of any other feature: all updates or none.

    Raises INVALID_UPDATE_VERSION, with the messages of Kafka's `FeatureControlManager` where Kafka has one. A refused
    version of the metadata is explained by `plan_version`.
    """
    metadata_version: int | None = None
    # A later update of a feature replaces an earlier one: Kafka's controller collects them by name.
    updates: dict[str, FeatureUpdateKey] = {}
    for update in request.feature_updates:
        updates[update.feature] = update
        yield None
    if updates:
        yield from reach_newest_metadata(context)
    for update in updates.values():
        reason = _why_refused(update, context)
        if reason is not None:
            raise _failure(reason)
        if update.feature == METADATA_VERSION_FEATURE:
            metadata_version = update.max_version_level
        yield None
    if metadata_version is not None:
        raising = context.broker.metadata.raise_metadata_version(metadata_version, validate_only=request.validate_only)
        try:
            yield from wait_for(raising)
        except KafkaError as error:
            if error.code is not ErrorCode.INVALID_UPDATE_VERSION:
                raise
            raise _failure(error.message or error.code.name) from None
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


def _failure(reason: str) -> KafkaError:
    message = f"The update failed for all features since the following feature had an error: {reason}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)


def _why_refused(update: FeatureUpdateKey, context: RequestContext) -> str | None:
    """Returns why the update can't be made, whatever the other brokers know; None if it may be possible."""
    name, level, kind = update.feature, update.max_version_level, update.upgrade_type
    beginning = f"Invalid update version {level} for feature {name}. "
    # Version 0 has `allow_downgrade` instead of the kind. Kafka's controller ignores the field.
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return f"{beginning}The controller does not support the given upgrade type."
    metadata = context.broker.metadata
    reason = why_no_level(name, level, context.broker.node_id, is_shared=metadata.is_shared)
    if reason is not None:
        return beginning + reason
    current = finalized_levels(metadata.image.metadata_version, is_shared=metadata.is_shared).get(name, 0)
    if level < current and kind == _UPGRADE:
        return (
            f"{beginning}Can't downgrade the version of this feature without setting the upgrade type to either safe "
            f"or unsafe downgrade."
        )
    if level > current and kind != _UPGRADE:
        return f"{beginning}Can't downgrade to a newer version."
    if level < current:
        return _why_no_downgrade(update, current)
    return None


def _why_no_downgrade(update: FeatureUpdateKey, current: int) -> str:
    name, level = update.feature, update.max_version_level
    if name != _KAFKAS_METADATA_VERSION:
        return f"Invalid update version {level} for feature {name}. klamm does not downgrade features."
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if update.upgrade_type == _UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    return f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
