# DelegationTokenRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DelegationTokenRecord(Message):
    __slots__ = ("owner", "requester", "renewers", "issue_timestamp", "max_timestamp", "expiration_timestamp", "token_id")
    NAME = "DelegationTokenRecord"
    API_KEY = 10
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("owner", "string", (0, 32767), None, None, None, "", False),
        ("requester", "string", (0, 32767), None, None, None, "", False),
        ("renewers", "[]string", (0, 32767), None, None, None, (), False),
        ("issue_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("max_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("expiration_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("token_id", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        owner: str = "",
        requester: str = "",
        renewers: list[str] = NEW,
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers = [] if renewers is NEW else renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id
