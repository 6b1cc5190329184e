# DescribeDelegationTokenRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeDelegationTokenRequest(Message):
    __slots__ = ("owners",)
    NAME = "DescribeDelegationTokenRequest"
    API_KEY = 41
    TYPE = "request"
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("owners", "[]DescribeDelegationTokenOwner", (0, 32767), (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenOwner] | None = NEW,
    ) -> None:
        self.owners = [] if owners is NEW else owners


class DescribeDelegationTokenOwner(Message):
    __slots__ = ("principal_type", "principal_name")
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("principal_type", "string", (0, 32767), None, None, None, "", False),
        ("principal_name", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
