# DescribeLogDirsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeLogDirsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "results")
    NAME = "DescribeLogDirsResponse"
    API_KEY = 35
    TYPE = "response"
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (3, 32767), None, None, None, 0, True),
        ("results", "[]DescribeLogDirsResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is NEW else results


class DescribeLogDirsResult(Message):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("log_dir", "string", (0, 32767), None, None, None, "", False),
        ("topics", "[]DescribeLogDirsTopic", (0, 32767), None, None, None, (), False),
        ("total_bytes", "int64", (4, 32767), None, None, None, -1, True),
        ("usable_bytes", "int64", (4, 32767), None, None, None, -1, True),
        ("is_cordoned", "bool", (5, 32767), None, None, None, False, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = NEW,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is NEW else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]DescribeLogDirsPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class DescribeLogDirsPartition(Message):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    VERSIONS = (1, 5)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("partition_size", "int64", (0, 32767), None, None, None, 0, False),
        ("offset_lag", "int64", (0, 32767), None, None, None, 0, False),
        ("is_future_key", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key
