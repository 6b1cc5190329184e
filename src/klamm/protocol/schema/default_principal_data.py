# DefaultPrincipalData of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class DefaultPrincipalData(Message):
    __slots__ = ("type", "name", "token_authenticated")
    NAME = "DefaultPrincipalData"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("type", "string", (0, 32767), None, None, None, "", False),
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("token_authenticated", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        type: str = "",
        name: str = "",
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
