"""Tests error codes and the exception that carries them."""

from __future__ import annotations

import pickle

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import CorruptRecord


def test_an_error_survives_the_way_between_processes() -> None:
    """An error keeps its code and message when pickled; Spark's workers send exceptions to the driver as pickles."""
    error = pickle.loads(pickle.dumps(KafkaError(ErrorCode.NOT_COORDINATOR, "ask another")))
    assert (error.code, error.message, str(error)) == (
        ErrorCode.NOT_COORDINATOR,
        "ask another",
        "NOT_COORDINATOR: ask another",
    )
    corrupt = pickle.loads(pickle.dumps(CorruptRecord("cut off")))
    assert (corrupt.code, corrupt.message) == (ErrorCode.CORRUPT_MESSAGE, "cut off")


def test_retriable_is_as_java_says() -> None:
    """NOT_COORDINATOR is retriable and UNKNOWN_MEMBER_ID is not, as in Kafka's Java client."""
    assert ErrorCode.NOT_COORDINATOR.retriable
    assert not ErrorCode.UNKNOWN_MEMBER_ID.retriable
