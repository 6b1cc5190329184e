"""What can go wrong between a client and a cluster; every text names the peer and what to do next."""

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
    """The connection to a broker could not be made or broke; the same request may be sent again."""


class RequestTimedOut(ConnectionFailed):
    """No answer within `request.timeout.ms`; the connection is closed, since its answers can't be told apart any
    more."""


class AuthenticationFailed(KlammError):
    """Broker and client did not accept who the other is: a certificate, a password, a mechanism. Asking again will not
    change it, so this is no `ConnectionFailed`, which would be tried again."""


class UnsupportedByBroker(KlammError):
    """Broker and client have no version of an API in common."""


class RequestRefused(KlammError):
    """A broker answered with an error that asking again will not change."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(f"{code.name.upper()}: {message}")
        self.code = code


class GaveUp(KlammError):
    """An operation kept failing with errors that usually pass until its time was over."""


class OffsetOutOfRange(KlammError):
    """The offset asked for is not in the log: below its start (retention, DeleteRecords) or beyond its end."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset) -> None:
        super().__init__(f"OFFSET_OUT_OF_RANGE: {topic_partition} has no offset {offset}")
        self.topic_partition = topic_partition
        self.offset = offset


class LogEndsEarly(KlammError):
    """A partition ends before an offset that it once had, and does not grow."""


class PartitionMissing(KlammError):
    """A partition that was to be read does not exist (any more)."""
