"""Conversations about share groups (KIP-932) and Streams groups (KIP-1071), with `share.version` and `streams.version`
0."""

from __future__ import annotations

from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.schema import (
    delete_share_group_state_request,
    initialize_share_group_state_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    share_acknowledge_request,
    share_fetch_request,
    write_share_group_state_request,
)
from klamm.protocol.schema.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from klamm.protocol.schema.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from klamm.protocol.schema.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from klamm.protocol.schema.share_group_describe_request import ShareGroupDescribeRequest
from klamm.protocol.schema.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from klamm.protocol.schema.streams_group_describe_request import StreamsGroupDescribeRequest
from klamm.protocol.schema.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"


@conversation(ApiKey.SHARE_GROUP_HEARTBEAT)
def share_group_heartbeat(talk: Talk) -> None:
    """Sends heartbeats of a member that joins, stays and leaves."""
    for epoch in (0, 1, -1):
        talk.ask(
            ShareGroupHeartbeatRequest(
                group_id=talk.name("g"), member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=["orders"]
            )
        )


@conversation(ApiKey.SHARE_GROUP_DESCRIBE)
def share_group_describe(talk: Talk) -> None:
    """Describes no group, one group and two groups."""
    for names in ([], ["g"], ["g", "h"]):
        talk.ask(ShareGroupDescribeRequest(group_ids=names))
        talk.ask(ShareGroupDescribeRequest(group_ids=names, include_authorized_operations=True))


@conversation(ApiKey.SHARE_FETCH)
def share_fetch(talk: Talk) -> None:
    """Fetches without partitions, and begins a session with a partition."""
    topic = talk.topic("a")
    talk.ask(share_fetch_request.ShareFetchRequest(group_id="g", member_id=MEMBER))
    topics = [
        share_fetch_request.FetchTopic(
            topic_id=topic.topic_id, partitions=[share_fetch_request.FetchPartition(partition_index=0)]
        )
    ]
    talk.ask(share_fetch_request.ShareFetchRequest(group_id="g", member_id=MEMBER, max_records=10, topics=topics))


@conversation(ApiKey.SHARE_ACKNOWLEDGE)
def share_acknowledge(talk: Talk) -> None:
    """Acknowledges a record in a session that doesn't exist."""
    topic = talk.topic("a")
    batch = share_acknowledge_request.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    partitions = [share_acknowledge_request.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])]
    topics = [share_acknowledge_request.AcknowledgeTopic(topic_id=topic.topic_id, partitions=partitions)]
    talk.ask(
        share_acknowledge_request.ShareAcknowledgeRequest(
            group_id="g", member_id=MEMBER, share_session_epoch=1, topics=topics
        )
    )


@conversation(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
def describe_share_group_offsets(talk: Talk) -> None:
    """Describes the offsets of no group, one group and two groups, for all topics and for one topic."""
    topics = [DescribeShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[0])]
    one = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    other = DescribeShareGroupOffsetsRequestGroup(group_id="h", topics=topics)
    for groups in ([], [one], [one, other]):
        talk.ask(DescribeShareGroupOffsetsRequest(groups=groups))


@conversation(ApiKey.ALTER_SHARE_GROUP_OFFSETS)
def alter_share_group_offsets(talk: Talk) -> None:
    """Alters the offsets of no topic and of one topic."""
    talk.ask(AlterShareGroupOffsetsRequest(group_id="g"))
    partitions = [AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)]
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=partitions)]
    talk.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=topics))


@conversation(ApiKey.DELETE_SHARE_GROUP_OFFSETS)
def delete_share_group_offsets(talk: Talk) -> None:
    """Deletes the offsets of no topic and of one topic."""
    talk.ask(DeleteShareGroupOffsetsRequest(group_id="g"))
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name="orders")]
    talk.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics))


TOPIC_ID = b"\1" * 16


@conversation(ApiKey.INITIALIZE_SHARE_GROUP_STATE)
def initialize_share_group_state(talk: Talk) -> None:
    """Sends a broker's request to the share coordinator, without partitions and for a topic that doesn't exist."""
    module = initialize_share_group_state_request
    talk.ask(module.InitializeShareGroupStateRequest(group_id="g"))
    topic = module.InitializeStateData(topic_id=TOPIC_ID, partitions=[module.PartitionData(partition=0)])
    talk.ask(module.InitializeShareGroupStateRequest(group_id="g", topics=[topic]))


@conversation(ApiKey.READ_SHARE_GROUP_STATE)
def read_share_group_state(talk: Talk) -> None:
    """Sends a broker's request to the share coordinator, without partitions and for a topic that doesn't exist."""
    module = read_share_group_state_request
    talk.ask(module.ReadShareGroupStateRequest(group_id="g"))
    topic = module.ReadStateData(topic_id=TOPIC_ID, partitions=[module.PartitionData(partition=0)])
    talk.ask(module.ReadShareGroupStateRequest(group_id="g", topics=[topic]))


@conversation(ApiKey.WRITE_SHARE_GROUP_STATE)
def write_share_group_state(talk: Talk) -> None:
    """Sends a broker's request to the share coordinator, without partitions and for a topic that doesn't exist."""
    module = write_share_group_state_request
    talk.ask(module.WriteShareGroupStateRequest(group_id="g"))
    topic = module.WriteStateData(topic_id=TOPIC_ID, partitions=[module.PartitionData(partition=0)])
    talk.ask(module.WriteShareGroupStateRequest(group_id="g", topics=[topic]))


@conversation(ApiKey.DELETE_SHARE_GROUP_STATE)
def delete_share_group_state(talk: Talk) -> None:
    """Sends a broker's request to the share coordinator, without partitions and for a topic that doesn't exist."""
    module = delete_share_group_state_request
    talk.ask(module.DeleteShareGroupStateRequest(group_id="g"))
    topic = module.DeleteStateData(topic_id=TOPIC_ID, partitions=[module.PartitionData(partition=0)])
    talk.ask(module.DeleteShareGroupStateRequest(group_id="g", topics=[topic]))


@conversation(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY)
def read_share_group_state_summary(talk: Talk) -> None:
    """Sends a broker's request to the share coordinator, without partitions and for a topic that doesn't exist."""
    module = read_share_group_state_summary_request
    talk.ask(module.ReadShareGroupStateSummaryRequest(group_id="g"))
    topic = module.ReadStateSummaryData(topic_id=TOPIC_ID, partitions=[module.PartitionData(partition=0)])
    talk.ask(module.ReadShareGroupStateSummaryRequest(group_id="g", topics=[topic]))


@conversation(ApiKey.STREAMS_GROUP_HEARTBEAT)
def streams_group_heartbeat(talk: Talk) -> None:
    """Sends heartbeats of a member that joins and leaves."""
    for epoch in (0, -1):
        talk.ask(StreamsGroupHeartbeatRequest(group_id=talk.name("g"), member_id=MEMBER, member_epoch=epoch))


@conversation(ApiKey.STREAMS_GROUP_DESCRIBE)
def streams_group_describe(talk: Talk) -> None:
    """Describes no group, one group and two groups."""
    for names in ([], ["g"], ["g", "h"]):
        talk.ask(StreamsGroupDescribeRequest(group_ids=names))
