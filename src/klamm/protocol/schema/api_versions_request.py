# ApiVersionsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ApiVersionsRequest(Message):
    __slots__ = ("client_software_name", "client_software_version")
    NAME = "ApiVersionsRequest"
    API_KEY = 18
    TYPE = "request"
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("client_software_name", "string", (3, 32767), None, None, None, "", True),
        ("client_software_version", "string", (3, 32767), None, None, None, "", True),
    )

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
