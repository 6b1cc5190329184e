"""Tests that the error for a refused commit tells the user what to do."""

from __future__ import annotations

import pytest

from klamm.client.errors import RequestRefused
from klamm.client.producer.errors import ProducerFailed
from klamm.protocol.errors import ErrorCode
from klamm.spark.sink.checkpoint_batch import CheckpointBatch
from klamm.spark.sink.commit_errors import explained
from klamm.spark.sink.sink_options import SinkOptions

CONFIG = SinkOptions.parse({"kafka.bootstrap.servers": "h:1"}).producer
BATCH = CheckpointBatch("q", 5, "run", "a" * 64, None, None)


@pytest.mark.parametrize(
    ("code", "open_for_s", "message"),
    [
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, 0, "kafka.transaction.timeout.ms=60000 is more than the broker's"),
        (ErrorCode.PRODUCER_FENCED, 1, "Another run of the query"),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 61, "longer than kafka.transaction.timeout.ms=60000"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, 0, "READ on the group klamm.sink.q"),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 0, "WRITE and DESCRIBE on the transactional id klamm.sink.q"),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, 0, "raise offset.metadata.max.bytes"),
    ],
)
def test_refusals(code: ErrorCode, open_for_s: float, message: str) -> None:
    """Each refusal is explained, also if the broker's error is only the cause of another error."""
    error = ProducerFailed("the producer can't continue")
    error.__cause__ = RequestRefused(code, "refused")
    text = str(explained(error, BATCH, CONFIG, open_for_s))

    assert text.startswith("micro-batch 5 of the query q: the producer can't continue. ")
    assert message in text


def test_other_errors_stand_alone() -> None:
    """An error without an explanation is shown with the micro-batch and the query only."""
    assert str(explained(ProducerFailed("why"), BATCH, CONFIG, 0)) == "micro-batch 5 of the query q: why"
