# DescribeClusterRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class DescribeClusterRequest(Message):
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    NAME = "DescribeClusterRequest"
    API_KEY = 60
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("include_cluster_authorized_operations", "bool", (0, 32767), None, None, None, False, False),
        ("endpoint_type", "int8", (1, 32767), None, None, None, 1, False),
        ("include_fenced_brokers", "bool", (2, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers
