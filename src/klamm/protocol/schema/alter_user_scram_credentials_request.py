# AlterUserScramCredentialsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AlterUserScramCredentialsRequest(Message):
    __slots__ = ("deletions", "upsertions")
    NAME = "AlterUserScramCredentialsRequest"
    API_KEY = 51
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("deletions", "[]ScramCredentialDeletion", (0, 32767), None, None, None, (), False),
        ("upsertions", "[]ScramCredentialUpsertion", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        deletions: list[ScramCredentialDeletion] = NEW,
        upsertions: list[ScramCredentialUpsertion] = NEW,
    ) -> None:
        self.deletions = [] if deletions is NEW else deletions
        self.upsertions = [] if upsertions is NEW else upsertions


class ScramCredentialDeletion(Message):
    __slots__ = ("name", "mechanism")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Message):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, None, 0, False),
        ("iterations", "int32", (0, 32767), None, None, None, 0, False),
        ("salt", "bytes", (0, 32767), None, None, None, b'', False),
        ("salted_password", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b'',
        salted_password: bytes = b'',
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password
