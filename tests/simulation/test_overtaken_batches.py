"""Tests when worlds let a producer's first batch be out of order, because a later one was written before it."""

from __future__ import annotations

import pytest
from tests.simulation.brokers.clients.producer import may_be_overtaken

from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode

OK = ErrorCode.NONE
BROKEN = ConnectionFailed("the connection broke")
NOT_YET = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("code", NOT_YET)
@pytest.mark.parametrize(
    "later",
    [(OK, OK), (BROKEN, BROKEN), (ErrorCode.REQUEST_TIMED_OUT,), (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,)],
)
def test_a_broker_that_begins_to_lead_may_write_a_later_batch_first(
    code: ErrorCode, later: tuple[ErrorCode | ConnectionFailed, ...]
) -> None:
    """The first batch meets a broker that does not know the partition or its role in it; the next one meets the leader,
    and is written or may be written."""
    assert may_be_overtaken(range(len(later) + 1), [code, *later])


def test_a_batch_between_may_be_refused_too() -> None:
    """The broker begins to lead between the second batch and the third one."""
    not_yet = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert may_be_overtaken([0, 5, 6], [not_yet, ErrorCode.NOT_LEADER_OR_FOLLOWER, OK])


@pytest.mark.parametrize(
    ("sequences", "outcomes"),
    [
        pytest.param([0], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], id="no later batch"),
        pytest.param(
            [0, 1], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2, id="all refused by a broker that leads not yet"
        ),
        pytest.param([0, 1], [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS], id="not written"),
        pytest.param([3, 4], [ErrorCode.NOT_LEADER_OR_FOLLOWER, OK], id="a producer that the log knows"),
        pytest.param([0, 1], [ErrorCode.NOT_ENOUGH_REPLICAS, OK], id="klamm remembers the batch"),
        pytest.param([0, 1], [ErrorCode.KAFKA_STORAGE_ERROR, OK], id="a leader whose disk fails"),
        pytest.param([0, 1], [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, OK], id="refused by the log"),
        pytest.param([0, 1], [BROKEN, OK], id="no answer"),
        pytest.param([], [], id="nothing sent"),
    ],
)
def test_other_batches_are_written_in_order(sequences: list[int], outcomes: list[ErrorCode | ConnectionFailed]) -> None:
    """No later batch may be in the log, or klamm must not have written it before the first one (I10)."""
    assert not may_be_overtaken(sequences, outcomes)
