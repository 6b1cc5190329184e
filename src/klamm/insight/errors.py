"""Errors of requests to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.errors import KlammError

if TYPE_CHECKING:
    from klamm.protocol.errors import ErrorCode

__all__ = ["ClusterError", "HistoryMissing", "InvalidProperty", "NotOffered"]


class ClusterError(KlammError):
    """The cluster refused a request, or no broker answered.

    `code` is the broker's error code, None if the error has another cause or comes without its code.
    """

    code: ErrorCode | None = None

    @classmethod
    def refused(cls, code: ErrorCode, reason: str) -> ClusterError:
        """Returns the error of a request that a broker refused with this code."""
        error = cls(f"{code.name}: {reason}")
        error.code = code
        return error


class NotOffered(ClusterError):
    """The cluster is too old for a request, or klamm's own client does not support the security properties."""


class HistoryMissing(ClusterError):
    """The cluster has no topic `__group_history`."""


class InvalidProperty(KlammError):
    """librdkafka does not accept a configuration property."""
