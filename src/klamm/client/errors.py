"""Errors between a client and a cluster. Every text names the peer and what to do next."""

from __future__ import annotations

from klamm.errors import KlammError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import Offset, TopicPartition

__all__ = [
    "AuthenticationFailed",
    "ClientConfigError",
    "ConnectionFailed",
    "GaveUp",
    "LogEndsEarly",
    "OffsetOutOfRange",
    "PartitionMissing",
    "RequestRefused",
    "RequestTimedOut",
    "UnsupportedByBroker",
]


class ClientConfigError(KlammError):
    """A configuration key that is unknown, malformed or not supported."""


class ConnectionFailed(KlammError):
    """A connection to a broker could not be opened, or it broke. The same request may be sent again."""


class RequestTimedOut(ConnectionFailed):
    """No response within `request.timeout.ms`. The connection is closed, since its responses can't be told apart any
    more."""


class AuthenticationFailed(KlammError):
    """Broker or client did not accept the other's certificate, password or mechanism. A retry does not help, so this is
    not a `ConnectionFailed`, which is retried."""


class UnsupportedByBroker(KlammError):
    """Broker and client have no version of an API in common."""


class RequestRefused(KlammError):
    """A broker responded with an error that a retry does not change."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code


class GaveUp(KlammError):
    """An operation failed with retriable errors until its time limit."""


class OffsetOutOfRange(KlammError):
    """The requested offset is not in the log: below its start (retention, DeleteRecords) or beyond its end."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset) -> None:
        super().__init__(f"OFFSET_OUT_OF_RANGE: {topic_partition} has no offset {offset}")
        self.topic_partition = topic_partition
        self.offset = offset


class LogEndsEarly(KlammError):
    """A partition ends before an offset that it once had, and does not grow."""


class PartitionMissing(KlammError):
    """A partition to read does not exist (any more)."""
