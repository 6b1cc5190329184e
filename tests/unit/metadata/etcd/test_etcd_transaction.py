"""Tests how a transaction becomes a request of etcd, and an answer its outcome."""

from __future__ import annotations

import pytest

from klamm.metadata.etcd.etcd_transaction import (
    MAXIMUM_OPERATIONS,
    TransactionOutcome,
    outcome_of,
    transaction_request,
)
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages
from klamm.metadata.metadata_store import Change, MetadataStoreError

_FENCE = (b"/p/.fences/1f", 4)
_HEADER = messages.ResponseHeader(revision=9)


def _found(revision: int) -> messages.ResponseOp:
    kvs = [messages.KeyValue(mod_revision=revision)] if revision else []
    return messages.ResponseOp(response_range=messages.RangeResponse(kvs=kvs))


def test_every_condition_and_the_fence_are_compared() -> None:
    """The request compares each key's modification, with that of the fence first, and reads the same keys if it
    fails. A leased value has the lease of the session."""
    request = transaction_request(
        b"/p/",
        {"a": 3, "b": 0},
        [Change("a", None), Change("b", b"1", is_leased=True), Change("c", b"2")],
        lease_id=0x1F,
        fence=_FENCE,
    )
    compared = [(each.key, each.mod_revision, each.target, each.result) for each in request.compare]
    is_equal = (messages.Compare.MOD, messages.Compare.EQUAL)
    assert compared == [(b"/p/.fences/1f", 4, *is_equal), (b"/p/a", 3, *is_equal), (b"/p/b", 0, *is_equal)]
    assert [each.request_range.key for each in request.failure] == [b"/p/.fences/1f", b"/p/a", b"/p/b"]
    assert request.success[0].request_delete_range.key == b"/p/a"
    puts = [each.request_put for each in request.success[1:]]
    assert [(put.key, put.value, put.lease) for put in puts] == [(b"/p/b", b"1", 0x1F), (b"/p/c", b"2", 0)]


def test_the_limit_counts_the_fence() -> None:
    """With the fence, a transaction of the largest size has etcd's 128 operations."""
    keys = [str(number) for number in range(MAXIMUM_OPERATIONS)]
    changes = [Change(key, b"") for key in keys]
    request = transaction_request(b"/p/", dict.fromkeys(keys, 0), changes, lease_id=1, fence=_FENCE)
    assert len(request.compare) == len(request.failure) == 128
    with pytest.raises(AssertionError):
        transaction_request(b"/p/", {}, [*changes, Change("more", b"")], lease_id=1, fence=_FENCE)


def test_a_request_that_is_too_large_is_refused() -> None:
    """A request of more than 1.5 MiB is not sent."""
    with pytest.raises(MetadataStoreError, match="its largest value is b with 1572864 bytes"):
        transaction_request(b"/p/", {}, [Change("a", b""), Change("b", bytes(1536 * 1024))], lease_id=1, fence=_FENCE)


def test_the_outcome_of_a_success() -> None:
    """A deletion of absent keys changes nothing, so no watch receives it."""
    nothing = messages.ResponseOp(response_delete_range=messages.DeleteRangeResponse(deleted=0))
    put = messages.ResponseOp(response_put=messages.PutResponse())
    for responses, has_changed in (([nothing], False), ([nothing, put], True)):
        answer = messages.TxnResponse(header=_HEADER, succeeded=True, responses=responses)
        assert outcome_of(answer, {"a": 1}, 4) == TransactionOutcome(9, has_changed, False, None)


@pytest.mark.parametrize(("fence", "is_fenced"), [(4, False), (8, True), (0, True)])
def test_the_outcome_of_a_failure(fence: int, is_fenced: bool) -> None:
    """It has what the keys are, and whether the fence was changed."""
    answer = messages.TxnResponse(header=_HEADER, responses=[_found(fence), _found(0), _found(7)])
    assert outcome_of(answer, {"a": 3, "b": 0}, 4) == TransactionOutcome(9, False, is_fenced, {"a": 0, "b": 7})
