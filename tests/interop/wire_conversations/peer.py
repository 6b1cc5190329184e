"""A broker that is compared: creates its topics, and waits until its changes are in effect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from tests.interop.wire_conversations.masks import Masks
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_cluster_response import DescribeClusterResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse
from klamm.protocol.types import TopicId

__all__ = ["Peer", "Topic"]

PATIENCE_SECONDS: Final = 20


class Topic(NamedTuple):
    """A topic of a conversation."""

    name: str
    topic_id: TopicId


class Peer:
    """A broker that is compared, with the state that its conversations share."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.masks = Masks(int(bootstrap_servers.rpartition(":")[2]))
        self.wire = Wire(bootstrap_servers, "set-up")
        self._topics: dict[str, Topic] = {}
        self._settled = 0
        self._probes = 0

    def close(self) -> None:
        """Closes the connection that creates topics."""
        self.wire.socket.close()

    def shared_topic(self, name: str, make: Callable[[], Topic]) -> Topic:
        """Returns the topic of that name, and creates it with the first call."""
        if name not in self._topics:
            self._topics[name] = make()
        return self._topics[name]

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None) -> Topic:
        """Creates a topic and waits until the broker serves it, because Apache Kafka's controller answers before its
        broker knows the topic."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(partitions)
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
        )
        response = self.wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        (result,) = response.topics
        assert not result.error_code, result
        made = Topic(name, TopicId(result.topic_id))
        self.masks.learn_topic(*made)
        asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=asked)])
        self.until(
            lambda: (
                not any(
                    each.error_code
                    for answered in self.wire.call(ListOffsetsResponse, 7, request).topics
                    for each in answered.partitions
                )
            )
        )
        return made

    def wait_for_groups(self, topic: Topic) -> None:
        """Waits until the coordinator of consumer groups knows a topic: until a member gets a partition of it.

        Apache Kafka's coordinator learns of a topic later than the rest of the broker: each of its shards handles new
        metadata as an event of its own (`GroupCoordinatorService.onNewMetadataImage`). The compared brokers have one
        shard, so what one group gets is true for all groups.
        """
        self._probes += 1
        group, member = f"probe-{self._probes}", "probe"

        def joined() -> bool:
            request = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[topic.name],
                topic_partitions=[],
            )
            assigned = self.wire.call(ConsumerGroupHeartbeatResponse, 1, request).assignment
            return assigned is not None and bool(assigned.topic_partitions)

        self.until(joined)
        leave = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1)
        left = self.wire.call(ConsumerGroupHeartbeatResponse, 1, leave)
        assert not left.error_code, left

    def topic_of(self, name: str) -> Topic:
        """Returns an existing topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        (found,) = self.wire.call(MetadataResponse, 12, request).topics
        assert not found.error_code, found
        return Topic(name, TopicId(found.topic_id))

    def settle(self) -> None:
        """Waits until all earlier changes are in effect, by creating another topic after them."""
        self._settled += 1
        self.create_topic(f"settled-{self._settled}")

    def prepare(self) -> None:
        """Waits until the broker serves topics, groups and transactions."""
        cluster_id = self.wire.call(DescribeClusterResponse, 0, DescribeClusterRequest()).cluster_id
        self.masks.learn_text(cluster_id, "<cluster id>")
        self._wait_for_coordinators()

    def _wait_for_coordinators(self) -> None:
        """Waits until the coordinators of groups and transactions answer, and the broker assigns producer ids."""
        self.until(
            lambda: (
                not self.wire.call(
                    FindCoordinatorResponse, 3, FindCoordinatorRequest(key="nobody", key_type=0)
                ).error_code
            )
        )
        for key_type, key in ((1, "nobody"), (2, "nobody:AAAAAAAAAAAAAAAAAAAAAQ:0")):
            self.until(partial(self._is_looked_for, key_type, key))
        producer = InitProducerIdRequest(transactional_id=None)
        self.until(lambda: not self.wire.call(InitProducerIdResponse, 4, producer).error_code)
        groups = [OffsetFetchRequestGroup(group_id="nobody", topics=[])]
        self.until(
            lambda: not self.wire.call(OffsetFetchResponse, 9, OffsetFetchRequest(groups=groups)).groups[0].error_code
        )

    def _is_looked_for(self, key_type: int, key: str) -> bool:
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        (found,) = self.wire.call(FindCoordinatorResponse, 6, request).coordinators
        return found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE

    def until(self, holds: Callable[[], bool]) -> None:
        """Checks the condition repeatedly until it holds. Raises AssertionError after 20 seconds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{self.bootstrap_servers} did not get there in {PATIENCE_SECONDS} s"
            time.sleep(0.005)
