# NoOpRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class NoOpRecord(Message):
    __slots__ = ()
    NAME = "NoOpRecord"
    API_KEY = 20
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
    )
