"""Requests from a broker how long it keeps the committed offsets of a group without members."""

from __future__ import annotations

from typing import Final

from klamm.client.cluster import Cluster
from klamm.errors import KlammError
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse
from klamm.protocol.types import Millis

__all__ = ["offsets_retention_ms"]

_BROKER: Final = 4
_KEY: Final = "offsets.retention.minutes"
_MINUTE_MS: Final = 60_000


def offsets_retention_ms(cluster: Cluster) -> Millis | None:
    """Returns the shortest `offsets.retention.minutes` of the brokers; None if a broker does not return it, for example
    without the ACL DESCRIBE_CONFIGS on the cluster."""
    try:
        cluster.refresh([])
        found = [_of_broker(cluster, broker) for broker in cluster.brokers()]
    except KlammError:
        return None
    told = [each for each in found if each is not None]
    return Millis(min(told)) if told and len(told) == len(found) else None


def _of_broker(cluster: Cluster, broker: int) -> int | None:
    resource = DescribeConfigsResource(resource_type=_BROKER, resource_name=str(broker), configuration_keys=[_KEY])
    answer = cluster.connection_to(broker).request(  # type: ignore[arg-type]
        DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
    )
    for config in (config for result in answer.results for config in result.configs):
        value: str = config.value or ""
        if config.name == _KEY and value.isdecimal():
            return int(value) * _MINUTE_MS
    return None
