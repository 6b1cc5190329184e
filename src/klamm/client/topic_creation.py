"""Creates a topic that does not exist yet, with the broker's defaults: the API CreateTopics."""

from __future__ import annotations

from klamm.client.cluster import Cluster, error_code
from klamm.client.config import ClientConfig
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.operations import Ask, Pause, Steps
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse

__all__ = ["create_missing_topic"]

# Version 4 takes -1 for the broker's numbers of partitions and replicas (KIP-464).
_BROKERS_DEFAULT = -1


def create_missing_topic(cluster: Cluster, topic: str) -> bool:
    """Creates the topic unless it exists; returns whether this call created it.

    Raises `GaveUp` when no broker answers, and `RequestRefused` if the broker does not create the topic.
    """
    cluster.refresh([topic])
    if cluster.topic(topic) is not None:
        return False
    return cluster.run(_creating(cluster.config, topic))


def _creating(config: ClientConfig, topic: str) -> Steps[bool]:
    wanted = CreatableTopic(name=topic, num_partitions=_BROKERS_DEFAULT, replication_factor=_BROKERS_DEFAULT)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=config.request_timeout_ms)
    retries = Retries(config, f"create the topic {topic}")
    while True:
        (answer,) = yield Ask([(None, request)], CreateTopicsResponse)
        if isinstance(answer, ConnectionFailed):
            yield Pause(retries.next_pause_s(answer))
            continue
        result = answer.topics[0]
        code = error_code(result.error_code)
        if code is ErrorCode.NONE:
            return True
        if code is ErrorCode.TOPIC_ALREADY_EXISTS:  # another client was faster
            return False
        if not code.retriable:
            raise RequestRefused(code, f"the topic {topic} does not exist and was not created: {result.error_message}")
        yield Pause(retries.next_pause_s(code.name))
