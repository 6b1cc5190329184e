"""A transaction of etcd: its conditions and changes, what it answers, and the fence of its session.

Each transaction requires that the fence of its session, the key `.fences/<lease>`, is as it was. After an unknown
outcome the session changes this key: a transaction that is still on its way fails then. The key does not exist before
the first unknown outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from klamm.metadata.etcd.etcd_client import Method
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import Change, MetadataStoreError

__all__ = [
    "MAXIMUM_OPERATIONS",
    "TRANSACT",
    "TransactionOutcome",
    "fence_request",
    "fence_revision_of",
    "outcome_of",
    "transaction_request",
]

TRANSACT: Final = Method("/etcdserverpb.KV/Txn", messages.TxnResponse, messages.TxnRequest, True)

MAXIMUM_OPERATIONS: Final = 127
"""etcd's default for --max-txn-ops is 128, and the condition on the fence is one of them."""
_MAXIMUM_REQUEST_BYTES: Final = 1536 * 1024
"""etcd's default for --max-request-bytes."""
_OVERHEAD_BYTES: Final = 512
"""What etcd adds to a request before it compares the size."""


class TransactionOutcome(NamedTuple):
    """What etcd answered. `found`: the `mod_revision` of each key with a condition if it failed, 0 if absent."""

    revision: int
    has_changed: bool
    """Whether a watch receives something for the revision."""
    is_fenced: bool
    """Whether the transaction failed because the fence has changed."""
    found: Mapping[str, int] | None


def transaction_request(
    prefix: bytes,
    conditions: Mapping[str, int],
    changes: Sequence[Change],
    *,
    lease_id: int,
    fence: tuple[bytes, int],
) -> messages.TxnRequest:
    """Returns the request. `fence`: the fence's key and its `mod_revision`. Raises MetadataStoreError if it is too
    large.
    """
    assert len({change.key for change in changes}) == len(changes), "a key occurs once in a transaction"
    assert max(len(conditions), len(changes)) <= MAXIMUM_OPERATIONS, "a transaction is too large"
    fence_key, fence_revision = fence
    keys = [prefix + key.encode() for key in conditions]
    request = messages.TxnRequest(
        compare=[
            _unchanged(fence_key, fence_revision),
            *(_unchanged(key, revision) for key, revision in zip(keys, conditions.values(), strict=True)),
        ],
        success=[_operation(prefix, change, lease_id) for change in changes],
        failure=[_read(key) for key in (fence_key, *keys)],
    )
    size = request.ByteSize()
    if size + _OVERHEAD_BYTES > _MAXIMUM_REQUEST_BYTES:
        largest = max(changes, key=lambda change: len(change.value or b""))
        raise MetadataStoreError(
            f"a metadata transaction has {size} bytes, and etcd accepts {_MAXIMUM_REQUEST_BYTES}: its largest value is "
            f"{largest.key} with {len(largest.value or b'')} bytes"
        )
    return request


def fence_request(fence: tuple[bytes, int], lease_id: int) -> messages.TxnRequest:
    """Returns the request that changes the fence, or finds that it has changed. It may be repeated."""
    key, revision = fence
    return messages.TxnRequest(
        compare=[_unchanged(key, revision)],
        success=[messages.RequestOp(request_put=messages.PutRequest(key=key, lease=lease_id))],
        failure=[_read(key)],
    )


def fence_revision_of(answer: messages.TxnResponse) -> int:
    """Returns the `mod_revision` of the fence after a `fence_request`; 0 if it is gone, because the lease has ended."""
    if answer.succeeded:
        return answer.header.revision
    (found,) = answer.responses
    return _revision_of(found)


def outcome_of(answer: messages.TxnResponse, conditions: Mapping[str, int], fence_revision: int) -> TransactionOutcome:
    """Reads an answer."""
    revision = answer.header.revision
    if answer.succeeded:
        has_changed = any(
            each.HasField("response_put") or each.response_delete_range.deleted for each in answer.responses
        )
        return TransactionOutcome(revision, has_changed, False, None)
    fence, *found = map(_revision_of, answer.responses)
    return TransactionOutcome(revision, False, fence != fence_revision, dict(zip(conditions, found, strict=True)))


def _revision_of(response: messages.ResponseOp) -> int:
    """Returns the `mod_revision` of the key that was read, 0 if it is absent."""
    found = response.response_range.kvs
    return found[0].mod_revision if found else 0


def _unchanged(key: bytes, revision: int) -> messages.Compare:
    return messages.Compare(result=messages.Compare.EQUAL, target=messages.Compare.MOD, key=key, mod_revision=revision)


def _read(key: bytes) -> messages.RequestOp:
    return messages.RequestOp(request_range=messages.RangeRequest(key=key))


def _operation(prefix: bytes, change: Change, lease_id: int) -> messages.RequestOp:
    key = prefix + change.key.encode()
    if change.value is None:
        return messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=key))
    lease = lease_id if change.is_leased else 0
    return messages.RequestOp(request_put=messages.PutRequest(key=key, value=change.value, lease=lease))
