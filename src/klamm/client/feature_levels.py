"""Describes and updates the features of a cluster: the APIs ApiVersions and UpdateFeatures (KIP-584)."""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm._version import __version__
from klamm.client.cluster import Cluster, error_code
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersionsResponse
from klamm.protocol.schema.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.schema.update_features_response import UpdateFeaturesResponse
from klamm.protocol.types import BrokerId

__all__ = ["BrokerFeature", "broker_feature", "upgrade_feature"]

_UPGRADE: Final = 1


class BrokerFeature(NamedTuple):
    """A feature as one broker reports it: the levels that it supports, and the level of the cluster."""

    broker: BrokerId
    lowest: int
    highest: int
    finalized: int
    """0 if the cluster has no level."""


def broker_feature(cluster: Cluster, name: str) -> list[BrokerFeature]:
    """Returns what each broker of the cluster reports about a feature, without the brokers that do not know it.

    Raises `GaveUp` if a broker does not answer, `RequestRefused` for an error.
    """
    cluster.refresh([])
    found: list[BrokerFeature] = []
    for broker in sorted(cluster.brokers()):
        answer = _versions_of(cluster, broker)
        supported = {each.name: each for each in answer.supported_features}
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        if name in supported:
            limits = supported[name]
            found.append(BrokerFeature(broker, limits.min_version, limits.max_version, finalized.get(name, 0)))
    return found


def upgrade_feature(cluster: Cluster, broker: BrokerId, name: str, level: int) -> None:
    """Asks a broker to raise a feature of the cluster to a level. The present level changes nothing.

    Raises `RequestRefused` with the reason, and `GaveUp` if the broker does not answer.
    """
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=_UPGRADE)]
    )
    retries = Retries(cluster.config, f"raise the feature {name}")
    while True:
        try:
            answer = cluster.connection_to(broker).request(request, UpdateFeaturesResponse)
        except ConnectionFailed as error:
            retries.pause(error)
            continue
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            return
        if not code.retriable:
            raise RequestRefused(code, answer.error_message or f"the cluster refused to raise the feature {name}")
        retries.pause(code.name)


def _versions_of(cluster: Cluster, broker: BrokerId) -> ApiVersionsResponse:
    retries = Retries(cluster.config, f"ask broker {broker} for its features")
    request = ApiVersionsRequest(client_software_name="klamm", client_software_version=__version__)
    while True:
        try:
            answer = cluster.connection_to(broker).request(request, ApiVersionsResponse)
        except ConnectionFailed as error:
            retries.pause(error)
            cluster.refresh([])
            continue
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, f"broker {broker} refused to tell its features")
        return answer
