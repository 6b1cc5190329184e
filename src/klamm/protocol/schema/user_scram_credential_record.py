# UserScramCredentialRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class UserScramCredentialRecord(Message):
    __slots__ = ("name", "mechanism", "salt", "stored_key", "server_key", "iterations")
    NAME = "UserScramCredentialRecord"
    API_KEY = 11
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, None, 0, False),
        ("salt", "bytes", (0, 32767), None, None, None, b'', False),
        ("stored_key", "bytes", (0, 32767), None, None, None, b'', False),
        ("server_key", "bytes", (0, 32767), None, None, None, b'', False),
        ("iterations", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        salt: bytes = b'',
        stored_key: bytes = b'',
        server_key: bytes = b'',
        iterations: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations
