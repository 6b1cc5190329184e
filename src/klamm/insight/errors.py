"""Errors of requests to a cluster."""

from __future__ import annotations

from klamm.errors import KlammError

__all__ = ["ClusterError", "HistoryMissing", "InvalidProperty", "NotOffered"]


class ClusterError(KlammError):
    """The cluster refused a request, or no broker answered."""


class NotOffered(ClusterError):
    """The cluster is too old for a request, or klamm's own client does not support the security properties."""


class HistoryMissing(ClusterError):
    """The cluster has no topic `__group_history`."""


class InvalidProperty(KlammError):
    """librdkafka does not accept a configuration property."""
