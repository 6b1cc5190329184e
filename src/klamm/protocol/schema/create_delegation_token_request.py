# CreateDelegationTokenRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class CreateDelegationTokenRequest(Message):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")
    NAME = "CreateDelegationTokenRequest"
    API_KEY = 38
    TYPE = "request"
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("owner_principal_type", "string", (3, 32767), (3, 32767), None, None, "", False),
        ("owner_principal_name", "string", (3, 32767), (3, 32767), None, None, "", False),
        ("renewers", "[]CreatableRenewers", (0, 32767), None, None, None, (), False),
        ("max_lifetime_ms", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] = NEW,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is NEW else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreatableRenewers(Message):
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
