"""Requests from a broker how long it keeps the committed offsets of a group without members."""

from __future__ import annotations

from typing import Final

from klamm.client.cluster import Cluster
from klamm.errors import KlammError
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse
from klamm.protocol.types import BrokerId, Millis

__all__ = ["offsets_retention_ms"]

_BROKER: Final = 4
_KEY: Final = "offsets.retention.minutes"
_MINUTE_MS: Final = 60_000


def offsets_retention_ms(cluster: Cluster) -> Millis | None:
    """Returns the shortest `offsets.retention.minutes` of the brokers that return it; None if none does, for example
    without the ACL DESCRIBE_CONFIGS on the cluster."""
    try:
        cluster.refresh([])
    except KlammError:
        return None
    found = [_of_broker(cluster, broker) for broker in cluster.brokers()]
    return min((each for each in found if each is not None), default=None)


def _of_broker(cluster: Cluster, broker: BrokerId) -> Millis | None:
    resource = DescribeConfigsResource(resource_type=_BROKER, resource_name=str(broker), configuration_keys=[_KEY])
    request = DescribeConfigsRequest(resources=[resource])
    try:
        answer = cluster.connection_to(broker).request(request, DescribeConfigsResponse)
    except KlammError:
        return None
    for config in (config for result in answer.results for config in result.configs):
        value: str = config.value or ""
        if config.name == _KEY and value.isdecimal():
            return Millis(int(value) * _MINUTE_MS)
    return None
