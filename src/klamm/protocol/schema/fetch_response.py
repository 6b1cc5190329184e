# FetchResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class FetchResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")
    NAME = "FetchResponse"
    API_KEY = 1
    TYPE = "response"
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("error_code", "int16", (7, 32767), None, None, None, 0, True),
        ("session_id", "int32", (7, 32767), None, None, None, 0, False),
        ("responses", "[]FetchableTopicResponse", (0, 32767), None, None, None, (), False),
        ("node_endpoints", "[]NodeEndpoint", (16, 32767), None, 0, (16, 32767), (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] = NEW,
        node_endpoints: list[NodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class FetchableTopicResponse(Message):
    __slots__ = ("topic", "topic_id", "partitions")
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("topic", "string", (0, 12), None, None, None, "", True),
        ("topic_id", "uuid", (13, 32767), None, None, None, ZERO_UUID, True),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "current_leader", "snapshot_id", "aborted_transactions", "preferred_read_replica", "records")
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("high_watermark", "int64", (0, 32767), None, None, None, 0, False),
        ("last_stable_offset", "int64", (4, 32767), None, None, None, -1, True),
        ("log_start_offset", "int64", (5, 32767), None, None, None, -1, True),
        ("diverging_epoch", "EpochEndOffset", (12, 32767), None, 0, (12, 32767), (), False),
        ("current_leader", "LeaderIdAndEpoch", (12, 32767), None, 1, (12, 32767), (), False),
        ("snapshot_id", "SnapshotId", (12, 32767), None, 2, (12, 32767), (), False),
        ("aborted_transactions", "[]AbortedTransaction", (4, 32767), (4, 32767), None, None, (), True),
        ("preferred_read_replica", "int32", (11, 32767), None, None, None, -1, False),
        ("records", "records", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset = NEW,
        current_leader: LeaderIdAndEpoch = NEW,
        snapshot_id: SnapshotId = NEW,
        aborted_transactions: list[AbortedTransaction] | None = NEW,
        preferred_read_replica: int = -1,
        records: bytes | memoryview | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = EpochEndOffset() if diverging_epoch is NEW else diverging_epoch
        self.current_leader = LeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.snapshot_id = SnapshotId() if snapshot_id is NEW else snapshot_id
        self.aborted_transactions = [] if aborted_transactions is NEW else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class EpochEndOffset(Message):
    __slots__ = ("epoch", "end_offset")
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("epoch", "int32", (12, 32767), None, None, None, -1, False),
        ("end_offset", "int64", (12, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("leader_id", "int32", (12, 32767), None, None, None, -1, False),
        ("leader_epoch", "int32", (12, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(Message):
    __slots__ = ("end_offset", "epoch")
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("end_offset", "int64", (0, 32767), None, None, None, -1, False),
        ("epoch", "int32", (0, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(Message):
    __slots__ = ("producer_id", "first_offset")
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("producer_id", "int64", (4, 32767), None, None, None, 0, False),
        ("first_offset", "int64", (4, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class NodeEndpoint(Message):
    __slots__ = ("node_id", "host", "port", "rack")
    VERSIONS = (4, 18)
    FLEXIBLE_FROM = 12
    FIELDS = (
        ("node_id", "int32", (16, 32767), None, None, None, 0, False),
        ("host", "string", (16, 32767), None, None, None, "", False),
        ("port", "int32", (16, 32767), None, None, None, 0, False),
        ("rack", "string", (16, 32767), (16, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
