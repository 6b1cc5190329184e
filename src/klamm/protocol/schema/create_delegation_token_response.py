# CreateDelegationTokenResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class CreateDelegationTokenResponse(Message):
    __slots__ = ("error_code", "principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "token_id", "hmac", "throttle_time_ms")
    NAME = "CreateDelegationTokenResponse"
    API_KEY = 38
    TYPE = "response"
    VERSIONS = (1, 3)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("principal_type", "string", (0, 32767), None, None, None, "", False),
        ("principal_name", "string", (0, 32767), None, None, None, "", False),
        ("token_requester_principal_type", "string", (3, 32767), None, None, None, "", False),
        ("token_requester_principal_name", "string", (3, 32767), None, None, None, "", False),
        ("issue_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("expiry_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("max_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("token_id", "string", (0, 32767), None, None, None, "", False),
        ("hmac", "bytes", (0, 32767), None, None, None, b'', False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b'',
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms
