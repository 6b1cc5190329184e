"""DescribeQuorum: returns the leader and the voters of the metadata quorum (KIP-595).

Versions 0 to 2: v1 the last fetch time of each replica (KIP-836), v2 directory ids and listeners (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.time_slices import Work
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topic_names import METADATA_TOPIC
from klamm.protocol.schema.describe_quorum_request import DescribeQuorumRequest
from klamm.protocol.schema.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: DescribeQuorumRequest) -> Work[DescribeQuorumResponse]:
    """Describes a quorum with this broker as the one voter.

    The log end offset and the high watermark are the revision of the metadata store. The leader epoch is the revision
    of the broker's registration, which rises with every start.

    As in Kafka, the request must name only partition 0 of `__cluster_metadata`; otherwise all its partitions get
    UNKNOWN_TOPIC_OR_PARTITION.
    """
    if len(request.topics) == 1 and request.topics[0].topic_name == METADATA_TOPIC:
        (topic,) = request.topics
        if len(topic.partitions) == 1 and topic.partitions[0].partition_index == 0:
            yield from reach_newest_metadata(context)
            return _quorum(context)
    reason = "This server does not host this topic-partition."
    response = DescribeQuorumResponse()
    for topic in request.topics:
        refused = TopicData(topic_name=topic.topic_name)
        response.topics.append(refused)
        for each in topic.partitions:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.partitions.append(
                PartitionData(partition_index=each.partition_index, error_code=code, error_message=reason)
            )
            yield None
        yield None
    return response


def error_response(
    request: DescribeQuorumRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeQuorumResponse:
    """Returns a response with this error."""
    return DescribeQuorumResponse(error_code=code, error_message=message)


def _quorum(context: RequestContext) -> DescribeQuorumResponse:
    broker = context.broker
    image, now = broker.metadata.image, broker.clock()
    voter = ReplicaState(replica_id=broker.node_id, log_end_offset=image.revision)
    if context.api_version >= 1:
        voter.last_fetch_timestamp = voter.last_caught_up_timestamp = now
    partition = PartitionData(
        partition_index=0,
        leader_id=broker.node_id,
        leader_epoch=image.brokers[broker.node_id].epoch,
        high_watermark=image.revision,
        current_voters=[voter],
    )
    response = DescribeQuorumResponse(topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
    if context.api_version >= 2:
        listener = Listener(
            name=context.connection.listener_name, host=context.advertised_host, port=context.advertised_port
        )
        response.nodes = [Node(node_id=broker.node_id, listeners=[listener])]
    return response
