# ConsumerGroupDescribeResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ConsumerGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    NAME = "ConsumerGroupDescribeResponse"
    API_KEY = 69
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("groups", "[]DescribedGroup", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "assignor_name", "members", "authorized_operations", "members_needed", "change_causes", "changing_since_ms")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("group_state", "string", (0, 32767), None, None, None, "", False),
        ("group_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("assignment_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("assignor_name", "string", (0, 32767), None, None, None, "", False),
        ("members", "[]Member", (0, 32767), None, None, None, (), False),
        ("authorized_operations", "int32", (0, 32767), None, None, None, -2147483648, False),
        ("members_needed", "int32", (0, 32767), None, 27500, (0, 32767), -1, True),
        ("change_causes", "[]string", (0, 32767), (0, 32767), 27502, (0, 32767), None, True),
        ("changing_since_ms", "int64", (0, 32767), None, 27503, (0, 32767), -1, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] = NEW,
        authorized_operations: int = -2147483648,
        members_needed: int = -1,
        change_causes: list[str] | None = None,
        changing_since_ms: int = -1,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is NEW else members
        self.authorized_operations = authorized_operations
        self.members_needed = members_needed
        self.change_causes = change_causes
        self.changing_since_ms = changing_since_ms


class Member(Message):
    __slots__ = ("member_id", "instance_id", "rack_id", "member_epoch", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex", "assignment", "target_assignment", "member_type")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("client_id", "string", (0, 32767), None, None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, None, "", False),
        ("subscribed_topic_names", "[]string", (0, 32767), None, None, None, (), False),
        ("subscribed_topic_regex", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("assignment", "Assignment", (0, 32767), None, None, None, (), False),
        ("target_assignment", "Assignment", (0, 32767), None, None, None, (), False),
        ("member_type", "int8", (1, 32767), None, None, None, -1, True),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW,
        subscribed_topic_regex: str | None = None,
        assignment: Assignment = NEW,
        target_assignment: Assignment = NEW,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is NEW else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = Assignment() if assignment is NEW else assignment
        self.target_assignment = Assignment() if target_assignment is NEW else target_assignment
        self.member_type = member_type


class Assignment(Message):
    __slots__ = ("topic_partitions",)
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_partitions", "[]TopicPartitions", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] = NEW,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is NEW else topic_partitions


class TopicPartitions(Message):
    __slots__ = ("topic_id", "topic_name", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions
