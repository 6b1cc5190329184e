"""Which topics a cluster has: the API Metadata, asked for all of them."""

from __future__ import annotations

from klamm.client.cluster import Cluster, error_code
from klamm.client.errors import ConnectionFailed
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse

__all__ = ["list_topics"]

# From version 1 on, no list asks for all topics; in version 0 it was an empty one. Brokers that old are gone.
_ALL = None
_GONE = ErrorCode.unknown_topic_or_partition


def list_topics(cluster: Cluster) -> list[str]:
    """The names of the topics that this client may describe, in alphabetical order, Kafka's internal ones left out.

    One round trip. Raises `GaveUp` when no broker answers.
    """
    retries = Retries(cluster.config, "list the topics")
    while True:
        try:
            request = MetadataRequest(topics=_ALL, allow_auto_topic_creation=False)
            answer = cluster.any_connection().request(request, MetadataResponse)
        except ConnectionFailed as error:
            retries.pause(error)
        else:
            return sorted(
                topic.name
                for topic in answer.topics
                if topic.name and not topic.is_internal and error_code(topic.error_code) is not _GONE
            )
