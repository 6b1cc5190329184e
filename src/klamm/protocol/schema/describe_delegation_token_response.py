# DescribeDelegationTokenResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeDelegationTokenResponse(Message):
    __slots__ = ("error_code", "tokens", "throttle_time_ms")
    NAME = "DescribeDelegationTokenResponse"
    API_KEY = 41
    TYPE = "response"
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("tokens", "[]DescribedDelegationToken", (0, 32767), None, None, None, (), False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] = NEW,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is NEW else tokens
        self.throttle_time_ms = throttle_time_ms


class DescribedDelegationToken(Message):
    __slots__ = ("principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp", "expiry_timestamp", "max_timestamp", "token_id", "hmac", "renewers")
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("principal_type", "string", (0, 32767), None, None, None, "", False),
        ("principal_name", "string", (0, 32767), None, None, None, "", False),
        ("token_requester_principal_type", "string", (3, 32767), None, None, None, "", False),
        ("token_requester_principal_name", "string", (3, 32767), None, None, None, "", False),
        ("issue_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("expiry_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("max_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("token_id", "string", (0, 32767), None, None, None, "", False),
        ("hmac", "bytes", (0, 32767), None, None, None, b'', False),
        ("renewers", "[]DescribedDelegationTokenRenewer", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b'',
        renewers: list[DescribedDelegationTokenRenewer] = NEW,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is NEW else renewers


class DescribedDelegationTokenRenewer(Message):
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
