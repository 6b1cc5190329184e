"""A cluster whose answers to administrators a test sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from klamm.insight.cluster.moving_partitions import Moving
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.words import PartitionKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from klamm.protocol.schema.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult
from klamm.protocol.schema.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from klamm.protocol.schema.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest
from klamm.protocol.schema.elect_leaders_response import ElectLeadersResponse
from klamm.protocol.schema.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from klamm.protocol.schema.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from klamm.protocol.types import BrokerId

__all__ = ["CannedCluster"]

M = TypeVar("M", bound=Message)


_EMPTY: dict[type[Message], type[Message]] = {
    DescribeConfigsRequest: DescribeConfigsResponse,
    ElectLeadersRequest: ElectLeadersResponse,
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse,
}
"""The requests whose answer is always empty."""


class CannedCluster(ClusterRequests):
    """Brokers, of which some are fenced or cordoned, and topics by name with the replicas of their partitions."""

    def __init__(
        self,
        brokers: Iterable[int],
        topics: Mapping[str, Sequence[tuple[int, ...]]],
        *,
        moving: Iterable[Moving] = (),
        fenced: Iterable[int] = (),
        cordoned: Iterable[int] = (),
    ) -> None:
        self.topics = dict(topics)
        self.moving: dict[PartitionKey, Moving] = {each.key: each for each in moving}
        self.asked: list[Message] = []
        self.leaderless: set[PartitionKey] = set()
        self.behind: dict[PartitionKey, set[int]] = {}
        """The replicas that are not in sync."""
        self.reassignment_error = ErrorCode.NONE
        """The error of all reassignments."""
        self._ids = sorted(brokers)
        self._fenced = set(fenced)
        self._cordoned = set(cordoned)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def brokers(self) -> Sequence[BrokerId]:
        return [BrokerId(broker) for broker in self._ids if broker not in self._fenced]

    def refresh(self) -> None:
        pass

    def ask(self, request: Message, answer: type[M]) -> M:
        self.asked.append(request)
        reply = self._answer(request)
        assert isinstance(reply, answer)
        return reply

    def ask_each(self, questions: Mapping[BrokerId, Message], answer: type[M]) -> dict[BrokerId, M]:
        answers = {}
        for broker, request in questions.items():
            if broker in self.brokers():
                self.asked.append(request)
                reply = self._log_dirs(broker) if isinstance(request, DescribeLogDirsRequest) else self._answer(request)
                assert isinstance(reply, answer)
                answers[broker] = reply
        return answers

    def altered(self) -> dict[str, dict[str, str | None]]:
        """Returns the configurations that were set or deleted (None), by resource."""
        changes: dict[str, dict[str, str | None]] = {}
        for request in self.asked:
            if isinstance(request, IncrementalAlterConfigsRequest):
                for each in request.resources:
                    found = changes.setdefault(each.resource_name, {})
                    found |= {config.name: config.value for config in each.configs}
        return changes

    def _answer(self, request: Message) -> Message:
        match request:
            case DescribeTopicPartitionsRequest():
                return self._metadata(request)
            case ListPartitionReassignmentsRequest():
                return self._reassignments()
            case AlterPartitionReassignmentsRequest():
                return self._reassigned(request)
            case DescribeClusterRequest():
                brokers = [DescribeClusterBroker(broker_id=each, is_fenced=each in self._fenced) for each in self._ids]
                return DescribeClusterResponse(brokers=brokers)
        return _EMPTY[type(request)]()

    def _metadata(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        missing = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        response = DescribeTopicPartitionsResponse(next_cursor=None)
        for name in [topic.name for topic in request.topics] or sorted(self.topics):
            topic = DescribeTopicPartitionsResponseTopic(name=name, error_code=0 if name in self.topics else missing)
            for index, replicas in enumerate(self.topics.get(name, ())):
                described = DescribeTopicPartitionsResponsePartition(
                    partition_index=index,
                    leader_id=-1 if (name, index) in self.leaderless else replicas[0],
                    replica_nodes=list(replicas),
                    isr_nodes=[each for each in replicas if each not in self.behind.get((name, index), ())],
                    eligible_leader_replicas=None,
                    last_known_elr=None,
                )
                topic.partitions.append(described)
            response.topics.append(topic)
        return response

    def _reassignments(self) -> ListPartitionReassignmentsResponse:
        response = ListPartitionReassignmentsResponse(error_message=None)
        for each in self.moving.values():
            ongoing = OngoingPartitionReassignment(
                partition_index=each.index,
                replicas=list(each.replicas),
                adding_replicas=list(each.adding),
                removing_replicas=list(each.removing),
            )
            response.topics.append(OngoingTopicReassignment(name=each.topic, partitions=[ongoing]))
        return response

    def _reassigned(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        response = AlterPartitionReassignmentsResponse(error_code=int(self.reassignment_error), error_message=None)
        for topic in request.topics:
            result = ReassignableTopicResponse(name=topic.name)
            for partition in topic.partitions:
                code = ErrorCode.NONE
                if partition.replicas is None and not self.moving.pop((topic.name, partition.partition_index), None):
                    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
                elif partition.replicas is not None and topic.name not in self.topics:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                index = partition.partition_index
                result.partitions.append(ReassignablePartitionResponse(partition_index=index, error_code=int(code)))
            response.responses.append(result)
        return response

    def _log_dirs(self, broker: BrokerId) -> DescribeLogDirsResponse:
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(is_cordoned=broker in self._cordoned)])
