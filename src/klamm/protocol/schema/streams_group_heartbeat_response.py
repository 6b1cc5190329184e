# StreamsGroupHeartbeatResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupHeartbeatResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "member_id", "member_epoch", "heartbeat_interval_ms", "acceptable_recovery_lag", "task_offset_interval_ms", "status", "active_tasks", "standby_tasks", "warmup_tasks", "endpoint_information_epoch", "partitions_by_user_endpoint")
    NAME = "StreamsGroupHeartbeatResponse"
    API_KEY = 88
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("heartbeat_interval_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("acceptable_recovery_lag", "int32", (0, 32767), None, None, None, 0, False),
        ("task_offset_interval_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("status", "[]Status", (0, 32767), (0, 32767), None, None, (), False),
        ("active_tasks", "[]TaskIds", (0, 32767), (0, 32767), None, None, None, False),
        ("standby_tasks", "[]TaskIds", (0, 32767), (0, 32767), None, None, None, False),
        ("warmup_tasks", "[]TaskIds", (0, 32767), (0, 32767), None, None, None, False),
        ("endpoint_information_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("partitions_by_user_endpoint", "[]EndpointToPartitions", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag: int = 0,
        task_offset_interval_ms: int = 0,
        status: list[Status] | None = NEW,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.task_offset_interval_ms = task_offset_interval_ms
        self.status = [] if status is NEW else status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint


class Status(Message):
    __slots__ = ("status_code", "status_detail")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("status_code", "int8", (0, 32767), None, None, None, 0, False),
        ("status_detail", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class TaskIds(Message):
    __slots__ = ("subtopology_id", "partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions


class EndpointToPartitions(Message):
    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("user_endpoint", "Endpoint", (0, 32767), None, None, None, (), False),
        ("active_partitions", "[]TopicPartition", (0, 32767), None, None, None, (), False),
        ("standby_partitions", "[]TopicPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        user_endpoint: Endpoint = NEW,
        active_partitions: list[TopicPartition] = NEW,
        standby_partitions: list[TopicPartition] = NEW,
    ) -> None:
        self.user_endpoint = Endpoint() if user_endpoint is NEW else user_endpoint
        self.active_partitions = [] if active_partitions is NEW else active_partitions
        self.standby_partitions = [] if standby_partitions is NEW else standby_partitions


class Endpoint(Message):
    __slots__ = ("host", "port")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class TopicPartition(Message):
    __slots__ = ("topic", "partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions
