"""The failures of etcd, and what each means for a transaction: it did not happen, or its outcome is unknown."""

from __future__ import annotations

from typing import Any, Final

import grpc

from klamm.metadata.metadata_store import MetadataStoreError

__all__ = [
    "EtcdCallFailed",
    "EtcdReplaced",
    "EtcdUnavailable",
    "call_failed",
]

_REFUSALS: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
"""etcd gives these answers instead of a change."""
_REFUSALS_BY_TEXT: Final = ("etcdserver: too many requests", "etcdserver: no leader")
_COMPACTED: Final = "required revision has been compacted"
_NO_SPACE: Final = "database space exceeded"
_LEASE_GONE: Final = "requested lease not found"
_BAD_TOKEN: Final = ("invalid auth token", "user name is empty", "revision of auth store is old")
"""The second is etcd's answer to a request without a token, the third that to a token of earlier users or roles."""


class EtcdUnavailable(MetadataStoreError):
    """No member of etcd can be reached, or none has a leader. The request was not sent."""


class EtcdReplaced(MetadataStoreError):
    """The store is not the one that the session began with: another cluster, or an older state of it."""


class EtcdCallFailed(MetadataStoreError):
    """A member answered with an error, or did not answer."""

    def __init__(self, member: str, code: grpc.StatusCode, details: str) -> None:
        super().__init__(_sentence(member, code, details))
        self.code = code
        self.details = details

    @property
    def is_refusal(self) -> bool:
        """Whether the request did not happen, and does not happen later."""
        return self.code in _REFUSALS or self.details.startswith(_REFUSALS_BY_TEXT)

    @property
    def is_compacted(self) -> bool:
        return _COMPACTED in self.details

    @property
    def is_no_space(self) -> bool:
        """Whether etcd's quota is used up. A transaction with this answer may have happened: etcd applies a transaction
        and then finds that the quota is exceeded (`quotaApplierV3.Txn`). It does not happen later.
        """
        return _NO_SPACE in self.details

    @property
    def is_lease_gone(self) -> bool:
        return _LEASE_GONE in self.details

    @property
    def needs_token(self) -> bool:
        """Whether the request had no valid token. It did not happen."""
        return any(text in self.details for text in _BAD_TOKEN)

    @property
    def is_permanent(self) -> bool:
        """Whether the same request is refused again, by each member."""
        return (self.code in _REFUSALS and not self.needs_token) or self.is_no_space

    @property
    def is_about_member(self) -> bool:
        """Whether another member may answer better."""
        return not (self.is_refusal or self.is_no_space) or "no leader" in self.details


def call_failed(member: str, error: Any) -> EtcdCallFailed:
    """Returns gRPC's error as an error of the metadata store."""
    failure = EtcdCallFailed(member, error.code(), error.details() or "")
    failure.__cause__ = error
    return failure


def _sentence(member: str, code: grpc.StatusCode, details: str) -> str:
    if _NO_SPACE in details:
        return (
            f"etcd at {member} has used up its quota (alarm NOSPACE) and accepts no writes: compact and defragment it, "
            f"or raise --quota-backend-bytes, and then remove the alarm with 'etcdctl alarm disarm'"
        )
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"etcd at {member} did not answer in time"
    return f"etcd at {member}: {details or code.name}"
