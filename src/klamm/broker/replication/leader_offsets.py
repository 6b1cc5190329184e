"""Asks a leader where its log begins and ends, as a follower whose fetch offset lies outside that log.

Source: `AbstractFetcherThread.fetchOffsetAndApplyTruncateAndBuild` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.types import BrokerId, Offset

if TYPE_CHECKING:
    from klamm.broker.partitions.replica_logs import FollowedLog
    from klamm.broker.services.peers.peers import Peers

__all__ = ["EARLIEST", "LATEST", "ask_for_offset"]

LATEST: Final = -1
EARLIEST: Final = -2


async def ask_for_offset(peers: Peers, node_id: BrokerId, followed: FollowedLog, timestamp: int) -> Offset:
    """Returns the first (`EARLIEST`) or the last (`LATEST`) offset of the leader's log.

    `node_id` is the follower. Raises KafkaError, PeerUnavailable.
    """
    partition = ListOffsetsPartition(
        partition_index=followed.key[1], current_leader_epoch=followed.leader_epoch, timestamp=timestamp
    )
    topic = ListOffsetsTopic(name=followed.log.topic_partition.topic, partitions=[partition])
    request = ListOffsetsRequest(replica_id=node_id, topics=[topic])
    response = await peers.request(followed.leader, request, ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), "the leader does not tell its offsets")
    return Offset(answer.offset)
