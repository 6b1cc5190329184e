"""Throttles the copies of moving partitions (KIP-73), as `kafka-reassign-partitions --throttle` does.

The configurations of the topics name the replicas: those that a partition has as leaders, those that are added as
followers. The dynamic configurations of the brokers have the rate. An in-sync replica is never throttled.

Source: `ReassignPartitionsCommand` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from klamm.insight.cluster.moving_partitions import reassignments_in_progress
from klamm.insight.cluster_requests import ClusterRequests, code_name
from klamm.insight.errors import ClusterError
from klamm.insight.topic.partition_states import partition_states
from klamm.insight.words import PartitionKey
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.protocol.types import BrokerId

__all__ = ["remove_throttles", "throttle_moves"]

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_LEADERS: Final = "leader.replication.throttled.replicas"
_FOLLOWERS: Final = "follower.replication.throttled.replicas"
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_OWN_SOURCES: Final = (1, 2)
"""DYNAMIC_TOPIC_CONFIG and DYNAMIC_BROKER_CONFIG: the value was set for this topic, or for this broker."""
_ALL_REPLICAS: Final = "*"


def throttle_moves(
    requests: ClusterRequests, plan: Mapping[PartitionKey, Sequence[int]], bytes_per_second: int
) -> None:
    """Limits what each broker sends and receives for the moves of a plan, and for those that are in progress.

    Raises ClusterError.
    """
    moving = reassignments_in_progress(requests)
    wanted = {key: move.target for key, move in moving.items()}
    wanted |= {key: tuple(replicas) for key, replicas in plan.items()}
    leaders: defaultdict[str, list[str]] = defaultdict(list)
    followers: defaultdict[str, list[str]] = defaultdict(list)
    brokers: set[int] = set()
    topics = partition_states(requests, {topic for topic, _ in wanted}, leaves_out_missing=True)
    for state in (state for topic in topics.values() for state in topic.partitions if state.key in wanted):
        adding = moving[state.key].adding if state.key in moving else ()
        sources = [broker for broker in state.replicas if broker not in adding]
        added = [broker for broker in wanted[state.key] if broker not in sources]
        if added:
            leaders[state.topic] += (f"{state.index}:{broker}" for broker in sources)
            followers[state.topic] += (f"{state.index}:{broker}" for broker in added)
            brokers.update(sources, added)
    changes = {
        topic: [_set(_LEADERS, ",".join(leaders[topic])), _set(_FOLLOWERS, ",".join(followers[topic]))]
        for topic in leaders
    }
    _alter_topics(requests, changes)
    rates = [_set(key, str(bytes_per_second)) for key in _RATES]
    # A broker that is away copies nothing.
    _alter_brokers(requests, dict.fromkeys(sorted(brokers.intersection(requests.brokers())), rates))


def remove_throttles(requests: ClusterRequests) -> bool:
    """Removes the throttle of all topics and live brokers. Returns whether there was one.

    A topic whose replicas are all throttled (`*`) keeps its throttle, and then the brokers keep their rates: neither
    `throttle_moves` nor Kafka's tool sets that. Raises ClusterError.
    """
    by_topic = _throttled_topics(requests)
    removable = {
        topic: [_delete(key) for key in values]
        for topic, values in by_topic.items()
        if _ALL_REPLICAS not in values.values()
    }
    _alter_topics(requests, removable)
    if len(removable) < len(by_topic):
        return bool(removable)
    by_broker = {
        broker: [_delete(key) for key in values] for broker, values in _throttled_brokers(requests).items() if values
    }
    _alter_brokers(requests, by_broker)
    return bool(removable or by_broker)


def _throttled_topics(requests: ClusterRequests) -> dict[str, dict[str, str]]:
    """Returns the lists of throttled replicas by topic and key."""
    topics = partition_states(requests, None)
    if not topics:
        return {}
    resources = [
        DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=[_LEADERS, _FOLLOWERS])
        for topic in topics
    ]
    answer = requests.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    found = _own_values(answer)
    return {topic: values for topic, values in found.items() if values}


def _throttled_brokers(requests: ClusterRequests) -> dict[int, dict[str, str]]:
    """Returns the rates by broker and key."""
    questions = {
        broker: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=_BROKER, resource_name=str(broker), configuration_keys=list(_RATES)
                )
            ]
        )
        for broker in requests.brokers()
    }
    answers = requests.ask_each(questions, DescribeConfigsResponse)
    return {broker: _own_values(answer).get(str(broker), {}) for broker, answer in answers.items()}


def _own_values(answer: DescribeConfigsResponse) -> dict[str, dict[str, str]]:
    """Returns the values by resource and key that were set for the resource itself."""
    return {
        result.resource_name: {
            each.name: each.value for each in result.configs if each.value and each.config_source in _OWN_SOURCES
        }
        for result in answer.results
        if not result.error_code
    }


def _set(key: str, value: str) -> AlterableConfig:
    return AlterableConfig(name=key, config_operation=_SET, value=value)


def _delete(key: str) -> AlterableConfig:
    return AlterableConfig(name=key, config_operation=_DELETE, value=None)


def _alter_topics(requests: ClusterRequests, changes: Mapping[str, Sequence[AlterableConfig]]) -> None:
    if changes:
        _check(requests.ask(_request(_TOPIC, changes.items()), IncrementalAlterConfigsResponse))


def _alter_brokers(requests: ClusterRequests, changes: Mapping[int, Sequence[AlterableConfig]]) -> None:
    """Sends the changes to each broker: Kafka's brokers change only their own configuration."""
    questions = {BrokerId(broker): _request(_BROKER, [(str(broker), configs)]) for broker, configs in changes.items()}
    answers = requests.ask_each(questions, IncrementalAlterConfigsResponse)
    for broker in changes:
        if BrokerId(broker) not in answers:
            raise ClusterError(f"broker {broker} does not answer, and only the broker itself can change its throttle")
        _check(answers[BrokerId(broker)])


def _request(
    resource_type: int, changes: Iterable[tuple[str, Sequence[AlterableConfig]]]
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=list(configs))
            for name, configs in changes
        ],
        validate_only=False,
    )


def _check(answer: IncrementalAlterConfigsResponse) -> None:
    for result in answer.responses:
        if result.error_code:
            name = code_name(result.error_code)
            raise ClusterError(f"{name}: {result.error_message}" if result.error_message else name)
