"""Configurations of topics that differ from the default: the API DescribeConfigs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from klamm.insight.cluster_requests import ClusterRequests
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse

__all__ = ["TopicSettings", "topic_settings"]

_TOPIC: Final = 2
_DEFAULT: Final = 5
_SENSITIVE: Final = "(hidden)"
_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class TopicSettings:
    """The configuration of one topic."""

    def __init__(self, values: Mapping[str, str | None], changed: Collection[str]) -> None:
        self.changed = {key: values[key] for key in sorted(changed)}
        """The keys whose value was set: for the topic, for a broker, or for all brokers."""
        minimum = values.get(_MIN_INSYNC_REPLICAS)
        self.min_insync_replicas = int(minimum) if minimum is not None and minimum.isdecimal() else None
        """None if the cluster does not tell it."""


def topic_settings(requests: ClusterRequests, topics: Collection[str]) -> dict[str, TopicSettings]:
    """Returns the settings by topic, without topics whose configuration may not be described. Raises ClusterError."""
    resources = [
        DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=None) for topic in topics
    ]
    if not resources:
        return {}
    answer = requests.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    settings = {}
    for result in answer.results:
        if not result.error_code:
            values = {each.name: _SENSITIVE if each.is_sensitive else each.value for each in result.configs}
            changed = [each.name for each in result.configs if each.config_source != _DEFAULT]
            settings[result.resource_name] = TopicSettings(values, changed)
    return settings
