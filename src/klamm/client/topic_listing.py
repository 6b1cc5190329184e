"""Lists the topics of a cluster: the API Metadata, for all topics."""

from __future__ import annotations

from klamm.client.cluster import Cluster
from klamm.client.cluster_view import error_code
from klamm.client.config import ClientConfig
from klamm.client.errors import ConnectionFailed
from klamm.client.operations import Ask, Pause, Steps
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse

__all__ = ["list_topics", "listing_topics"]

# From version 1 on, a null list asks for all topics; version 0 used an empty list. No broker in use is that old.
_ALL = None


def list_topics(cluster: Cluster) -> list[str]:
    """Returns the names of the topics that this client may describe, in alphabetical order, without Kafka's internal
    ones.

    One round trip. Raises `GaveUp` when no broker answers.
    """
    return cluster.run(listing_topics(cluster.config))


def listing_topics(config: ClientConfig) -> Steps[list[str]]:
    """Yields the steps of `list_topics`."""
    request = MetadataRequest(topics=_ALL, allow_auto_topic_creation=False)
    retries = Retries(config, "list the topics")
    while True:
        (answer,) = yield Ask([(None, request)], MetadataResponse)
        if not isinstance(answer, ConnectionFailed):
            return sorted(
                topic.name
                for topic in answer.topics
                if topic.name
                and not topic.is_internal
                and error_code(topic.error_code) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        yield Pause(retries.next_pause_s(answer))
