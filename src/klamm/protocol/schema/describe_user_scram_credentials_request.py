# DescribeUserScramCredentialsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeUserScramCredentialsRequest(Message):
    __slots__ = ("users",)
    NAME = "DescribeUserScramCredentialsRequest"
    API_KEY = 50
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("users", "[]UserName", (0, 32767), (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        users: list[UserName] | None = NEW,
    ) -> None:
        self.users = [] if users is NEW else users


class UserName(Message):
    __slots__ = ("name",)
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name
